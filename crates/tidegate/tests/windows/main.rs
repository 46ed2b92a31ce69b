//! The server on Windows as a process; run under Wine by `scripts/windows.sh`.
#![cfg(windows)]

mod files;
mod names;
mod server;
mod service;
mod threads;
