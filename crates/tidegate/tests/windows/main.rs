//! The server on Windows as a process; run under Wine by `scripts/windows.sh`.
#![cfg(windows)]

mod names;
mod server;
mod service;
mod threads;
