//! Tidegate: web server, reverse proxy and streaming cache that runs an nginx.conf.
#![forbid(unsafe_code)]

mod cli;
mod configuration;
mod demo;
mod events;
mod handover;
mod listening;
mod master;
mod modules;
mod options;
mod order;
mod panics;
mod report;
mod resources;
mod single;
mod version;
mod worker;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
