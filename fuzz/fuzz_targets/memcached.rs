//! Fuzzes the response lines of a memcached `get`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_memcached(data));
