//! Fuzzes a `Range` header.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_http::fuzzing::fuzz_range(data));
