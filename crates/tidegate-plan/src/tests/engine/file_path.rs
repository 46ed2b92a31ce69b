//! `root` and `alias` in every kind of location.

use tidegate_core::file_path::{map, map_into, map_path, root_length};

use crate::tests::Bench;

/// Checks the file of a path, `-` for none.
fn check(server: &str, target: &str, expected: &str) {
    let bench = Bench::new(&format!("server {{ {server} }}"));
    let mut reply = bench.get(target);
    let dir = bench.dir.path().to_str().unwrap();
    let path = map(&mut reply.x).map_or("-".to_owned(), |path| String::from_utf8(path).unwrap());
    assert_eq!(path.replace(dir, "{dir}"), expected, "{server} {target}");
}

#[test]
fn paths_are_mapped_by_root_and_alias() {
    for (server, target, expected) in [
        ("", "/a", "{dir}/html/a"),
        ("root /srv;", "/a/b", "/srv/a/b"),
        ("root /srv/;", "/a", "/srv/a"),
        ("root /;", "/a", "//a"),
        ("root srv;", "/a", "{dir}/srv/a"),
        ("root /srv/$arg_d;", "/a?d=x", "/srv/x/a"),
        // A value that is not absolute is below the prefix.
        ("root $arg_d;", "/a?d=x", "{dir}/x/a"),
        ("root $arg_d;", "/a?d=/x", "/x/a"),
        ("location /i/ { alias /srv/; }", "/i/a", "/srv/a"),
        ("location /i { alias /srv; }", "/i/a", "/srv/a"),
        ("location /i { alias /srv; }", "/ia", "/srva"),
        ("location ^~ /i/ { alias /srv/; }", "/i/a", "/srv/a"),
        ("location ^~/i/ { alias /srv/; }", "/i/a", "/srv/a"),
        ("location = /i { alias /srv/f; }", "/i", "/srv/f"),
        ("location =/i { alias /srv/f; }", "/i", "/srv/f"),
        ("location ~ ^/i/(.*)$ { alias /srv/$1.x; }", "/i/a/b", "/srv/a/b.x"),
        ("location ~* ^/I/(?<p>.*)$ { alias $p/f; }", "/i/a", "{dir}/a/f"),
        // Nested locations remove the name of the location that has the `alias`.
        ("location /i/ { alias /srv/; location /i/j/ { } }", "/i/j/a", "/srv/j/a"),
        ("location /i/ { alias /srv/; location ~ a$ { } }", "/i/j/a", "/srv/j/a"),
        ("location /i/ { alias /srv/; location /i/j/ { root /other; } }", "/i/j/a", "/other/i/j/a"),
        // A rewritten path does not begin with the location's name.
        ("location /i/ { alias /srv/; do rewrite stay /xyz/a; }", "/i/a", "-"),
        ("location /i/ { root /srv; do rewrite stay /x; }", "/i/a", "/srv/x"),
        ("location /i/ { alias /srv/; do rewrite path /xyz/a; do rewrite settle; }", "/i/a", "-"),
    ] {
        check(server, target, expected);
    }
}

#[test]
fn root_and_alias_exclude_each_other() {
    for (directives, expected) in [
        ("root /a; root /b;", "\"root\" directive is duplicate"),
        ("alias /a; alias /b;", "\"alias\" directive is duplicate"),
        (
            "root /a; alias /b;",
            "\"alias\" directive is duplicate, \"root\" directive was specified earlier",
        ),
        (
            "alias /a; root /b;",
            "\"root\" directive is duplicate, \"alias\" directive was specified earlier",
        ),
    ] {
        assert_eq!(
            Bench::errors(&format!("server {{ location / {{ {directives} }} }}")),
            [expected],
            "{directives}"
        );
    }
}

#[test]
fn the_root_of_a_path_is_known_where_it_is_fixed() {
    for (root, path, expected) in
        [("/srv", "/srv/a", 4), ("/srv", "/other/a", 0), ("/srv/$arg_x", "/srv/a", 0)]
    {
        let bench = Bench::new(&format!("server {{ root {root}; }}"));
        assert_eq!(root_length(&bench.get("/").x, path.as_bytes()), expected, "{root} {path}");
    }
    let bench = Bench::new("server { root /srv; location / { do own respond $uri; } }");
    let mut x = bench.get("/a").x;
    assert_eq!(map_path(&mut x, b"/other").as_deref(), Some(&b"/srv/other"[..]));
    let mut out = b"what was there before".to_vec();
    assert!(map_into(&mut x, &mut out) && out == b"/srv/a");
}
