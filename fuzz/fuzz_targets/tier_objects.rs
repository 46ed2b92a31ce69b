//! Fuzzes the objects of a cache's second tier, and its lists of purges.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_tier_objects(data));
