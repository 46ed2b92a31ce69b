//! Fuzzes databases in the legacy GeoIP format.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_geoip(data));
