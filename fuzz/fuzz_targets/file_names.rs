//! Fuzzes names of files: what is served, is served under its own name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_os::names::fuzz_names(data));
