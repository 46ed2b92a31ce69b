//! The configurations of the rows.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Servers of groups in the row of large responses.
pub(super) const PEERS: usize = 10_000;
/// Zones in the row of large responses, and of memory.
pub(super) const ZONES: usize = 5_000;

/// The addresses of a server: that of requests, and that of its figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) front: SocketAddr,
    pub(super) figures: SocketAddr,
}

/// Returns a configuration with `http` as the further contents of its block, and a server that shows figures.
fn file(main: &str, http: &str, addresses: Addresses, directory: &Path) -> String {
    let (directory, figures) = (directory.display(), addresses.figures);
    format!(
        "daemon off; user root;
pid {directory}/pid;
error_log {directory}/error.log;
{main}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
{http}
    server {{
        listen {figures};
        location /api {{ api; }}
        location = /own {{ metrics tidegate; }}
        location = /all {{ metrics tidegate nginxplus vts; }}
        location = /status {{ dashboard; }}
    }}
}}
"
    )
}

/// Zones of a server and of three locations.
pub(super) fn counted(addresses: Addresses, directory: &Path) -> String {
    let front = addresses.front;
    let http = format!(
        "    server {{
        listen {front}; status_zone all;
        location /a {{ status_zone a; return 200 a; }}
        location /b {{ status_zone b; return 200 b; }}
        location /c {{ status_zone c; return 200 c; }}
    }}"
    );
    file("worker_processes 2;", &http, addresses, directory)
}

/// A zone for each value of an argument, in two threads.
pub(super) fn keyed(addresses: Addresses, directory: &Path) -> String {
    let (front, most) = (addresses.front, ZONES + 1);
    let http = format!(
        "    server {{ listen {front}; location / {{ status_zone $arg_z zone=z:{most}; return 200 a; }} }}"
    );
    file("worker_processes 2;", &http, addresses, directory)
}

/// Groups with very many servers, and very many zones; event-loop iterations above 2 ms are counted.
pub(super) fn large(addresses: Addresses, directory: &Path) -> String {
    let (front, most) = (addresses.front, ZONES + 1);
    let mut http = String::new();
    for group in 0..10 {
        let _ = writeln!(http, "    upstream group{group} {{ zone group{group} 8m;");
        for peer in 0..PEERS / 10 {
            let _ =
                writeln!(http, "        server 127.{group}.{}.{}:9;", peer / 250, peer % 250 + 1);
        }
        http.push_str("    }\n");
    }
    let _ = write!(
        http,
        "    server {{ listen {front}; location / {{ status_zone $arg_z zone=z:{most}; return 200 a; }} }}"
    );
    file("worker_processes 2; loop_watchdog 2ms;", &http, addresses, directory)
}

/// A server as many are: zones, groups, a cache.
pub(super) fn usual(addresses: Addresses, directory: &Path) -> String {
    let front = addresses.front;
    let path = directory.display();
    let mut http = format!("    proxy_cache_path {path}/cache keys_zone=pages:10m;\n");
    for site in 0..20 {
        let _ = writeln!(
            http,
            "    upstream app{site} {{ zone app{site} 64k; server 127.0.0.1:9; server 127.0.0.1:10; }}
    server {{
        listen {front}; server_name site{site}.example.com; status_zone site{site};
        location /static/ {{ status_zone static{site}; return 200 a; }}
        location / {{ status_zone app{site}; proxy_pass http://app{site}; proxy_cache pages; }}
    }}"
        );
    }
    file("worker_processes 2;", &http, addresses, directory)
}

/// Requests without and with spans, which go to a collector at this address.
pub(super) fn traced(
    addresses: Addresses,
    directory: &Path,
    collector: Option<SocketAddr>,
) -> String {
    let front = addresses.front;
    let (exporter, trace) = match collector {
        None => (String::new(), ""),
        Some(collector) => (
            format!("    otel_exporter {{ endpoint {collector}; protocol http/protobuf; }}\n"),
            "otel_trace on; ",
        ),
    };
    let http =
        format!("{exporter}    server {{ listen {front}; location / {{ {trace}return 200 a; }} }}");
    file("worker_processes 1;", &http, addresses, directory)
}
