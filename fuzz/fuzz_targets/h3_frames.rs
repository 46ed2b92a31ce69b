//! Fuzzes frames of HTTP/3.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_h3::fuzzing::fuzz_frames(data));
