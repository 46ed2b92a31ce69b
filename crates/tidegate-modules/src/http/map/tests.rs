//! Tables of keys and values, compared with a running nginx.
use crate::testing::Bench;

#[test]
fn keys_are_found_in_order() {
    let bench = Bench::with_files(
        r#"
        map $args $x { default 0; foo bar; foo2 bar; }
        map $args $y {
            hostnames; default 0; example.com foo; example.* right; *.example.com left;
            .dot.example.com special; ~^REGEX.EXAMPLE\.ORG$ sensitive; ~*^www.regex.example\.org$ insensitive;
            \include include; server $server_name; var $z; a.b.* short; a.b.c.* long; "~^(x+)(?<rest>.*)$" "$1-$rest";
        }
        map $args $z { default 0; var baz; include map.conf; }
        map $args $none { a b; }
        server { server_name me; location / { return 200 "$x $y $z [$none]"; } }
        "#,
        &[("map.conf", "more yes;")],
    );
    for (args, expected) in [
        ("1", "0 0 0 []"),
        ("foo", "bar 0 0 []"),
        ("FOO", "bar 0 0 []"),
        ("example.com", "0 foo 0 []"),
        ("EXAMPLE.COM", "0 foo 0 []"),
        ("example.com.", "0 foo 0 []"),
        ("example.org", "0 right 0 []"),
        ("foo.example.com.", "0 left 0 []"),
        ("dot.example.com", "0 special 0 []"),
        ("www.dot.example.com", "0 special 0 []"),
        ("REGEX.EXAMPLE.ORG", "0 sensitive 0 []"),
        ("regex.example.org", "0 0 0 []"),
        ("WWW.REGEX.EXAMPLE.ORG", "0 insensitive 0 []"),
        ("include", "0 include 0 []"),
        ("server", "0 me 0 []"),
        ("var", "0 baz baz []"),
        ("more", "0 0 yes []"),
        ("a.b.c.d", "0 long 0 []"),
        ("a.b.d.d", "0 short 0 []"),
        ("xxy", "0 xx-y 0 []"),
        ("a", "0 0 0 [b]"),
        ("", "0 0 0 []"),
    ] {
        assert_eq!(bench.text(&format!("/?{args}")), expected, "{args}");
    }
}

#[test]
fn values_are_kept_unless_volatile_and_give_way_to_set() {
    let bench = Bench::new(
        r#"
        map $uri $kept { /a first; /b second; }
        map $uri $fresh { volatile; /a first; /b second; }
        server {
            location /a { set $copy "$kept$fresh"; rewrite ^ /b last; }
            location /b { return 200 "$kept $fresh"; }
            location /set { set $kept over; set $fresh over; return 200 "$kept $fresh"; }
        }
        "#,
    );
    assert_eq!(bench.text("/a"), "first second");
    assert_eq!(bench.text("/b"), "second second");
    assert_eq!(bench.text("/set"), "over over");
}

/// As in nginx no further expression is tried.
#[test]
fn an_expression_that_gives_up_leaves_the_default() {
    let bench = Bench::new(
        r#"
        map $arg_q $x { default 1; "~^(a|aa)+$" 0; "~^a" 2; }
        server { location / { return 200 "[$x]"; } }
        "#,
    );
    assert_eq!(bench.text("/?q=aaaaaaaaaaX"), "[2]");
    assert_eq!(bench.text(&format!("/?q={}X", "a".repeat(60))), "[1]");
}

/// Nothing is put into a table of size 0.
#[test]
fn maps_without_keys_need_no_table() {
    let map = "map $uri $x { hostnames; volatile; default 1; ~a 2; }";
    let bench = Bench::new(&format!("map_hash_max_size 0; {map} server {{ return 200 $x; }}"));
    assert_eq!(bench.text("/"), "1");
}

#[test]
fn errors() {
    for (config, expected) in [
        ("map $uri $x { default a; default b; }", "duplicate default map parameter"),
        ("map $uri $x { a b; A c; }", "conflicting parameter \"A\""),
        ("map $uri x { a b; }", "invalid variable name \"x\""),
        ("map $uri $x { a b c; }", "invalid number of the map parameters"),
        ("map $uri $x { a; }", "invalid number of the map parameters"),
        ("map $uri $uri { a b; }", "the duplicate \"uri\" variable"),
        ("map $uri $x { hostnames; *.a.com 1; *.a.com 2; }", "conflicting parameter \"*.a.com\""),
        ("map $uri $x { hostnames; a*.com 1; }", "invalid hostname or wildcard \"a*.com\""),
        (
            "map_hash_max_size 0; map $uri $x { default 1; ~a 2; volatile; b 3; }",
            "could not build map_hash, you should increase map_hash_max_size: 0",
        ),
        (
            "map_hash_bucket_size 0; map $uri $x { \\default 1; }",
            "could not build map_hash, you should increase map_hash_bucket_size: 0",
        ),
        ("map $uri $x { a $nope; }", "unknown \"nope\" variable"),
    ] {
        let errors = Bench::errors(config);
        assert_eq!(errors.first().map(String::as_str), Some(expected), "{config}");
    }
}
