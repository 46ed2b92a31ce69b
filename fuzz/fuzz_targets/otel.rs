//! Fuzzes the parsers of traces: `traceparent`, and a collector's response.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_otel(data));
