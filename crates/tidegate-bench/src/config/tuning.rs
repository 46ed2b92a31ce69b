//! The configurations of the suite tuning: the directives of each changed setting, and none for defaults.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::{FIXED_BODY, PROXY_KEEPALIVE, Setup, block, temporary, user};

/// The configured settings; all others have the server's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knobs {
    /// `return 200` in place of `proxy_pass`.
    pub fixed: bool,
    /// `worker_processes`
    pub workers: Option<&'static str>,
    /// `worker_cpu_affinity auto`
    pub affinity: bool,
    /// `worker_connections`
    pub connections: Option<u32>,
    /// `accept_mutex`
    pub accept_mutex: Option<bool>,
    /// `multi_accept on`
    pub multi_accept: bool,
    /// `listen … deferred`
    pub deferred: bool,
    /// `listen … reuseport`
    pub reuseport: bool,
    /// An `upstream` block in place of an address.
    pub upstream: bool,
    /// `keepalive 32` with 2000 requests, and the directives that it needs.
    pub keepalive: bool,
    /// Two servers in the block.
    pub second: bool,
}

impl Knobs {
    /// Nothing is written.
    pub(crate) const NONE: Knobs = Knobs {
        fixed: false,
        workers: None,
        affinity: false,
        connections: None,
        accept_mutex: None,
        multi_accept: false,
        deferred: false,
        reuseport: false,
        upstream: false,
        keepalive: false,
        second: false,
    };
}

/// The text of nginx.conf.
pub(super) fn generate(setup: &Setup<'_>, knobs: Knobs, second: Option<SocketAddr>) -> String {
    let directory = setup.directory.display();
    let mut text = format!("daemon off;\n{}pid {directory}/server.pid;\n", user(setup));
    let mut line = |line: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = text.write_fmt(line);
        text.push('\n');
    };
    if let Some(workers) = knobs.workers {
        line(format_args!("worker_processes {workers};"));
    }
    if knobs.affinity {
        line(format_args!("worker_cpu_affinity auto;"));
    }
    line(format_args!("events {{"));
    if let Some(connections) = knobs.connections {
        line(format_args!("    worker_connections {connections};"));
    }
    if let Some(on) = knobs.accept_mutex {
        line(format_args!("    accept_mutex {};", if on { "on" } else { "off" }));
    }
    if knobs.multi_accept {
        line(format_args!("    multi_accept on;"));
    }
    line(format_args!("}}\nhttp {{\n    access_log off;"));
    line(format_args!("{}", temporary(setup)));
    if knobs.upstream {
        line(format_args!("    upstream origin {{\n        server {};", setup.origin));
        if let Some(second) = second.filter(|_| knobs.second) {
            line(format_args!("        server {second};"));
        }
        if knobs.keepalive {
            line(format_args!("        keepalive 32;\n        keepalive_requests 2000;"));
        }
        line(format_args!("    }}"));
    }
    let parameters = [(knobs.deferred, " deferred"), (knobs.reuseport, " reuseport")];
    let parameters: String =
        parameters.iter().filter(|(on, _)| *on).map(|(_, parameter)| *parameter).collect();
    line(format_args!("    server {{\n        listen {}{parameters};", setup.listen));
    line(format_args!("        location / {{\n{}        }}\n    }}\n}}", content(setup, knobs)));
    text
}

fn content(setup: &Setup<'_>, knobs: Knobs) -> String {
    if knobs.fixed {
        return block(&[&format!("return 200 \"{FIXED_BODY}\";")]);
    }
    if knobs.keepalive {
        return block(&PROXY_KEEPALIVE);
    }
    match knobs.upstream {
        true => block(&["proxy_pass http://origin;"]),
        false => block(&[&format!("proxy_pass http://{};", setup.origin)]),
    }
}
