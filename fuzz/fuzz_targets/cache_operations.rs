//! Fuzzes a sequence of operations on the cache store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_cache::fuzz::fuzz_operations(data));
