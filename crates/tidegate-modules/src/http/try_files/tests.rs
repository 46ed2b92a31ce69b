//! Candidates, fallbacks and aliases, compared with a running nginx.
use tidegate_core::file_path;

use crate::testing::Bench;

const SHOW: &str = "return 200 \"$uri|$args|$request_uri\";";

#[test]
fn the_way_out() {
    let bench = Bench::with_files(
        &format!(
            "server {{ root {{dir}}/html;
                location /code/ {{ try_files $uri =418; }}
                location /named/ {{ try_files nope @there; }}
                location /path/ {{ try_files $uri /show?$args&z=1; }}
                location /dir {{ try_files /d =404; }}
                location /slash/ {{ try_files /f.txt/ =404; }}
                location @there {{ return 200 \"named $uri\"; }}
                location /show {{ {SHOW} }}
            }}"
        ),
        &[("html/d/x", ""), ("html/f.txt", "")],
    );
    for (target, status, text) in [
        ("/code/x", 418, ""),
        ("/named/x", 200, "named /named/x"),
        ("/path/x?a=b", 200, "/show|a=b&z=1|/path/x?a=b"),
        ("/dir", 404, ""),
        ("/slash/", 404, ""),
    ] {
        let reply = bench.get(target);
        let found = if reply.status == 200 { reply.text() } else { "" };
        assert_eq!((reply.status, found), (status, text), "{target}");
    }
}

/// Checks the path and the file that content handlers get.
fn check(config: &str, target: &str, path: &str, file: &str) {
    let bench = Bench::with_files(
        &format!("server {{ root {{dir}}/html; {config} }}"),
        &[("html/d/index.html", ""), ("html/f.txt", "")],
    );
    let mut x = bench.get(target).x;
    let file_found = String::from_utf8(file_path::map(&mut x).unwrap()).unwrap();
    let prefix = format!("{}/", bench.dir.path().display());
    assert_eq!(String::from_utf8_lossy(&x.request.path), path, "{config}");
    assert_eq!(file_found.strip_prefix(&prefix), Some(file), "{config}");
}

#[test]
fn what_is_found_is_served_in_place() {
    // In the content phase only `index` responds, and its redirects end in 404 here.
    let cases = [
        ("location / { try_files $uri =404; }", "/f.txt", "/f.txt", "html/f.txt"),
        ("location /a { try_files /f.txt =404; }", "/a", "/f.txt", "html/f.txt"),
        ("location /a { try_files /d/ =404; }", "/a", "/d", "html/d"),
        (
            "location /al/ { alias {dir}/html/d/; try_files $uri $uri/ =404; }",
            "/al/index.html",
            "/al/index.html",
            "html/d/index.html",
        ),
        (
            "location /al { alias {dir}/html/d; try_files $uri $uri/ =404; }",
            "/al/index.html",
            "/al/index.html",
            "html/d/index.html",
        ),
        (
            "location ~ /index.html { alias {dir}/html/d; try_files $uri =404; }",
            "/index.html",
            "/index.html",
            "html/d/index.html",
        ),
        (
            "location /al/ { alias {dir}/html/; location ~ txt { try_files $uri =404; } }",
            "/al/f.txt",
            "/al/f.txt",
            "html/f.txt",
        ),
    ];
    for (config, target, path, file) in cases {
        check(config, target, path, file);
    }
}

#[test]
fn errors() {
    for (config, expected) in [
        ("try_files a;", "invalid number of arguments in \"try_files\" directive"),
        ("try_files a =x;", "invalid code \"=x\""),
        ("try_files a =1000;", "invalid code \"=1000\""),
    ] {
        assert_eq!(Bench::errors(&format!("server {{ {config} }}")), [expected]);
    }
}
