//! Fuzzes the field of cache peers, in requests and responses.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_peer_field(data));
