//! The configuration of the suite fairness: one worker, and a location for each kind of busy client.

use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{SMALL_FILE, Setup, temporary, user};

/// A port of the loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port(pub u16);

impl Port {
    pub(crate) fn address(self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.0))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.address())
    }
}

/// Addresses beside the server's own; none is in use yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub tls: Port,
    /// TCP and UDP of `stream`, to the partner.
    pub stream: Port,
    pub datagrams: Port,
    /// The same with a session for each datagram.
    pub sessions: Port,
    /// The addresses of the partner for TCP and for datagrams.
    pub partner: Port,
    pub echo: Port,
    /// `stream` is a library of this nginx, in [`LIBRARIES`].
    pub loads_stream: bool,
}

/// The directory of nginx's libraries in distributions.
const LIBRARIES: &str = "/usr/lib/nginx/modules";
/// A file for downloads: name and size.
pub(crate) const DOWNLOAD: (&str, u64) = ("download.bin", 16 << 20);
/// A file that can be compressed: name and size.
pub(crate) const TEXT: (&str, u64) = ("text.txt", 8 << 20);
/// Number of parts of a page, each of which is the small file.
pub(crate) const PAGE: (&str, u64) = ("page.shtml", 500);
/// Length of that page as it is served.
pub(crate) const PAGE_BYTES: u64 = PAGE.1 * (SMALL_FILE.1 + 1);
/// Certificate and key, made anew for each server.
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const KEY: &str = "key.pem";
/// The name in the certificate.
pub(crate) const NAME: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The text of nginx.conf.
pub(crate) fn generate(setup: &Setup<'_>, places: Places) -> String {
    let Places { tls, stream, datagrams, sessions, partner, echo, loads_stream } = places;
    let directory = setup.directory.display();
    let (listen, origin, user) = (setup.listen, setup.origin, user(setup));
    let (connections, temporary) = (setup.worker_connections, temporary(setup));
    let library = match loads_stream {
        true => "load_module modules/ngx_stream_module.so;\n",
        false => "",
    };
    let watchdog = match setup.watchdog {
        true => format!("loop_watchdog {}ms;\n", super::LONG_TURN_MILLIS),
        false => String::new(),
    };
    format!(
        "{library}daemon off;\n{user}worker_processes 1;\n{watchdog}pid {directory}/server.pid;\n\
         error_log {directory}/error.log warn;\n\
         events {{\n    worker_connections {connections};\n}}\n\
         stream {{\n\
         \x20   server {{ listen {stream}; proxy_pass {partner}; }}\n\
         \x20   server {{ listen {datagrams} udp; proxy_pass {echo}; }}\n\
         \x20   server {{ listen {sessions} udp; proxy_pass {echo}; proxy_requests 1; proxy_responses 1; }}\n\
         }}\n\
         http {{\n    access_log off;\n{temporary}    sendfile on;\n    tcp_nopush on;\n\
         \x20   open_file_cache max=1000;\n    keepalive_requests 1000000000;\n    keepalive_time 1h;\n\
         \x20   client_max_body_size 0;\n\
         \x20   proxy_cache_path {directory}/cache levels=1:2 keys_zone=bench:10m;\n\
         \x20   server {{\n        listen {listen};\n        listen {tls} ssl;\n\
         \x20       ssl_certificate {directory}/{CERTIFICATE};\n        ssl_certificate_key {directory}/{KEY};\n\
         \x20       root {directory}/html;\n\
         \x20       location = /return {{ return 200 \"{FIXED}\"; }}\n\
         \x20       location = /upload {{ proxy_pass http://{partner}; }}\n\
         \x20       location = /tunnel {{\n            proxy_pass http://{partner};\n\
         \x20           proxy_http_version 1.1;\n            proxy_set_header Upgrade $http_upgrade;\n\
         \x20           proxy_set_header Connection upgrade;\n        }}\n\
         \x20       location = /bytes {{ proxy_pass http://{origin}; proxy_cache bench; }}\n\
         \x20       location = /slow {{ proxy_pass http://{origin}; proxy_cache bench; {SHARED} }}\n\
         \x20       location = /{PAGE} {{ ssi on; ssi_types *; }}\n\
         \x20       location = /{TEXT} {{ gzip on; gzip_types text/plain; }}\n\
         \x20   }}\n}}\n",
        FIXED = super::FIXED_BODY,
        PAGE = PAGE.0,
        TEXT = TEXT.0,
        SHARED = match setup.tempfile_directive {
            true => "proxy_cache_tempfile on;",
            false => "proxy_cache_lock on; proxy_cache_lock_timeout 60s;",
        },
    )
}

/// Writes the files that are served, below the prefix.
///
/// # Errors
/// Those of the disk.
pub(crate) fn prepare(directory: &Path, places: Places) -> io::Result<()> {
    let root = directory.join("html");
    fs::write(root.join(DOWNLOAD.0), vec![b'd'; DOWNLOAD.1 as usize])?;
    let part = format!("<!--#include virtual=\"/{}\" -->\n", SMALL_FILE.0);
    fs::write(root.join(PAGE.0), part.repeat(PAGE.1 as usize))?;
    let mut text = String::new();
    let lines = (0u64..).map(|number| format!("{} {number}\n", number.wrapping_mul(FACTOR)));
    for line in lines {
        text += &line;
        if text.len() as u64 >= TEXT.1 {
            break;
        }
    }
    text.truncate(TEXT.1 as usize);
    fs::write(root.join(TEXT.0), text)?;
    let made = rcgen::generate_simple_self_signed([NAME.to_string()]).map_err(io::Error::other)?;
    fs::write(directory.join(CERTIFICATE), made.cert.pem())?;
    fs::write(directory.join(KEY), made.signing_key.serialize_pem())?;
    if places.loads_stream {
        symlink(LIBRARIES, directory.join("modules"))?;
    }
    Ok(())
}

/// Makes lines that differ: text that compresses to about a half.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
