//! The configuration of the suite growth: the same place in several sizes, side by side in one server.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::{FIXED_BODY, SMALL_FILE, Setup, temporary, user};
use crate::load::TestRequest;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growing {
    /// `location /prefix/`; the one in the middle is requested.
    Prefixes,
    /// `location = /name`, likewise.
    Names,
    /// `location ~ pattern`; the last one is requested.
    Patterns,
    /// `server_name ~pattern`, on an address of their own; the last one is requested.
    Hosts,
    /// Entries of a `map`; the one in the middle is looked up.
    Map,
    /// Regular expressions of a `map`; the last one matches.
    MapPatterns,
    /// Networks of a `geo`; the one in the middle is looked up.
    Networks,
    /// Keys of a `limit_req_zone`, each of them requested in turn.
    Keys,
    /// Objects of a cache, likewise.
    Objects,
    /// Idle connections beside those of the load.
    Connections,
}

impl Growing {
    /// The address at which the place of a size is: that of the server, or one of its own beside it.
    pub(crate) fn address(self, server: SocketAddr, size: u64) -> SocketAddr {
        let [.., high, low] = size.to_be_bytes();
        match self {
            Growing::Hosts => SocketAddr::from(([127, 1, high, low], server.port())),
            _ => server,
        }
    }

    /// The requests that find the place of a size.
    pub(crate) fn asks(self, size: u64) -> Vec<TestRequest> {
        let (middle, last) = (size / 2, size - size.min(1));
        let fixed = |target| vec![TestRequest::counted(target, FIXED_BODY.len() as u64)];
        match self {
            Growing::Prefixes => fixed(format!("/prefix{size}/x{middle}/")),
            Growing::Names => fixed(format!("/name{size}/x{middle}")),
            Growing::Patterns => fixed(format!("/pattern{size}/x{last}")),
            Growing::Hosts => fixed(format!("http://k{last}.test/")),
            Growing::Map => fixed(format!("/map{size}?k=k{middle}")),
            Growing::MapPatterns => fixed(format!("/mappattern{size}?k=k{last}")),
            Growing::Networks => fixed(format!("/network{size}?k={}", network(middle, 7))),
            Growing::Connections => fixed("/".to_owned()),
            Growing::Keys | Growing::Objects => {
                let step = size.div_ceil(ASKS_MAX);
                (0..size).step_by(step as usize).map(|number| self.member(size, number)).collect()
            }
        }
    }

    /// All requests that a place of this size must have had before; none where the configuration makes its size.
    pub(crate) fn members(self, size: u64) -> impl Iterator<Item = TestRequest> {
        let is_filled = matches!(self, Growing::Keys | Growing::Objects);
        (0..if is_filled { size } else { 0 }).map(move |number| self.member(size, number))
    }

    fn member(self, size: u64, number: u64) -> TestRequest {
        match self {
            Growing::Objects => TestRequest::counted(
                format!("/object{size}?n={OBJECT_BYTES}&max-age=86400&k={number}"),
                OBJECT_BYTES,
            ),
            _ => TestRequest::counted(format!("/key{size}?k=k{number}"), SMALL_FILE.1),
        }
    }

    /// What it needs at the level of `http`.
    fn write_http(self, text: &mut String, size: u64, setup: &Setup<'_>) {
        // Writing to a String cannot fail.
        let _ = match self {
            Growing::Hosts => (0..size).try_for_each(|number| {
                let address = self.address(setup.listen, size);
                writeln!(
                    text,
                    "server {{ listen {address}; server_name ~^k{number}\\.test$; \
                     return 200 \"{FIXED_BODY}\"; }}"
                )
            }),
            Growing::Map => write_entries(text, "map", size, |number| format!("k{number}")),
            Growing::MapPatterns => {
                write_entries(text, "mappattern", size, |number| format!("~^k{number}$"))
            }
            Growing::Networks => {
                let _ = writeln!(text, "geo $arg_k $network{size} {{\n default none;");
                for number in 0..size {
                    let _ = writeln!(text, " {}/24 \"{FIXED_BODY}\";", network(number, 0));
                }
                writeln!(text, "}}")
            }
            Growing::Keys => writeln!(
                text,
                "limit_req_zone $arg_k zone=key{size}:{}k rate={RATE}r/s;",
                1024 + size * KEY_BYTES / 1024
            ),
            Growing::Objects => writeln!(
                text,
                "proxy_cache_path {}/cache/{size} levels=1:2 keys_zone=object{size}:{}k \
                 inactive=1d use_temp_path=off;",
                setup.directory.display(),
                1024 + size * KEY_BYTES / 1024
            ),
            Growing::Prefixes | Growing::Names | Growing::Patterns | Growing::Connections => Ok(()),
        };
    }

