//! Requests for files through all phases.

use std::fs;
use std::os::unix::fs::symlink;

use crate::testing::Bench;

const FILES: &[(&str, &str)] = &[
    ("html/file.txt", "text"),
    ("html/FILE.HTML", "page"),
    ("html/noext", "plain"),
    ("html/some.tar.GIF", "picture"),
    ("html/dir/", ""),
    ("html/a b#", "odd"),
    ("html/empty", ""),
];

fn bench(extra: &str) -> Bench {
    Bench::with_files(&format!("server {{ root {{dir}}/html; {extra} }}"), FILES)
}

#[test]
fn statuses_and_types() {
    let bench = bench("types { text/html html; image/gif gif; } default_type text/x;");
    let table = [
        ("GET", "/file.txt", 200, "text/x", "text"),
        ("HEAD", "/file.txt", 200, "text/x", "text"),
        ("GET", "/FILE.HTML", 200, "text/html", "page"),
        ("GET", "/noext", 200, "text/x", "plain"),
        ("GET", "/some.tar.GIF", 200, "image/gif", "picture"),
        ("GET", "/empty", 200, "text/x", ""),
        ("GET", "/a%20b%23", 200, "text/x", "odd"),
        ("POST", "/file.txt", 405, "", ""),
        ("POST", "/none", 404, "", ""),
        ("PUT", "/none", 405, "", ""),
        ("DELETE", "/file.txt", 405, "", ""),
        ("GET", "/none", 404, "", ""),
        ("GET", "/file.txt/", 404, "", ""),
        ("GET", "/file.txt/none", 404, "", ""),
        ("GET", "/dir", 301, "", ""),
        ("POST", "/dir", 301, "", ""),
    ];
    for (method, target, status, kind, body) in table {
        for round in 0..3 {
            let reply = bench.send(&format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(reply.status, status, "{method} {target}, round {round}");
            if status == 200 {
                assert_eq!((reply.field("content-type").as_str(), reply.text()), (kind, body));
                assert_ne!(reply.field("last-modified"), "-");
                assert_ne!(reply.field("etag"), "-");
            }
        }
    }
}

#[test]
fn directories_get_their_slash() {
    let bench = bench("");
    assert_eq!(bench.get("/dir").field("location"), "http://localhost:8080/dir/");
    assert_eq!(bench.get("/dir?a=b").field("location"), "http://localhost:8080/dir/?a=b");
    fs::create_dir(bench.dir.path().join("html/a b?")).unwrap();
    let reply = bench.get("/a%20b%3F");
    assert!(reply.field("location").ends_with("/a%20b%3F/"), "{}", reply.field("location"));
}

#[test]
fn a_missing_etag_is_wished() {
    let bench = bench("etag off;");
    for _ in 0..3 {
        assert_eq!(bench.get("/file.txt").field("etag"), "-");
        assert_ne!(bench.get("/file.txt").field("last-modified"), "-");
    }
}

#[test]
fn failures_are_logged_in_nginxs_words() {
    let bench =
        bench("location /quiet { log_not_found off; } location /on { disable_symlinks on; }");
    let html = bench.dir.path().join("html");
    assert_eq!(bench.get("/none").status, 404);
    assert_eq!(bench.get("/quiet").status, 404);
    symlink("file.txt", html.join("on")).unwrap();
    assert_eq!(bench.get("/on").status, 403);
    let log = bench.read("logs/error.log");
    let line = format!("open() \"{}/none\" failed (2: No such file or directory)", html.display());
    assert!(log.contains(&line), "{log}");
    assert!(!log.contains("/quiet"), "{log}");
    assert!(log.contains("openat() ") && log.contains("failed (40: "), "{log}");
}

#[test]
fn a_part_of_the_path_may_hold_links() {
    let bench = bench(
        "location /all { disable_symlinks on; } \
         location /from { disable_symlinks on from={dir}/html/from; } \
         location /root { disable_symlinks if_not_owner from=$document_root; }",
    );
    let html = bench.dir.path().join("html");
    for name in ["all", "from", "root"] {
        symlink("dir", html.join(name)).unwrap();
    }
    fs::write(html.join("dir/x"), "x").unwrap();
    for (target, status) in [("/all/x", 403), ("/from/x", 200), ("/root/x", 200)] {
        for _ in 0..3 {
            assert_eq!(bench.get(target).status, status, "{target}");
        }
    }
}

#[test]
fn errors_are_reported() {
    let table = [
        ("open_file_cache inactive=1s;", "\"open_file_cache\" must have the \"max\" parameter"),
        ("open_file_cache max=0;", "invalid \"open_file_cache\" parameter \"max=0\""),
        ("open_file_cache off x;", "invalid \"open_file_cache\" parameter \"x\""),
        ("open_file_cache off max=x;", "invalid \"open_file_cache\" parameter \"max=x\""),
        ("open_file_cache on;", "invalid \"open_file_cache\" parameter \"on\""),
        ("disable_symlinks yes;", "invalid parameter \"yes\""),
        ("aio yes;", "invalid value"),
        ("aio off; aio on;", "\"aio\" directive is duplicate"),
    ];
    for (text, message) in table {
        assert_eq!(Bench::errors(&format!("server {{ {text} }}")), [message], "{text}");
    }
    let memory = [
        ("x", "\"open_file_cache_memory\" directive invalid value"),
        ("1m file=", "invalid parameter \"file=\""),
        ("1m small=2k", "invalid parameter \"small=2k\""),
    ];
    for (text, message) in memory {
        let text = format!("open_file_cache_memory {text};");
        assert_eq!(Bench::errors(&text), [message], "{text}");
    }
    for text in ["off", "1m", "1m file=2k", "0"] {
        let server = "server { root {dir}/html; }";
        let bench = Bench::with_files(&format!("open_file_cache_memory {text}; {server}"), FILES);
        for _ in 0..4 {
            assert_eq!(bench.get("/file.txt").text(), "text", "{text}");
        }
    }
    let all = "aio threads=default; aio_write on; directio 4m; directio_alignment 4k; \
               open_file_cache max=10 inactive=20s; open_file_cache_valid 30s; \
               open_file_cache_min_uses 2; open_file_cache_errors on; open_file_cache_events on;";
    let bench = bench(all);
    for _ in 0..3 {
        assert_eq!(bench.get("/file.txt").text(), "text");
    }
}

#[test]
fn roots_may_hold_the_path() {
    let bench = bench("location /v { root {dir}/html$uri-tree; }");
    let directory = bench.dir.path().join("html/v-tree");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("v"), "found").unwrap();
    assert_eq!(bench.get("/v").text(), "found");
}

#[test]
fn a_storm_of_changes_hides_none() {
    let bench = bench("");
    let html = bench.dir.path().join("html");
    for _ in 0..3 {
        assert_eq!(bench.get("/late").status, 404);
        assert_eq!(bench.get("/file.txt").text(), "text");
    }
    for index in 0..40_000 {
        fs::write(html.join("storm"), "").unwrap();
        fs::remove_file(html.join("storm")).unwrap();
        if index == 20_000 {
            fs::write(html.join("late"), "late").unwrap();
            fs::write(html.join("file.txt"), "new").unwrap();
        }
    }
    assert_eq!(bench.get("/late").text(), "late");
    assert_eq!(bench.get("/file.txt").text(), "new");
}
