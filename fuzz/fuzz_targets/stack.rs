#![no_main]

use hoistway_fuzz::{make, run};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let case = make::case_of_bytes(bytes);
    if let Err(failure) = run(&case) {
        panic!("{failure:#?}\n{case}");
    }
});
