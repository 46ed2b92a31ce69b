//! Fuzzes a configuration file: lexer, parser and the excerpts of its diagnostics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_conf::fuzz_config(data));
