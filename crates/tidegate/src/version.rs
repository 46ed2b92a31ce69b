//! Version and build texts, in the form that tools read from nginx.

use tidegate_os::layout::CHOSEN;

use crate::control;

/// The version of nginx whose directives and defaults are implemented.
pub(crate) const NGINX: &str = tidegate_core::error_page::NGINX_VERSION;
/// Tidegate's own version.
pub(crate) const TIDEGATE: &str = env!("CARGO_PKG_VERSION");

/// Modules and the arguments of nginx's `configure` for them. Modules that nginx builds by default have none.
const WITH: &[(&str, &str)] = &[
    ("ssl", "--with-http_ssl_module"),
    ("v2", "--with-http_v2_module"),
    ("v3", "--with-http_v3_module"),
    ("realip", "--with-http_realip_module"),
    ("addition", "--with-http_addition_module"),
    ("geoip", "--with-http_geoip_module"),
    ("sub", "--with-http_sub_module"),
    ("dav", "--with-http_dav_module"),
    ("flv", "--with-http_flv_module"),
    ("mp4", "--with-http_mp4_module"),
    ("gunzip", "--with-http_gunzip_module"),
    ("gzip_static", "--with-http_gzip_static_module"),
    ("random_index", "--with-http_random_index_module"),
    ("secure_link", "--with-http_secure_link_module"),
    ("degradation", "--with-http_degradation_module"),
    ("slice", "--with-http_slice_module"),
    ("stub_status", "--with-http_stub_status_module"),
    ("auth_request", "--with-http_auth_request_module"),
    ("stream", "--with-stream"),
    ("ssl", "--with-stream_ssl_module"),
    ("realip", "--with-stream_realip_module"),
    ("geoip", "--with-stream_geoip_module"),
    ("ssl_preread", "--with-stream_ssl_preread_module"),
];

/// Returns `nginx version: …`, as `-v` prints it.
pub(crate) fn line() -> String {
    format!("nginx version: nginx/{NGINX} (tidegate {TIDEGATE})")
}

/// Returns the text of `-V`, given the names of the modules.
pub(crate) fn configure(modules: &[&str]) -> String {
    let has = |name: &str| {
        modules.iter().any(|module| {
            let module = module.strip_prefix("http_").unwrap_or(module);
            module.strip_suffix("_module").unwrap_or(module) == name
        })
    };
    let mut text = line();
    if has("ssl") {
        text.push_str(&format!("\nbuilt with {}\nTLS SNI support enabled", tidegate_tls::LIBRARY));
    }
    text.push_str("\nconfigure arguments:");
    for (name, value) in CHOSEN.arguments() {
        text.push_str(&format!(" --{name}={value}"));
    }
    text.push_str(" --with-threads");
    for (_, argument) in WITH.iter().filter(|(name, _)| has(name)) {
        text.push(' ');
        text.push_str(argument);
    }
    text
}

/// Returns the text that `-h` prints below the version.
pub(crate) fn help() -> String {
    let prefix = String::from_utf8_lossy(&CHOSEN.prefix()).into_owned();
    format!(
        "\
Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]
             [-e filename] [-c filename] [-g directives]
       tidegate demo [--port number]
       tidegate tune [-p prefix] [-c filename] [-g directives]
       tidegate help [directive...]
       tidegate command [word...] [--socket path | --url address] [--json]
                [-p prefix] [-c filename] [-g directives]

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {prefix})
  -e filename   : set error log file (default: {})
  -c filename   : set configuration file (default: {})
  -g directives : set global directives out of configuration file

  tune          : compare the settings of Linux' kernel with a configuration, change nothing
  help          : what directives do, where they may stand, how they differ from nginx
  demo          : a built-in configuration with a slow origin behind a streaming cache
{}",
        CHOSEN.error_log,
        CHOSEN.conf,
        control::summary()
    )
}

/// Returns the lines of usage, and the options and commands with their meaning, from [`help`].
pub(crate) fn usage() -> (Vec<String>, Vec<(String, String)>) {
    let text = help();
    let (synopsis, options) = text.split_once("\n\nOptions:\n").unwrap_or((&text, ""));
    let lines = synopsis.lines();
    let lines =
        lines.map(|line| line.strip_prefix("Usage: ").unwrap_or(line.trim_start()).to_owned());
    let options = options.lines().filter_map(|line| line.split_once(" : "));
    let options = options.map(|(option, meaning)| (option.trim().to_owned(), meaning.to_owned()));
    (lines.collect(), options.collect())
}
