//! Fuzzes a PROXY protocol header, versions 1 and 2.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_proxy_protocol(data));
