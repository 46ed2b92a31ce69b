//! A configuration with many virtual servers, as a hosting provider has them.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Writes a configuration of this number of servers, each with two names and three locations. The text of the responses
/// to `/` distinguishes one configuration from the next.
pub(super) fn write(servers: usize, address: SocketAddr, directory: &Path, text: &str) -> String {
    let directory = directory.display();
    let mut out = format!(
        "daemon off;
worker_processes 2;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    gzip on;
    server_names_hash_max_size 65536;
    server_names_hash_bucket_size 128;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    proxy_set_header Host $host;
    upstream app {{ server 127.0.0.1:9; server 127.0.0.1:10; keepalive 16; }}
"
    );
    for number in 0..servers {
        let _ = write!(
            out,
            "    server {{
        listen {address};
        server_name site{number}.example.com www.site{number}.example.com;
        root {directory}/site{number};
        access_log {directory}/access.log;
        location / {{ return 200 {text}; }}
        location /api/ {{
            proxy_pass http://app;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_read_timeout 30s;
        }}
        location ~ \\.(png|jpg|css|js)$ {{ expires 7d; add_header Cache-Control public; }}
    }}
"
        );
    }
    out.push_str("}\n");
    out
}
