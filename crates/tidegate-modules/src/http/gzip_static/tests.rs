//! `gzip_static` and the like: which file is sent to which client, and with what head.

use std::os::unix::fs::symlink;

use crate::testing::Bench;

fn bench() -> Bench {
    Bench::with_files(
        "root {dir}; types { text/css css; }
         server {
            location / { gzip_static on; }
            location /vary/ { gzip_static on; gzip_vary on; }
            location /always/ { gzip_static always; gzip_vary on; }
            location /off/ { gzip_static off; }
            location /all/ { gzip_static on; brotli_static on; zstd_static on; }
            location /proxied/ { gzip_static on; gzip_proxied any; gzip_http_version 1.0; gzip_disable bad; }
         }",
        &[
            ("a.css", "plain"),
            ("a.css.gz", "packed file"),
            ("none.css", "plain"),
            ("directory.css", "plain"),
            ("directory.css.gz/", ""),
            ("only.css.gz", "packed"),
            ("vary/a.css", "plain"),
            ("vary/a.css.gz", "packed"),
            ("vary/none.css", "plain"),
            ("always/a.css.gz", "packed"),
            ("off/a.css", "plain"),
            ("off/a.css.gz", "packed"),
            ("all/a.css", "plain"),
            ("all/a.css.gz", "gzip"),
            ("all/a.css.br", "brotli"),
            ("all/a.css.zst", "zstd"),
            ("all/b.css", "plain"),
            ("all/b.css.gz", "gzip"),
            ("proxied/a.css", "plain"),
            ("proxied/a.css.gz", "packed"),
        ],
    )
}

#[test]
fn the_sibling_is_sent_to_clients_that_accept_it() {
    let bench = bench();
    let check = |target: &str, accept: &str, body: &str, coding: &str| {
        let reply = bench.get_with(target, &[&format!("Accept-Encoding: {accept}")]);
        assert_eq!((reply.text(), &*reply.field("Content-Encoding")), (body, coding), "{target}");
        assert_eq!(reply.field("Content-Type"), "text/css", "{target}");
    };
    check("/a.css", "gzip", "packed file", "gzip");
    check("/a.css", "br", "plain", "-");
    check("/a.css", "gzip;q=0", "plain", "-");
    check("/none.css", "gzip", "plain", "-");
    check("/directory.css", "gzip", "plain", "-");
    check("/only.css", "gzip", "packed", "gzip");
    check("/always/a.css", "br", "packed", "gzip");
    check("/off/a.css", "gzip", "plain", "-");
    check("/all/a.css", "gzip, br, zstd", "brotli", "br");
    check("/all/a.css", "gzip, zstd", "zstd", "zstd");
    check("/all/a.css", "gzip, br;q=0", "gzip", "gzip");
    check("/all/a.css", "deflate", "plain", "-");
    check("/all/b.css", "gzip, br, zstd", "gzip", "gzip");
    assert_eq!(bench.get("/only.css").status, 404);
    let put = bench.send("PUT /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(put.status, 405);
}

#[test]
fn the_head_is_that_of_the_sibling() {
    let bench = bench();
    let packed = bench.get_with("/a.css", &["Accept-Encoding: gzip", "Range: bytes=7-"]);
    assert_eq!((packed.status, packed.text()), (206, "file"));
    assert!(packed.field("ETag").ends_with("-b\""), "{}", packed.field("ETag"));
    assert_eq!(packed.field("Vary"), "-");
    let check = |target: &str, accept: &str, vary: &str| {
        let reply = bench.get_with(target, &[&format!("Accept-Encoding: {accept}")]);
        assert_eq!(reply.field("Vary"), vary, "{target} {accept}");
    };
    check("/vary/a.css", "gzip", "Accept-Encoding");
    check("/vary/a.css", "br", "Accept-Encoding");
    check("/vary/none.css", "gzip", "-");
    check("/always/a.css", "br", "-");
}

#[test]
fn the_rules_of_gzip_hold() {
    let bench = bench();
    let check = |head: &str, body: &str| {
        let reply = bench.send(&format!("GET {head}\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        assert_eq!(reply.text(), body, "{head}");
    };
    check("/a.css HTTP/1.1", "packed file");
    check("/a.css HTTP/1.0", "plain");
    check("/a.css HTTP/1.1\r\nVia: a", "plain");
    check("/proxied/a.css HTTP/1.0", "packed");
    check("/proxied/a.css HTTP/1.1\r\nVia: a", "packed");
    check("/proxied/a.css HTTP/1.1\r\nUser-Agent: bad", "plain");
}

#[test]
fn links_are_followed_only_where_they_may_be() {
    let bench = Bench::with_files(
        "root {dir}; server {
            location / { gzip_static on; }
            location /strict/ { gzip_static on; disable_symlinks on from=$document_root; }
        }",
        &[("packed", "packed"), ("a", "plain"), ("strict/a", "plain")],
    );
    for name in ["a.gz", "strict/a.gz"] {
        symlink(bench.dir.path().join("packed"), bench.dir.path().join(name)).unwrap();
    }
    let text = |target| bench.get_with(target, &["Accept-Encoding: gzip"]).text().to_owned();
    assert_eq!(text("/a"), "packed");
    assert_eq!(text("/strict/a"), "plain");
    assert!(bench.read("logs/error.log").contains("strict/a.gz\" failed (40:"));
}
