//! Fuzzes filters of error logs, and their lines of JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_error_log(data));
