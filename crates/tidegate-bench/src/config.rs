//! The configuration that both servers run: one nginx.conf, made for a scenario.

use std::net::SocketAddr;
use std::path::Path;

pub(crate) mod fairness;
pub(crate) mod growth;
pub(crate) mod protocols;
pub(crate) mod tuning;

use fairness::Places;
use growth::Growing;
use tuning::Knobs;

/// The exercised part of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// `return 200` with a fixed text.
    Fixed,
    /// The same in a location.
    Located,
    /// The same in a location, with zones that count it (`status_zone`) at server and location.
    Counted,
    /// The same in a location, with timelines (`slow_log`).
    Timed,
    /// Files of two sizes.
    Files,
    /// A small file below many directories.
    Depth(Lookup),
    /// The handlers of the example crate.
    Handlers,
    /// A WebAssembly component in the server ([`COMPONENT_FILE`]).
    Component,
    /// PHP behind FastCGI, with the server's defaults.
    Php,
    /// PHP behind FastCGI over kept connections.
    PhpKept,
    /// Proxy over kept upstream connections.
    ProxyTuned,
    /// Proxy with nothing but `proxy_pass`.
    ProxyDefault,
    /// Proxy through a cache.
    Cache,
    /// The same with files as nginx has them by default: neither `sendfile` nor `open_file_cache`.
    CacheDefault,
    /// Proxy through a cache whose misses are collapsed onto one fill.
    Streaming,
    /// Proxy through a cache, with the given directive alone for misses at the same time.
    Study(Sharing),
    /// Files, a proxied location, and the generation's number at [`GENERATION`].
    Reload,
    /// Proxy through a cache with the source of a response in `X-Cache`.
    Crash,
    /// One or several settings of a reverse proxy, with the second origin where there is one.
    Tuning(Knobs, Option<SocketAddr>),
    /// A location for each kind of busy client.
    Fairness(Places),
    /// Places of several sizes.
    Growth(Growing, &'static [u64]),
    /// HTTP/2 and TLS.
    Protocols(protocols::Places),
}

/// The method of file lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The default of both servers.
    Plain,
    /// `disable_symlinks on`
    NoSymlinks,
    /// `open_file_cache`
    OpenFileCache,
}

/// The treatment of requests for an object that is being fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Each request goes to the origin: no directive in nginx, `proxy_cache_tempfile off` in Tidegate.
    Plain,
    /// `proxy_cache_lock`
    Lock,
    /// `proxy_cache_tempfile`
    Tempfile,
}

/// The parameters of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Setup<'a> {
    pub scenario: Scenario,
    /// The prefix directory; the server writes only below it.
    pub directory: &'a Path,
    pub listen: SocketAddr,
    pub origin: SocketAddr,
    pub worker_connections: u64,
    /// The bench runs as root: the workers then stay root, or they could not read the directory.
    pub privileged: bool,
    /// Whether the server has `proxy_cache_tempfile`.
    pub tempfile_directive: bool,
    /// Whether the server logs long event-loop iterations; nginx cannot.
    pub watchdog: bool,
    /// The number that distinguishes a configuration from the next (scenario [`Scenario::Reload`]).
    pub generation: u32,
}

/// The text of `return 200`, as sent.
pub(crate) const FIXED_BODY: &str = "Hello, world";
/// The small file: name and size.
pub(crate) const SMALL_FILE: (&str, u64) = ("small.html", 452);
/// The large file: name and size.
pub(crate) const LARGE_FILE: (&str, u64) = ("large.bin", 100 * 1024);
/// A file that is read from the disk: name and size.
pub(crate) const COLD_FILE: (&str, u64) = ("cold.bin", 64 << 20);
/// The length of an application's response, and of `return` beside it.
pub(crate) const DOCUMENT_BYTES: u64 = 10_240;
/// The component's file, in the directory of the configuration.
pub(crate) const COMPONENT_FILE: &str = "document.wasm";
/// The socket of php-fpm, below the prefix.
pub(crate) const PHP_SOCKET: &str = "php.sock";
/// The location that returns the generation of the configuration.
pub(crate) const GENERATION: &str = "/generation";
/// The proxied location in the scenario [`Scenario::Reload`].
pub(crate) const PROXIED: &str = "/bytes";
/// Sub-directories of the prefix that must exist.
pub(crate) const DIRECTORIES: [&str; 3] = ["html", "cache", "temp"];

