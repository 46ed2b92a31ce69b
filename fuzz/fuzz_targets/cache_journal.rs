//! Fuzzes snapshot and journal of the cache's index.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_cache::fuzz_journal(data));
