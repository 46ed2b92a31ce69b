//! Fuzzes expressions that select requests of the live log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_log_query(data));
