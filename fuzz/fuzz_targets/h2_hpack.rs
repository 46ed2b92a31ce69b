//! Fuzzes header blocks of HTTP/2.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_h2::fuzzing::fuzz_hpack(data));
