//! Fuzzes JSON Web Key Sets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_jose::fuzzing::fuzz_key_set(data));
