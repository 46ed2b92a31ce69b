//! Fuzzes the first message of a TLS client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_client_hello(data));
