//! Tables of configurations, requests and responses, the responses taken from a running nginx.
use crate::testing::Bench;

/// Checks location blocks against (target, status, body or Location).
fn check(config: &str, table: &[(&str, u16, &str)]) {
    let bench = Bench::new(&format!("server {{ listen 8080; {config} }}"));
    for (target, status, expected) in table {
        let reply = bench.get(target);
        let location = reply.field("Location");
        let found = if location == "-" { reply.text() } else { location.as_str() };
        let found = if found.starts_with("<html>") { "" } else { found };
        assert_eq!((reply.status, found), (*status, *expected), "{target}");
    }
}

#[test]
fn responses() {
    check(
        r#"
        location = /200 { return 200; }
        location = /text { return 200 "a $uri"; }
        location = /404 { return 404; }
        location = /404t { return 404 "text"; }
        location = /204 { return 204 "text"; }
        location = /302 { return 302 /x?a=b; }
        location = /302e { return 302 ""; }
        location = /307 { return 307 http://e/x; }
        location = /303 { return 303 $scheme://e/x; }
        location = /url { return https://z/; }
        location = /rel { absolute_redirect off; return 302 /x; }
        location = /word { return 302 x; }
        location = /close { return 444; }
        location = /305 { return 305 "x"; }
        location = /999 { return 999 hi; }
        location = /split { return 302 http://e$uri$arg_a; }
        "#,
        &[
            ("/200", 200, ""),
            ("/text", 200, "a /text"),
            ("/404", 404, ""),
            ("/404t", 404, "text"),
            ("/204", 204, ""),
            ("/302", 302, "http://localhost:8080/x?a=b"),
            ("/302e", 302, ""),
            ("/307", 307, "http://e/x"),
            ("/303", 303, "http://e/x"),
            ("/url", 302, "https://z/"),
            ("/rel", 302, "/x"),
            ("/word", 302, "x"),
            ("/close", 0, ""),
            ("/305", 305, "x"),
            ("/999", 999, "hi"),
        ],
    );
}

#[test]
fn rewrites() {
    check(
        r#"
        location /rw1 { rewrite ^/rw1(.*)$ /dd$1 redirect; }
        location /rw2 { rewrite ^/rw2(.*)$ /dd$1? permanent; }
        location /rw3 { rewrite ^/rw3(.*)$ http://h/dd$1?x=$1; }
        location /rw4 { rewrite ^/rw4(.*)$ /show?p=$1 last; }
        location /rw5 { rewrite ^/rw5(.*)$ /show?p=$1&q=$arg_q? last; }
        location /rw6 { rewrite ^/rw6(.*)$ $arg_u; return 200 "6:$uri"; }
        location /rw7 { rewrite ^/rw7/(.*)$ $1 redirect; }
        location /rw8 { rewrite ^/rw8(.*)$ $scheme://h$1 ; }
        location /rw9 { rewrite ^/rw9(.*)$ /break$1 break; return 200 "no"; }
        location /rwA { rewrite ^/rwA /b; rewrite ^/b /c; return 200 "$uri"; }
        location /rwB { set $a 1; rewrite ^/rwB(.*)$ "/x$1 y"; set $b $1; return 200 "$uri [$b]"; }
        location /rwF { rewrite ^/rwF(.*)$ /show/$uri/$1 last; }
        location /rwG { rewrite ^/rwG(.*)$ /show$1?a=b; }
        location /rwH { rewrite ^/rwH(.*)$ /show$1?a=$1&c=d redirect; }
        location /rwI { rewrite ^/rwI(.*)$ $scheme://h/?u=$1$arg_q permanent; }
        location /un1 { rewrite ^ $arg_r? redirect; }
        location /un5 { rewrite ^ http://example.com/blah%20%3Fblah redirect; }
        location /un6 { rewrite ^ http://example.com/blah%20%2Fblah redirect; }
        location /loop { rewrite ^ /loop last; }
        location /show { return 200 "$uri|$args|$request_uri"; }
        "#,
        &[
            ("/rw1/a%20b%3Fc?x=y", 302, "http://localhost:8080/dd/a%20b?c?x=y"),
            ("/rw2/a%20b?x=y", 301, "http://localhost:8080/dd/a%20b"),
            ("/rw3/a%20b%26?x=y", 302, "http://h/dd/a%20b&?x=/a%20b%26&x=y"),
            ("/rw4/a%20b%26?x=y", 200, "/show|p=/a%20b%26&x=y|/rw4/a%20b%26?x=y"),
            ("/rw5/a%26?q=1%202&x=y", 200, "/show|p=/a%26&q=1%202|/rw5/a%26?q=1%202&x=y"),
            ("/rw6/?u=abc", 200, "6:abc"),
            ("/rw6/?u=", 500, ""),
            ("/rw7/a?x", 302, "a?x"),
            ("/rw7/http://x/y", 302, "http:/x/y"),
            ("/rw8/a%20b?c=d", 302, "http://h/a%20b?c=d"),
            ("/rw9/a", 404, ""),
            ("/rwA", 200, "/c"),
            ("/rwB/a?z", 200, "/x/a y [/a]"),
            ("/rwF/a%20b%25", 200, "/show//rwF/a b%//a b%||/rwF/a%20b%25"),
            ("/rwG/a?c=d", 200, "/show/a|a=b&c=d|/rwG/a?c=d"),
            ("/rwH/a%20b&c?x=y", 302, "http://localhost:8080/show/a%20b&c?a=/a%20b%26c&c=d&x=y"),
            ("/rwI/a%20b?q=%20z", 301, "http://h/?u=/a%20b%20z&q=%20z"),
            ("/un1?r=http%3A%2F%2Fe%2F%3Ffrom", 302, "http://e/?from"),
            ("/un1?r=http%3A%2F%2Fe%0D%0Asplit", 302, "http://e%0D%0Asplit"),
            ("/un5", 302, "http://example.com/blah%20?blah"),
            ("/un6", 302, "http://example.com/blah%20/blah"),
            ("/loop", 500, ""),
        ],
    );
}

#[test]
fn conditions() {
    let config = r#"
        location /true { if ($arg_c) { return 200 y; } return 200 n; }
        location /sp { if ( $arg_c ) { return 200 y; } return 200 n; }
        location /eq { if ($arg_c = "1") { return 200 y; } return 200 n; }
        location /var { if ($arg_c = $arg_d) { return 200 y; } return 200 n; }
        location /ne { if ($arg_c != 2) { return 200 y; } return 200 n; }
        location /empty { if ($arg_c = "") { return 200 y; } return 200 n; }
        location /re { if ($arg_c ~ fo(o)) { return 200 "$1"; } return 200 n; }
        location /ire { if ($arg_c ~* foo) { return 200 y; } return 200 n; }
        location /nre { if ($arg_c !~ foo) { return 200 y; } return 200 n; }
        location /nire { if ($arg_c !~* foo) { return 200 y; } return 200 n; }
        location /named { if ($arg_c ~ "(?<found>o+)") { } return 200 "[$found]"; }
        location /f { if (-f {dir}/$arg_c) { return 200 y; } return 200 n; }
        location /d { if (-d {dir}/$arg_c) { return 200 y; } return 200 n; }
        location /e { if (-e {dir}/$arg_c) { return 200 y; } return 200 n; }
        location /x { if (-x {dir}/$arg_c) { return 200 y; } return 200 n; }
        location /nf { if (!-f {dir}/$arg_c) { return 200 y; } return 200 n; }
        location /head { add_header X-Outer 1; if ($arg_c) { add_header X-Inner 1; } return 200 "t"; }
    "#;
    let bench =
        Bench::with_files(&format!("server {{ {config} }}"), &[("file", "x"), ("directory/", "")]);
    for (target, expected) in [
        ("/true?c=1", "y"),
        ("/true?c=0", "n"),
        ("/true?c=00", "y"),
        ("/true", "n"),
        ("/sp?c=1", "y"),
        ("/eq?c=1", "y"),
        ("/eq?c=2", "n"),
        ("/var?c=a&d=a", "y"),
        ("/var?c=a&d=b", "n"),
        ("/ne?c=1", "y"),
        ("/ne?c=2", "n"),
        ("/empty", "y"),
        ("/empty?c=x", "n"),
        ("/re?c=food", "o"),
        ("/re?c=FOOD", "n"),
        ("/ire?c=FooD", "y"),
        ("/nre?c=FooD", "y"),
        ("/nire?c=FooD", "n"),
        ("/named?c=xooy", "[oo]"),
        ("/named?c=x", "[]"),
        ("/f?c=file", "y"),
        ("/f?c=directory", "n"),
        ("/f?c=no", "n"),
        ("/d?c=directory", "y"),
        ("/d?c=file", "n"),
        ("/e?c=file", "y"),
        ("/e?c=no", "n"),
        ("/x?c=directory", "y"),
        ("/x?c=file", "n"),
        ("/nf?c=directory", "y"),
    ] {
        assert_eq!(bench.text(target), expected, "{target}");
    }
    let fields = |target: &str| {
        let reply = bench.get(target);
        (reply.field("X-Outer"), reply.field("X-Inner"))
    };
    assert_eq!(fields("/head"), ("1".into(), "-".into()));
    assert_eq!(fields("/head?c=1"), ("-".into(), "1".into()));
}

#[test]
fn variables_are_set() {
    check(
        r#"
        set $server_level "s:$uri";
        location /arg { set $arg_foo set; return 200 "$arg_foo"; }
        location /other { return 200 "$arg_foo"; }
        location /args { set $args "x=1&y=2"; return 200 "$args $arg_x $is_args $query_string"; }
        location /rate { set $limit_rate 10k; return 200 "$limit_rate"; }
        location /norate { set $limit_rate x; return 200 "$limit_rate"; }
        location /level { return 200 "$server_level"; }
        location /none { if ($arg_q) { set $unset 1; } return 200 "[$unset]"; }
        location /status { return 201 "$status"; }
        "#,
        &[
            ("/arg?foo=a", 200, "set"),
            ("/other?foo=a", 200, "a"),
            ("/args?q=1", 200, "x=1&y=2 1 ? x=1&y=2"),
            ("/rate", 200, "10240"),
            ("/norate", 200, "0"),
            ("/level", 200, "s:/level"),
            ("/none", 200, "[]"),
            ("/status", 201, "201"),
        ],
    );
}

#[test]
fn programs_of_servers_and_error_pages() {
    check(
        r#"
        rewrite ^/from$ /to;
        if ($arg_stop) { return 403 "stop"; }
        location /to { return 200 "to"; }
        location /inside { internal; return 200 "inside $uri"; }
        location /enter { rewrite ^/enter(.*) /inside$1 last; }
        location /e405 { error_page 405 /text; return 405; }
        location /e302 { error_page 302 /text; return 302 "text"; }
        location /e405r { error_page 405 /r302; return 405; }
        location /e204 { error_page 405 /r204; return 405; }
        location /r302 { return 302 "text"; }
        location /r204 { return 204; }
        location /text { return 200 "text"; }
        location /break { rewrite ^ /gone; break; return 200 "no"; }
        "#,
        &[
            ("/from", 200, "to"),
            ("/to?stop=1", 403, "stop"),
            ("/inside", 404, ""),
            ("/enter/x", 200, "inside /inside/x"),
            ("/e405", 405, "text"),
            ("/e302", 302, "text"),
            ("/e204", 405, ""),
            ("/break", 404, ""),
        ],
    );
}

#[test]
fn errors() {
    for (config, expected) in [
        ("if ($uri) { if ($uri) { } }", "\"if\" directive is not allowed here"),
        ("if (a = b) { }", "invalid condition \"a\""),
        ("if ($uri = b { }", "invalid condition \"b\""),
        ("if $uri { }", "invalid condition \"$uri\""),
        ("if ($uri b) { }", "invalid condition \"$uri\""),
        ("if ( -f ) { }", "invalid condition \"-f\""),
        ("if ($uri ~) { }", "invalid condition \"$uri\""),
        ("if (-z x) { }", "invalid condition \"-z\""),
        ("if ($uri !! b) { }", "unexpected \"!!\" in condition"),
        ("set uri x;", "invalid variable name \"uri\""),
        ("set $uri x;", "the duplicate \"uri\" variable"),
        ("set $ x;", "invalid variable name \"$\""),
        ("return x;", "invalid return code \"x\""),
        ("return 1000;", "invalid return code \"1000\""),
        ("return -1;", "invalid return code \"-1\""),
        ("return 200 $nope;", "unknown \"nope\" variable"),
        ("rewrite ^ /x foo;", "invalid parameter \"foo\""),
        ("rewrite ^ \"\";", "empty replacement"),
    ] {
        let errors = Bench::errors(&format!("server {{ location / {{ {config} }} }}"));
        assert_eq!(errors.first().map(String::as_str), Some(expected), "{config}");
    }
}
