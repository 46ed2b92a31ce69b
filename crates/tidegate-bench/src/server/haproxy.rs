//! HAProxy as a plain reverse proxy, or in front of php-fpm: one thread, connections kept for any client.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use crate::config::{PHP_SOCKET, Scenario};

pub(super) const CONFIG_FILE: &str = "haproxy.cfg";

/// Writes the configuration.
pub(super) fn write_config(
    directory: &Path,
    listen: SocketAddr,
    origin: SocketAddr,
    scenario: Scenario,
) -> io::Result<()> {
    let shown = directory.display();
    let (application, backend) = match scenario {
        Scenario::PhpKept => (
            format!("fcgi-app php\n    docroot {shown}/html\n    option keep-conn\n"),
            format!("use-fcgi-app php\n    server php unix@{shown}/{PHP_SOCKET} proto fcgi"),
        ),
        _ => (String::new(), format!("server origin {origin}")),
    };
    let config = format!(
        "global\n    nbthread 1\n    maxconn {CONNECTIONS}\n\
         defaults\n    mode http\n    maxconn {CONNECTIONS}\n\
         \x20   timeout connect 60s\n    timeout client 60s\n    timeout server 60s\n\
         {application}\
         frontend clients\n    bind {listen}\n    default_backend backends\n\
         backend backends\n    http-reuse always\n    {backend}\n"
    );
    fs::write(directory.join(CONFIG_FILE), config)
}

/// More connections than a load opens, and few enough for both ends within the usual limit of descriptors.
const CONNECTIONS: u32 = 8_000;
