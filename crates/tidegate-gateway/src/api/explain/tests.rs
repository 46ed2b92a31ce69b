//! URLs, and what blocks inherit.

use std::sync::Arc;

use super::*;
use tidegate_core::written::WrittenLine;

#[test]
fn urls_are_taken_apart() {
    for (text, expected) in [
        ("/a?b", Some((None, "", "/a?b"))),
        ("http://a.test/", Some((Some(80), "a.test", "/"))),
        ("http://a.test", Some((Some(80), "a.test", "/"))),
        ("http://a.test?x=/", Some((Some(80), "a.test", "/"))),
        ("https://a.test:8443/x", Some((Some(8443), "a.test:8443", "/x"))),
        ("http://[::1]/", Some((Some(80), "[::1]", "/"))),
        ("http://[::1]:81/", Some((Some(81), "[::1]:81", "/"))),
        ("http:///x", None),
        ("http://a:b/", None),
        ("http://a:99999/", None),
        ("http://\u{fffd}:/", None),
        ("ftp://a/", None),
        ("", None),
    ] {
        let url = Url::parse(text.as_bytes());
        let shown = url.map(|url| {
            (url.port, String::from_utf8_lossy(url.host).into_owned(), url.target.to_vec())
        });
        let expected = expected
            .map(|(port, host, target)| (port, host.to_owned(), target.as_bytes().to_vec()));
        assert_eq!(shown, expected, "{text}");
    }
    let address = |text: &str| Url::parse(text.as_bytes()).and_then(|url| url.address());
    assert_eq!(address("http://127.0.0.1:80/"), Some(IpAddr::from([127, 0, 0, 1])));
    assert_eq!(address("http://[::1]:80/"), "::1".parse().ok());
    assert_eq!(address("http://a.test/"), None);
}

fn block(outer: Option<Arc<WrittenBlock>>, name: &str, lines: &[&str]) -> Arc<WrittenBlock> {
    let line = |text: &str| WrittenLine {
        name: text.split(' ').next().unwrap_or_default().to_owned(),
        text: text.to_owned(),
        place: String::new(),
    };
    let lines = lines.iter().map(|text| line(text)).collect();
    Arc::new(WrittenBlock { opening: line(name), outer, lines })
}

#[test]
fn blocks_inherit_what_they_do_not_replace() {
    let http =
        ["root /h", "deny all", "proxy_cache a", "gzip on", "proxy_cache_path /c keys_zone=a:1m"];
    let http = block(None, "http", &http);
    let server = ["rewrite ^/a /b", "allow 1.2.3.4", "proxy_cache_valid 1m", "try_files $uri =404"];
    let server = block(Some(http), "server", &server);
    let outer = ["proxy_pass http://a", "set $a 1", "auth_basic x", "alias /o"];
    let outer = block(Some(server), "location /o/", &outer);
    let inner = block(Some(outer.clone()), "location /o/i/", &["proxy_cache off", "return 204"]);
    let shown = |block: &WrittenBlock| {
        let lines = effective::lines(block).into_iter();
        lines.map(|(topic, line)| format!("{topic}: {}", line.text)).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&inner),
        [
            "handler: root /h",
            "rewrite: rewrite ^/a /b",
            "access: allow 1.2.3.4",
            "cache: proxy_cache_valid 1m",
            "access: auth_basic x",
            "cache: proxy_cache off",
            "rewrite: return 204",
        ]
    );
    assert_eq!(
        shown(&outer),
        [
            "cache: proxy_cache a",
            "rewrite: rewrite ^/a /b",
            "access: allow 1.2.3.4",
            "cache: proxy_cache_valid 1m",
            "handler: proxy_pass http://a",
            "rewrite: set $a 1",
            "access: auth_basic x",
            "handler: alias /o",
        ]
    );
}
