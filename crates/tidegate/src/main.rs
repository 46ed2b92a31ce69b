//! Tidegate: web server, reverse proxy and streaming cache that runs an nginx.conf.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tidegate::Server::new().run()
}
