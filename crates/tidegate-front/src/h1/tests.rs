//! Whether a connection stays, and how it ends.

use std::time::Duration;

use tidegate_core::settings::Lingering;

use super::head::keepalive_disabled;
use super::{lingers, may_stay};
use crate::testing::Bench;

#[test]
fn a_connection_stays_within_three_limits() {
    for (config, ordinal, life, expected) in [
        ("", 1, 0, true),
        ("", 999, 0, true),
        ("", 1000, 0, false),
        ("", 1, 3599, true),
        ("", 1, 3600, false),
        ("keepalive_requests 2;", 1, 0, true),
        ("keepalive_requests 2;", 2, 0, false),
        ("keepalive_requests 0;", 1, 0, false),
        ("keepalive_time 10s;", 1, 9, true),
        ("keepalive_time 10s;", 1, 10, false),
        ("keepalive_timeout 0;", 1, 0, false),
        ("keepalive_timeout 1s;", 1, 0, true),
    ] {
        let bench = Bench::new(&format!("server {{ {config} }}"));
        let x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let stays = may_stay(x.settings(), ordinal, Duration::from_secs(life));
        assert_eq!(stays, expected, "{config} {ordinal} {life}");
    }
}

#[test]
fn old_browsers_do_not_keep_connections() {
    let safari = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6) Version/5.0 Safari/533.16";
    let chrome = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6) Chrome/9.0 Safari/534.13";
    let msie6 = "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    let msie6_sp2 = "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)";
    let msie7 = "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 5.1)";
    for (disable, method, agent, expected) in [
        ("msie6", "POST", msie6, true),
        ("msie6", "GET", msie6, false),
        ("msie6", "POST", msie6_sp2, false),
        ("msie6", "POST", msie7, false),
        ("msie6", "POST", safari, false),
        ("safari", "GET", safari, true),
        ("safari", "GET", chrome, false),
        ("safari", "POST", msie6, false),
        ("msie6 safari", "GET", safari, true),
        ("msie6 safari", "POST", msie6, true),
        ("none", "POST", msie6, false),
        ("none", "GET", safari, false),
    ] {
        let bench = Bench::new(&format!("server {{ keepalive_disable {disable}; }}"));
        let x = bench
            .received(&format!("{method} / HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n"));
        assert_eq!(keepalive_disabled(&x), expected, "{disable}: {method} by {agent}");
    }
}

#[test]
fn a_closing_connection_is_read_on_as_lingering_close_says() {
    for (mode, more, expected) in [
        (Lingering::Off, true, false),
        (Lingering::Off, false, false),
        (Lingering::On, true, true),
        (Lingering::On, false, false),
        (Lingering::Always, true, true),
        (Lingering::Always, false, true),
    ] {
        assert_eq!(lingers(mode, more), expected, "{mode:?}, more: {more}");
    }
}
