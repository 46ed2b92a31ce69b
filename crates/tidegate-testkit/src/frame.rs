//! The standard frame around a case's configuration: a case writes only the directives that it is about, and
//! all files are written to the case's directory. The frame has no `user`: a server that the superuser starts
//! has a worker without privileges, as an installed server has.

use crate::World;

/// Directives of the main context: these stay outside of `http { }`.
const MAIN: &[&str] = &[
    "daemon",
    "debug_points",
    "env",
    "error_log",
    "events",
    "google_perftools_profiles",
    "http",
    "load_module",
    "lock_file",
    "mail",
    "master_process",
    "pcre_jit",
    "pid",
    "quic_bpf",
    "ssl_engine",
    "ssl_object_cache_inheritable",
    "stream",
    "thread_pool",
    "loop_watchdog",
    "timer_resolution",
    "user",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_processes",
    "worker_rlimit_core",
    "worker_rlimit_nofile",
    "worker_shutdown_timeout",
    "working_directory",
    "handler",
];

/// Lines of the main context, each left out when the case has its own.
const MAIN_FRAME: &[(&str, &str)] = &[
    ("daemon", "daemon off;"),
    ("pid", "pid {pid};"),
    ("error_log", "error_log {dir}/error.log info;"),
    ("worker_processes", "worker_processes 1;"),
    ("events", "events { }"),
];

/// Lines of `http`, each left out when the case has its own.
const HTTP_FRAME: &[(&str, &str)] = &[
    ("access_log", "access_log {dir}/access.log;"),
    ("root", "root {dir}/html;"),
    ("client_body_temp_path", "client_body_temp_path {dir}/temp_body;"),
    ("proxy_temp_path", "proxy_temp_path {dir}/temp_proxy;"),
    ("fastcgi_temp_path", "fastcgi_temp_path {dir}/temp_fastcgi;"),
    ("uwsgi_temp_path", "uwsgi_temp_path {dir}/temp_uwsgi;"),
    ("scgi_temp_path", "scgi_temp_path {dir}/temp_scgi;"),
];

/// Modules that the nginx of distributions has to load.
const LOADED: &[(&str, &str)] = &[
    ("stream", "load_module modules/ngx_stream_module.so;"),
    ("mail", "load_module modules/ngx_mail_module.so;"),
    ("geoip_country", "load_module modules/ngx_http_geoip_module.so;"),
];

/// Modules of others that nginx has to load, by a block that the configuration must have (or `http`) and the beginnings
/// of their directives, which may be anywhere.
const LOADED_FOR: &[(&str, &[&str], &[&str])] = &[
    ("http", &["geoip2"], &["ngx_http_geoip2_module"]),
    ("stream", &["geoip2"], &["ngx_stream_geoip2_module"]),
    ("http", &["more_set_", "more_clear_"], &["ngx_http_headers_more_filter_module"]),
    (
        "http",
        &[
            "set_base32_",
            "set_decode_",
            "set_encode_",
            "set_escape_uri",
            "set_formatted_",
            "set_hashed_upstream",
            "set_hmac_",
            "set_if_empty",
            "set_local_today",
            "set_md5",
            "set_misc_",
            "set_quote_",
            "set_random",
            "set_rotate",
            "set_secure_random_",
            "set_sha1",
            "set_unescape_uri",
        ],
        &["ndk_http_module", "ngx_http_set_misc_module"],
    ),
];

/// Returns the complete configuration, placeholders not yet filled. `modules` is the directory with nginx's
/// loadable modules.
pub(crate) fn framed(text: &str, world: World, modules: &str) -> String {
    let statements = statements(text);
    let has = |name: &str| statements.iter().any(|(found, _)| *found == name);
    let mut main = String::new();
    for (block, line) in LOADED {
        if has(block) && world == World::Nginx && !has("load_module") {
            main.push_str(&line.replace("modules", modules));
            main.push('\n');
        }
    }
    if world == World::Nginx && !has("load_module") {
        for (block, beginnings, names) in LOADED_FOR {
            if (*block == "http" || has(block)) && mentions(text, beginnings) {
                let lines = names.iter().map(|name| format!("load_module {modules}/{name}.so;\n"));
                main.extend(lines);
            }
        }
    }
    for (name, line) in MAIN_FRAME {
        if !has(name) {
            main.push_str(line);
            main.push('\n');
        }
    }
    let mut http = String::new();
    for (name, statement) in &statements {
        let target = if MAIN.contains(name) { &mut main } else { &mut http };
        target.push_str(statement);
        target.push('\n');
    }
    if http.is_empty() {
        return main;
    }
    for (name, line) in HTTP_FRAME.iter().rev() {
        if !has(name) {
            http.insert_str(0, &format!("{line}\n"));
        }
    }
    format!("{main}http {{\n{http}}}\n")
}

/// Top-level statements: name and text. Quotes, comments and nested braces are stepped over.
fn statements(text: &str) -> Vec<(&str, &str)> {
    let bytes = text.as_bytes();
    let (mut found, mut start, mut depth, mut at) = (Vec::new(), 0, 0_usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            quote @ (b'"' | b'\'') if starts_word(bytes, at) => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'#' if starts_word(bytes, at) => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            b'{' if at > 0 && (bytes[at - 1] == b'$' || !closes_a_block(bytes, at)) => {
                // ${name} or a placeholder such as {dir}: not a block.
                while at < bytes.len() && bytes[at] != b'}' {
                    at += 1;
                }
            }
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = at < bytes.len() && depth == 0 && matches!(bytes[at], b';' | b'}');
        at += 1;
        if ends && (bytes[at - 1] == b';' || at >= bytes.len() || bytes[at].is_ascii_whitespace()) {
            let statement = text[start..at].trim();
            found.push((name(statement), statement));
            start = at;
        }
    }
    let rest = text[start.min(text.len())..].trim();
    if rest.lines().any(|line| !line.trim().is_empty() && !line.trim().starts_with('#')) {
        found.push((name(rest), rest));
    }
    found
}

/// Returns whether a word of the text begins so.
fn mentions(text: &str, beginnings: &[&str]) -> bool {
    let mut words = text.split(|letter: char| letter.is_whitespace() || "{};".contains(letter));
    words.any(|word| beginnings.iter().any(|beginning| word.starts_with(beginning)))
}

fn starts_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || bytes[at - 1].is_ascii_whitespace() || matches!(bytes[at - 1], b'{' | b'}' | b';')
}

/// A brace opens a block when white space or the end follows it; a placeholder goes on.
fn closes_a_block(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace)
}

fn name(statement: &str) -> &str {
    let first =
        statement.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.and_then(|line| line.split([' ', '\t', ';', '{']).next()).unwrap_or_default()
}
