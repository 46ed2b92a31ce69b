//! Fuzzes databases in the format MaxMind DB.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_geoip2(data));
