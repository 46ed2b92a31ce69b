//! Fuzzes a body in gRPC-Web, and its type.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_codec::fuzzing::fuzz_grpc_web(data));
