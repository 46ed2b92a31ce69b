//! Fuzzes the server's end of an HTTP/3 connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_h3::fuzzing::fuzz_connection(data));
