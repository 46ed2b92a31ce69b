//! Parameters of directives, for suggestions in errors about unknown ones.
//!
//! A directive that is missing here only costs a suggestion.

use crate::registry::closest;

/// Parameters by their directives, those with a value as `name=`.
const PARAMETERS: &[(&[&str], &[&str])] = &[
    (
        &["listen"],
        &[
            "backlog=",
            "bind",
            "default_server",
            "deferred",
            "fastopen=",
            "http2",
            "ipv6only=",
            "multipath",
            "proxy_protocol",
            "quic",
            "rcvbuf=",
            "reuseport",
            "sndbuf=",
            "so_keepalive=",
            "ssl",
            "udp",
        ],
    ),
    (
        &["server"],
        &[
            "backup",
            "down",
            "drain",
            "fail_timeout=",
            "max_conns=",
            "max_fails=",
            "resolve",
            "route=",
            "service=",
            "slow_start=",
            "weight=",
        ],
    ),
    (&["access_log"], &["buffer=", "flush=", "gzip", "gzip=", "if="]),
    (&["limit_req"], &["burst=", "delay=", "nodelay", "zone="]),
    (&["limit_req_zone"], &["rate=", "sync", "zone="]),
    (&["limit_conn_zone"], &["zone="]),
    (
        &["proxy_cache_path", "fastcgi_cache_path", "scgi_cache_path", "uwsgi_cache_path"],
        &[
            "after=",
            "fsync=",
            "inactive=",
            "keys_zone=",
            "levels=",
            "loader_files=",
            "loader_sleep=",
            "loader_threshold=",
            "manager_files=",
            "manager_sleep=",
            "manager_threshold=",
            "max_size=",
            "min_free=",
            "purge_partition=",
            "purge_sync",
            "purge_sync=",
            "purger=",
            "purger_files=",
            "purger_sleep=",
            "purger_threshold=",
            "scrub=",
            "use_temp_path=",
        ],
    ),
    (&["thread_pool"], &["max_queue=", "threads="]),
    (&["resolver"], &["ipv4=", "ipv6=", "status_zone=", "valid="]),
    (&["rewrite"], &["break", "last", "permanent", "redirect"]),
    (&["add_header", "add_trailer"], &["always"]),
    (&["log_format"], &["escape="]),
    (
        &["open_file_cache", "open_log_file_cache"],
        &["inactive=", "max=", "min_uses=", "off", "valid="],
    ),
    (
        &[
            "ssl_certificate_cache",
            "proxy_ssl_certificate_cache",
            "uwsgi_ssl_certificate_cache",
            "grpc_ssl_certificate_cache",
        ],
        &["inactive=", "max=", "off", "valid="],
    ),
    (&["hash"], &["consistent"]),
    (&["random"], &["least_conn", "least_time=", "two"]),
    (&["least_time"], &["header", "inflight", "last_byte"]),
    (&["keepalive"], &["local"]),
    (
        &["sticky"],
        &[
            "cookie",
            "create=",
            "domain=",
            "expires=",
            "header",
            "httponly",
            "learn",
            "lookup=",
            "path=",
            "route",
            "samesite=",
            "secure",
            "sync",
            "timeout=",
            "zone=",
        ],
    ),
    (
        &["health_check"],
        &[
            "fails=",
            "grpc_service=",
            "grpc_status=",
            "interval=",
            "jitter=",
            "keepalive_time=",
            "mandatory",
            "match=",
            "passes=",
            "persistent",
            "port=",
            "type=",
            "udp",
            "uri=",
        ],
    ),
    (
        &["proxy_bind", "fastcgi_bind", "scgi_bind", "uwsgi_bind", "memcached_bind"],
        &["off", "transparent"],
    ),
    (&["fastcgi_param", "scgi_param", "uwsgi_param"], &["if_not_empty"]),
    (&["disable_symlinks"], &["from=", "if_not_owner", "off", "on"]),
    (
        &["proxy_cookie_flags"],
        &[
            "httponly",
            "nohttponly",
            "nosamesite",
            "nosecure",
            "samesite=lax",
            "samesite=none",
            "samesite=strict",
            "secure",
        ],
    ),
    (&["satisfy"], &["all", "any"]),
];

/// Returns the parameter that was probably intended; `None` also when its name is right, so that its value
/// must be wrong.
pub(crate) fn meant(directive: &str, parameter: &str) -> Option<&'static str> {
    let all = PARAMETERS.iter().find(|(directives, _)| directives.contains(&directive))?.1;
    let name = |parameter: &'static str| parameter.split('=').next().unwrap_or(parameter);
    let written = parameter.split('=').next().unwrap_or(parameter);
    let mut same = all.iter().filter(|known| name(known) == written);
    if let Some(known) = same.clone().next() {
        let has_form = |known: &&str| known.ends_with('=') == parameter.contains('=');
        return (!same.any(has_form)).then_some(*known);
    }
    let found = closest(written, all.iter().map(|known| name(known)))?;
    all.iter().find(|known| name(known) == found).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_of_the_same_directive() {
        for (directive, parameter, expected) in [
            ("listen", "defualt_server", Some("default_server")),
            ("listen", "sll", Some("ssl")),
            ("listen", "bakclog=5", Some("backlog=")),
            ("listen", "backlog=many", None),
            ("listen", "backlog", Some("backlog=")),
            ("listen", "ssl", None),
            ("listen", "wieght=2", None),
            ("server", "wieght=2", Some("weight=")),
            ("server", "down=1", Some("down")),
            ("limit_req", "busrt=5", Some("burst=")),
            ("proxy_cache_path", "maxsize=1g", Some("max_size=")),
            ("rewrite", "permanet", Some("permanent")),
            ("access_log", "gzip", None),
            ("access_log", "gzip=x", None),
            ("unknown", "x", None),
        ] {
            assert_eq!(meant(directive, parameter), expected, "{directive} {parameter}");
        }
    }
}
