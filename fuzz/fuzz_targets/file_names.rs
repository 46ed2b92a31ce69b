//! Fuzzes names of files: a file is served under its own name only.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_os::names::fuzz_names(data));