    /// Its locations.
    fn write_locations(self, text: &mut String, size: u64, setup: &Setup<'_>) {
        let body = format!("{{ return 200 \"{FIXED_BODY}\"; }}");
        let mut nested = |place: &str, location: &dyn Fn(u64) -> String| {
            let _ = writeln!(text, "location /{place}{size}/ {{");
            for number in 0..size {
                let _ = writeln!(text, " location {} {body}", location(number));
            }
            let _ = writeln!(text, "}}");
        };
        let _ = match self {
            Growing::Prefixes => {
                nested("prefix", &|number| format!("/prefix{size}/x{number}/"));
                Ok(())
            }
            Growing::Names => {
                nested("name", &|number| format!("= /name{size}/x{number}"));
                Ok(())
            }
            Growing::Patterns => {
                nested("pattern", &|number| format!("~ ^/pattern{size}/x{number}$"));
                Ok(())
            }
            Growing::Map => writeln!(text, "location = /map{size} {{ return 200 $map{size}; }}"),
            Growing::MapPatterns => {
                writeln!(text, "location = /mappattern{size} {{ return 200 $mappattern{size}; }}")
            }
            Growing::Networks => {
                writeln!(text, "location = /network{size} {{ return 200 $network{size}; }}")
            }
            Growing::Keys => writeln!(
                text,
                "location = /key{size} {{ limit_req zone=key{size} burst=1000000 nodelay; \
                 alias {}/html/{}; }}",
                setup.directory.display(),
                SMALL_FILE.0
            ),
            Growing::Objects => writeln!(
                text,
                "location = /object{size} {{ proxy_pass http://{}/bytes; proxy_cache object{size}; \
                 proxy_http_version 1.1; proxy_set_header Connection \"\"; }}",
                setup.origin
            ),
            Growing::Hosts => Ok(()),
            Growing::Connections => writeln!(text, "location / {body}"),
        };
    }
}

fn write_entries(
    text: &mut String,
    name: &str,
    size: u64,
    entry: impl Fn(u64) -> String,
) -> std::fmt::Result {
    writeln!(text, "map $arg_k ${name}{size} {{\n default none;")?;
    for number in 0..size {
        writeln!(text, " {} \"{FIXED_BODY}\";", entry(number))?;
    }
    writeln!(text, "}}")
}

/// An address in the network of a number.
fn network(number: u64, host: u8) -> String {
    let [.., high, middle, low] = number.to_be_bytes();
    format!("{}.{middle}.{low}.{host}", 10 + u64::from(high))
}

/// The text of nginx.conf with a place of each size.
pub(crate) fn generate(setup: &Setup<'_>, growing: Growing, sizes: &[u64]) -> String {
    let directory = setup.directory.display();
    let (listen, user, temporary) = (setup.listen, user(setup), temporary(setup));
    let connections = setup.worker_connections;
    let descriptors = match setup.privileged {
        true => format!("worker_rlimit_nofile {};\n", connections * 2 + 512),
        false => String::new(),
    };
    let (mut http, mut locations) = (String::new(), String::new());
    let sizes = if growing == Growing::Connections { &sizes[..1] } else { sizes };
    for size in sizes {
        growing.write_http(&mut http, *size, setup);
        growing.write_locations(&mut locations, *size, setup);
    }
    format!(
        "daemon off;\n{user}worker_processes 1;\n{descriptors}pid {directory}/server.pid;\n\
         events {{\n    worker_connections {connections};\n}}\n\
         http {{\n    access_log off;\n{temporary}    open_file_cache max=1000;\n\
         \x20   keepalive_requests 1000000000;\n    keepalive_timeout 1h;\n    keepalive_time 1h;\n\
         \x20   map_hash_max_size 1048576;\n    map_hash_bucket_size 128;\n{http}\
         \x20   server {{\n        listen {listen};\n        root {directory}/html;\n{locations}    }}\n}}\n"
    )
}

/// Distinct requests of a load at most: enough that what they find is in no processor's cache.
const ASKS_MAX: u64 = 65_536;
/// Small, so that the index is what grows.
const OBJECT_BYTES: u64 = 100;
/// Room for a key in either server.
const KEY_BYTES: u64 = 256;
/// More than is sent: no request is refused.
const RATE: u64 = 1_000_000;
