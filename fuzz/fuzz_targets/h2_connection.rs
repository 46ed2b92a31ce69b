//! Fuzzes both ends of an HTTP/2 connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_h2::fuzzing::fuzz_connection(data));