/// The text of nginx.conf.
pub(crate) fn generate(setup: &Setup<'_>) -> String {
    if let Scenario::Tuning(knobs, second) = setup.scenario {
        return tuning::generate(setup, knobs, second);
    }
    if let Scenario::Fairness(places) = setup.scenario {
        return fairness::generate(setup, places);
    }
    if let Scenario::Growth(growing, sizes) = setup.scenario {
        return growth::generate(setup, growing, sizes);
    }
    if let Scenario::Protocols(places) = setup.scenario {
        return protocols::generate(setup, places);
    }
    let directory = setup.directory.display();
    let user = user(setup);
    let connections = setup.worker_connections;
    // Descriptors: two for a proxied connection, and some files.
    let descriptors = connections * 2 + 512;
    let descriptors = if setup.privileged {
        format!("worker_rlimit_nofile {descriptors};\n")
    } else {
        String::new()
    };
    let temporary = temporary(setup);
    let tuning = match setup.scenario {
        Scenario::ProxyDefault | Scenario::CacheDefault => "".to_owned(),
        Scenario::Depth(lookup) => [SENDFILE, "    log_not_found off;\n", lookup.lines()].concat(),
        _ => [SENDFILE, OPEN_FILE_CACHE].concat(),
    };
    let http = http_level(setup);
    let location = location(setup);
    let listen = setup.listen;
    let pools = match setup.scenario {
        Scenario::Handlers => "thread_pool slow threads=100;\n",
        _ => "",
    };
    let watchdog = match setup.watchdog {
        true => {
            format!("error_log {directory}/error.log warn;\nloop_watchdog {LONG_TURN_MILLIS}ms;\n")
        }
        false => String::new(),
    };
    format!(
        "daemon off;\n{user}worker_processes 1;\n{descriptors}{pools}{watchdog}pid {directory}/server.pid;\n\
         events {{\n    worker_connections {connections};\n}}\n\
         http {{\n    access_log off;\n{temporary}{tuning}{http}\
         \x20   server {{\n        listen {listen};\n        root {directory}/html;\n\
         {location}    }}\n}}\n"
    )
}

