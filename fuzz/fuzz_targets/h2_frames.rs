//! Fuzzes frames of HTTP/2.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_h2::fuzzing::fuzz_frames(data));
