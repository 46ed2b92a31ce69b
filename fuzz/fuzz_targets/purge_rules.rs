//! Fuzzes the file of purge rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_cache::fuzz_purge_rules(data));
