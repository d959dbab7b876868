//! Some thousand seeded cases of the fuzzer, each twice: as many as fit into some seconds.

use hoistway_fuzz::source::{Rng, mix};
use hoistway_fuzz::{Case, make, run_twice};

fn must_pass(what: &str, case: &Case) {
    if let Err(failure) = run_twice(case) {
        panic!("{what}: {failure:#?}\n{case}");
    }
}

#[test]
fn short_cases_of_every_kind_keep_the_rules() {
    for seed in 0..4000 {
        must_pass(&format!("seed {seed}"), &make::case(&mut Rng::new(seed), 120));
    }
}

#[test]
fn long_cases_keep_the_rules() {
    for seed in 0..60 {
        must_pass(&format!("seed {seed}"), &make::case(&mut Rng::new(mix(seed)), 3000));
    }
}

/// The way in of libFuzzer: any bytes are operations.
#[test]
fn any_bytes_keep_the_rules() {
    for seed in 0..600u64 {
        let len = 20 + seed as usize * 7 % 2000;
        let bytes: Vec<u8> = (0..len as u64).map(|n| mix(seed << 32 | n) as u8).collect();
        must_pass(&format!("bytes of seed {seed}"), &make::case_of_bytes(&bytes));
    }
    must_pass("no bytes", &make::case_of_bytes(&[]));
    must_pass("one byte for everything", &make::case_of_bytes(&[255; 3000]));
}
