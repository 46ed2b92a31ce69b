//! Fuzzes a chunked body with its trailers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_chunked(data));
