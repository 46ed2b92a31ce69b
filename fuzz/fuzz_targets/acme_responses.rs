//! Fuzzes the responses of an ACME server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_acme::fuzzing::fuzz_responses(data));
