#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hoistway_fuzz::files::recording(bytes));
