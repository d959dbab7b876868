#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hoistway_serve::front::nbd::fuzz_harness::handshake(bytes));
