//! Fuzzes a `Cache-Control` header.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_cache_control(data));
