//! Fuzzes QUIC over a link that loses, damages and reorders.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_quic::fuzzing::fuzz_packets(data));
