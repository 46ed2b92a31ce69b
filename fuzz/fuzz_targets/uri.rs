//! Fuzzes a request target: decoding, dot segments, merged slashes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_uri(data));
