//! Fuzzes replies of engines that keep state for several servers (RESP2, RESP3).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_store::resp::fuzz_replies(data));
