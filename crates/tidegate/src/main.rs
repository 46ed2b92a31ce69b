//! Tidegate: web server, reverse proxy and streaming cache that runs an nginx.conf.
#![forbid(unsafe_code)]
// Without a master some of what it does with a generation, its files and threads is done by nobody.
#![cfg_attr(windows, allow(dead_code))]

mod cli;
mod configuration;
mod demo;
mod events;
mod generation;
#[cfg(unix)]
mod handover;
mod listening;
#[cfg(unix)]
mod master;
mod modules;
mod options;
mod order;
mod panics;
mod pidfile;
mod report;
mod resources;
mod rights;
mod single;
mod start;
mod version;
mod worker;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
