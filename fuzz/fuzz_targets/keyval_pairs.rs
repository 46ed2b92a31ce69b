//! Fuzzes pairs as JSON: bodies of commands and files of `keyval_zone`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_keyval_pairs(data));
