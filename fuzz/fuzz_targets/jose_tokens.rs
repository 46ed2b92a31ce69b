//! Fuzzes JSON Web Tokens.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_jose::fuzzing::fuzz_token(data));
