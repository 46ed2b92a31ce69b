//! Fuzzes values of logs whose lines are JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_json_log(data));