fn user(setup: &Setup<'_>) -> &'static str {
    if setup.privileged { "user root;\n" } else { "" }
}

/// Writable directories, in place of those of the package.
fn temporary(setup: &Setup<'_>) -> String {
    let directory = setup.directory.display();
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {directory}/temp/{kind};\n"))
        .collect()
}

/// Upstream and cache, where the scenario has them.
fn http_level(setup: &Setup<'_>) -> String {
    let upstream = match setup.scenario {
        Scenario::Fixed
        | Scenario::Located
        | Scenario::Counted
        | Scenario::Timed
        | Scenario::Files
        | Scenario::Depth(_)
        | Scenario::Handlers
        | Scenario::Component
        | Scenario::Php => return String::new(),
        Scenario::PhpKept => {
            let socket = setup.directory.join(PHP_SOCKET);
            let socket = socket.display();
            format!(
                "    upstream php {{\n        server unix:{socket};\n        keepalive 64;\n    }}\n"
            )
        }
        Scenario::ProxyDefault => {
            format!("    upstream origin {{\n        server {};\n    }}\n", setup.origin)
        }
        _ => format!(
            "    upstream origin {{\n        server {};\n        keepalive 64;\n    }}\n",
            setup.origin
        ),
    };
    let cache = match setup.scenario {
        Scenario::Cache
        | Scenario::CacheDefault
        | Scenario::Streaming
        | Scenario::Study(_)
        | Scenario::Crash => format!(
            "    proxy_cache_path {}/cache levels=1:2 keys_zone=bench:10m;\n",
            setup.directory.display()
        ),
        _ => String::new(),
    };
    upstream + &cache
}

fn location(setup: &Setup<'_>) -> String {
    let mut lines: Vec<&str> = Vec::new();
    match setup.scenario {
        Scenario::Fixed => return format!("        return 200 \"{FIXED_BODY}\";\n"),
        Scenario::Located => {
            return format!("        location / {{ return 200 \"{FIXED_BODY}\"; }}\n");
        }
        Scenario::Counted => {
            return format!(
                "        status_zone server;\n\
                 \x20       location / {{ status_zone location; return 200 \"{FIXED_BODY}\"; }}\n"
            );
        }
        Scenario::Timed => {
            return format!(
                "        slow_log {}/slow.log threshold=1h;\n\
                 \x20       location / {{ return 200 \"{FIXED_BODY}\"; }}\n",
                setup.directory.display()
            );
        }
        // The text of the last four is their own.
        Scenario::Files
        | Scenario::Depth(_)
        | Scenario::Tuning(..)
        | Scenario::Fairness(_)
        | Scenario::Growth(..)
        | Scenario::Protocols(_) => return String::new(),
        Scenario::Handlers | Scenario::Component | Scenario::Php | Scenario::PhpKept => {
            return application(setup);
        }
        Scenario::ProxyDefault => lines.push("proxy_pass http://origin;"),
        Scenario::ProxyTuned => lines.extend(PROXY_KEEPALIVE),
        Scenario::Reload => {
            let number = setup.generation;
            let (generation, proxied) = (GENERATION, PROXIED);
            return format!(
                "        location = {generation} {{ return 200 \"{number}\"; }}\n\
                 \x20       location {proxied} {{\n{}        }}\n",
                block(&PROXY_KEEPALIVE)
            );
        }
        Scenario::Cache
        | Scenario::CacheDefault
        | Scenario::Streaming
        | Scenario::Study(_)
        | Scenario::Crash => {
            lines.extend(PROXY_KEEPALIVE);
            lines.push("proxy_cache bench;");
        }
    }
    if setup.scenario == Scenario::Streaming {
        lines.push("proxy_cache_lock on;");
        if setup.tempfile_directive {
            lines.push("proxy_cache_tempfile on;");
        }
    }
    match setup.scenario {
        Scenario::Study(Sharing::Lock) => lines.push("proxy_cache_lock on;"),
        Scenario::Study(Sharing::Tempfile) => lines.push("proxy_cache_tempfile on;"),
        Scenario::Study(Sharing::Plain) if setup.tempfile_directive => {
            lines.push("proxy_cache_tempfile off;");
        }
        _ => {}
    }
    if setup.scenario == Scenario::Crash {
        lines.push("add_header X-Cache $upstream_cache_status always;");
    }
    format!("        location / {{\n{}        }}\n", block(&lines))
}

/// The locations of the suite blocking: `return` of the document's length, and the application.
fn application(setup: &Setup<'_>) -> String {
    // No word of a configuration is longer than 4 kB in nginx.
    let kilobyte = "0123456789abcdef".repeat(64);
    let document = "$k".repeat((DOCUMENT_BYTES / 1024) as usize);
    let constant = format!(
        "        location = /return {{ set $k \"{kilobyte}\"; return 200 \"{document}\"; }}\n"
    );
    if setup.scenario == Scenario::Handlers {
        return constant
            + "        location = /document { handler document; }\n\
               \x20       location = /slow { handler slow pool=slow; }\n";
    }
    if setup.scenario == Scenario::Component {
        return format!("{constant}        location = /document {{ wasm {COMPONENT_FILE}; }}\n");
    }
    let socket = setup.directory.join(PHP_SOCKET);
    let parameters = [
        "SCRIPT_FILENAME $document_root$fastcgi_script_name",
        "REQUEST_METHOD $request_method",
        "QUERY_STRING $query_string",
        "REMOTE_ADDR $remote_addr",
    ];
    let parameters = parameters.map(|line| format!("fastcgi_param {line};"));
    let pass = match setup.scenario {
        Scenario::PhpKept => "fastcgi_pass php; fastcgi_keep_conn on;".to_owned(),
        _ => format!("fastcgi_pass unix:{};", socket.display()),
    };
    let lines: Vec<&str> = parameters.iter().map(String::as_str).chain([pass.as_str()]).collect();
    format!("{constant}        location ~ \\.php$ {{\n{}        }}\n", block(&lines))
}

fn block(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("            {line}\n")).collect()
}

impl Lookup {
    fn lines(self) -> &'static str {
        match self {
            Lookup::Plain => "",
            Lookup::NoSymlinks => "    disable_symlinks on;\n",
            Lookup::OpenFileCache => CACHED_LOOKUP,
        }
    }
}

/// Returns a path of N nested directories, as in a target. Names are short: the measure is their number, and
/// Windows has no paths above 260 characters.
pub(crate) fn directories(depth: usize) -> String {
    ('a'..='z').cycle().take(depth).flat_map(|name| ['/', name]).collect()
}

/// Event-loop iterations above this length are reported.
pub(crate) const LONG_TURN_MILLIS: u32 = 50;
const SENDFILE: &str = "    sendfile on;\n    tcp_nopush on;\n";
const OPEN_FILE_CACHE: &str = "    open_file_cache max=1000;\n";
const CACHED_LOOKUP: &str = "    open_file_cache max=1000;\n    open_file_cache_errors on;\n";
const PROXY_KEEPALIVE: [&str; 3] =
    ["proxy_pass http://origin;", "proxy_http_version 1.1;", "proxy_set_header Connection \"\";"];
