//! Fuzzes responses of Consul, etcd and Docker about servers of groups.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_modules::fuzz_discovery(data));
