//! Fuzzes the header of a cache file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_cache::fuzz_header(data));
