//! Tidegate: web server, reverse proxy and streaming cache that runs an nginx.conf.
#![forbid(unsafe_code)]

mod cli;
mod configuration;
mod events;
mod listening;
mod modules;
mod options;
mod report;
mod resources;
mod single;
mod worker;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
