//! Texts of the demonstration: configuration, welcome page, instructions.

use std::path::Path;

/// Lines of the configuration, each with a directive that the build must have for the line to be included.
const LINES: &[(&str, &str)] = &[
    ("daemon", "daemon off;"),
    ("master_process", "master_process off;"),
    ("worker_processes", "worker_processes 2;"),
    ("pid", "pid {dir}/nginx.pid;"),
    ("error_log", "error_log {dir}/error.log notice;"),
    ("events", "events { }"),
    ("http", "http {"),
    ("access_log", "    access_log {dir}/access.log;"),
    ("client_body_temp_path", "    client_body_temp_path {dir}/body;"),
    ("proxy_temp_path", "    proxy_temp_path {dir}/proxy;"),
    ("fastcgi_temp_path", "    fastcgi_temp_path {dir}/fastcgi;"),
    ("uwsgi_temp_path", "    uwsgi_temp_path {dir}/uwsgi;"),
    ("scgi_temp_path", "    scgi_temp_path {dir}/scgi;"),
    ("proxy_cache_path", "    proxy_cache_path {dir}/cache keys_zone=demo:1m;"),
    ("server", "    server {"),
    ("listen", "        listen 127.0.0.1:{port};"),
    ("root", "        root {dir}/html;"),
    ("proxy_pass", "        location /slow/ {"),
    ("proxy_pass", "            proxy_pass http://127.0.0.1:{origin};"),
    ("proxy_cache_path", "            proxy_cache demo;"),
    ("proxy_cache_path", "            proxy_cache_valid 200 1m;"),
    ("proxy_cache_path", "            proxy_cache_lock on;"),
    ("proxy_cache_tempfile", "            proxy_cache_tempfile on;"),
    ("proxy_cache_path", "            add_header X-Cache $upstream_cache_status;"),
    ("proxy_pass", "        }"),
    ("stub_status", "        location = /status { stub_status; }"),
    ("server", "    }"),
    ("http", "}"),
];

/// Returns the configuration of the demonstration.
pub(super) fn configuration(directory: &Path, port: u16, origin: u16) -> String {
    let mut text = String::new();
    let rows: Vec<_> = tidegate_modules::MODULES.iter().flat_map(|module| module.rows()).collect();
    for (directive, line) in LINES {
        if rows.iter().any(|row| row.name == *directive) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.replace("{dir}", &directory.to_string_lossy())
        .replace("{port}", &port.to_string())
        .replace("{origin}", &origin.to_string())
}

/// Returns the text that is printed at the start.
pub(super) fn instructions(directory: &Path, port: u16) -> String {
    format!(
        "\
Tidegate serves http://127.0.0.1:{port}/ until you press Ctrl+C.

Behind /slow/ is an origin that takes three seconds for each object, sent piece by piece.
Open two terminals. In the first:

  curl -N http://127.0.0.1:{port}/slow/a

and within three seconds in the second:

  curl -s -o /dev/null -w 'first byte after %{{time_starttransfer}} s, last after %{{time_total}} s\\n' \\
    http://127.0.0.1:{port}/slow/a

Look for two things. Below, the origin reports each request that it receives: one, for two clients.
And the second client's first byte arrives at once: it gets the part of the object that is there
while the rest still arrives. A third request within a minute is served from the cache; other
names (/slow/b) begin again.

Configuration, logs and cache: {}
",
        directory.display()
    )
}

/// Returns the page at `/`.
pub(super) fn welcome(port: u16) -> String {
    format!(
        "\
<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<title>Tidegate runs</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 42em; margin: 3em auto; padding: 0 1em; }}
pre {{ background: #f3f3f3; padding: 1em; overflow: auto; }}
</style>
</head>
<body>
<h1>Tidegate runs</h1>
<p>This page is a file, served by a configuration in nginx's language.</p>
<h2>Two clients, one slow object</h2>
<p>Behind <a href=\"/slow/a\">/slow/</a> is an origin that takes three seconds for each object. Request
the same object from two terminals:</p>
<pre>curl -N http://127.0.0.1:{port}/slow/a</pre>
<p>The origin gets one request. The second client gets at once what has arrived so far, and then the
rest together with the first one: <code>proxy_cache_lock on; proxy_cache_tempfile on;</code></p>
<p>For a minute the object is then served from the cache; the field <code>X-Cache</code> shows it:</p>
<pre>curl -sI http://127.0.0.1:{port}/slow/a</pre>
<p>How many connections there are: <a href=\"/status\">/status</a></p>
</body>
</html>
"
    )
}
