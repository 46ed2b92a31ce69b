//! Fuzzes the entries of shared purges.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_purge_entries(data));
