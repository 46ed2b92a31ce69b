//! Rules for fields of responses and requests.

use crate::testing::Bench;

#[test]
fn fields_of_responses() {
    let bench = Bench::new(
        r#"default_type text/plain; more_set_headers "X-Http: 1";
        server {
            more_set_headers "X-Server: 1" "X-Both: server";
            location /set { more_set_headers "X-Both: $uri" "X-Empty: $arg_v"; return 200 t; }
            location /last { more_set_headers "X-M: 1" "X-M: 2"; return 200 t; }
            location /name { more_set_headers "X-Server"; return 200 t; }
            location /colon { more_set_headers "X-Server:" "X-Blank  :  a b"; return 200 t; }
            location /append { more_set_headers -a "X-Both: 2" "X-None: $arg_v"; return 200 t; }
            location /added { add_header X-A 1; more_clear_headers X-A; return 200 t; }
            location /status { more_set_headers -s "404 500" -s 403 "X-S: 1"; return 404; }
            location /ok { more_set_headers -s "404 500" "X-S: 1"; return 200 t; }
            location /type { more_set_headers -t "text/css TEXT/plain" "X-T: 1"; return 200 t; }
            location /html { more_set_headers -t text/html -s 200 "X-T: 1"; return 200 t; }
            location /empty { more_set_headers -s "" -t "" "X-T: 1"; return 200 t; }
            location /prefix {
                more_set_headers "x-server-two: 2";
                more_clear_headers "X-SERVER*" "Content-*";
                return 200 t;
            }
            location /media { more_set_headers "Content-Type: text/foo"; return 200 t; }
            location /none { more_clear_headers Content-Type; return 200 t; }
            location /line { more_set_headers "X-L: a$uri"; return 200 t; }
            location /if { if ($arg_x) { more_set_headers "X-If: 1"; } return 200 t; }
        }"#,
    );
    for (target, field, expected) in [
        ("/set", "X-Http", "1"),
        ("/set", "X-Server", "1"),
        ("/set", "X-Both", "/set"),
        ("/set", "X-Empty", "-"),
        ("/set?v=1", "X-Empty", "1"),
        ("/last", "X-M", "2"),
        ("/name", "X-Server", "-"),
        ("/colon", "X-Server", "-"),
        ("/colon", "X-Blank", "a b"),
        ("/append", "X-Both", "server|2"),
        ("/append", "X-None", "-"),
        ("/added", "X-A", "1"),
        ("/status", "X-S", "1"),
        ("/ok", "X-S", "-"),
        ("/type", "X-T", "1"),
        ("/html", "X-T", "-"),
        ("/empty", "X-T", "1"),
        ("/prefix", "X-Server", "-"),
        ("/prefix", "X-Server-Two", "-"),
        ("/prefix", "X-Both", "server"),
        ("/prefix", "Content-Type", "text/plain"),
        ("/media", "Content-Type", "text/foo"),
        ("/none", "Content-Type", "-"),
        ("/line%0d%0aSet-Cookie:x", "X-L", "a/line  Set-Cookie:x"),
        ("/if", "X-If", "-"),
        ("/if", "X-Both", "server"),
    ] {
        assert_eq!(bench.get(target).field(field), expected, "{target} {field}");
    }
}

#[test]
fn fields_of_requests() {
    let bench = Bench::new(
        r#"server {
            more_set_input_headers "X-Server: 1";
            add_header X-Got "$http_a|$http_x_server|$host";
            location /set { more_set_input_headers "A: $arg_a"; empty_gif; }
            location /host { more_set_input_headers "Host: Foo.Example:81"; empty_gif; }
            location /no_host { more_clear_input_headers Host; empty_gif; }
            location /exists { more_set_input_headers -r "A: new"; empty_gif; }
            location /type { more_set_input_headers -t "text/plain" "A: plain"; empty_gif; }
            location /clear { more_clear_input_headers "a" "B*"; add_header X-B "$http_b1|$http_c"; empty_gif; }
            location /long { set $b $http_a$http_a$http_a; more_set_input_headers "A: $b$b$b$b"; empty_gif; }
            location /return { more_set_input_headers "A: late"; return 200 t; }
        }"#,
    );
    for (target, fields, expected) in [
        ("/set?a=1", &[][..], "1|1|localhost"),
        ("/set", &["A: old"], "|1|localhost"),
        ("/host", &[], "|1|foo.example"),
        ("/no_host", &[], "|1|"),
        ("/exists", &[], "|1|localhost"),
        ("/exists", &["A: old", "a: other"], "new|1|localhost"),
        ("/type", &["Content-Type: text/plain; charset=utf-8"], "plain|1|localhost"),
        ("/type", &[], "|1|localhost"),
        ("/return", &[], "||localhost"),
    ] {
        let reply = bench.get_with(target, fields);
        assert_eq!(reply.field("X-Got"), expected, "{target} {fields:?}");
    }
    let reply = bench.get_with("/clear", &["A: 1", "B1: x", "b2: y", "C: z"]);
    assert_eq!(reply.field("X-B"), "|z");
    let long = format!("A: {}", "x".repeat(6_000));
    assert_eq!(bench.get_with("/long", &[&long]).status, 500);
}

#[test]
fn errors_and_warnings() {
    for (config, expected) in [
        ("more_set_headers -s;", "option -s takes an argument"),
        ("more_set_headers -s 404;", "no field in \"more_set_headers\" directive"),
        ("more_set_headers -s x A:b;", "invalid status code list \"x\""),
        ("more_set_headers -s 1000 A:b;", "invalid status code list \"1000\""),
        ("more_set_headers -x A:b;", "invalid option name: \"-x\""),
        ("more_set_headers -r A:b;", "invalid option name: \"-r\""),
        ("more_clear_headers -a A;", "invalid option name: \"-a\""),
        ("more_set_input_headers -s 404 A:b;", "invalid option name: \"-s\""),
        ("more_set_input_headers -a A:b;", "invalid option name: \"-a\""),
        ("more_set_headers \"a b: c\";", "invalid field name \"a b\""),
        ("more_set_headers \": c\";", "invalid field name \"\""),
        ("more_set_headers \"$uri: c\";", "variables in the name of a field: \"$uri\""),
        ("more_clear_headers *;", "wildcard key too short: *"),
        ("more_set_headers \"A-*: b\";", "a value for all fields \"A-*\""),
        ("more_set_headers \"A: $nope\";", "unknown \"nope\" variable"),
        (
            "more_set_headers -a \"Server: a\";",
            "can not append builtin headers \"Server\" in \"more_set_headers\" directive",
        ),
        (
            "if ($uri) { more_set_headers A:b; }",
            "\"more_set_headers\" directive is not allowed here",
        ),
    ] {
        assert_eq!(Bench::errors(&format!("server {{ {config} }}")), [expected], "{config}");
    }
    let bench = Bench::new(
        "server { more_set_headers 'Content-Length: 1' 'X: 1' Transfer-Encoding:chunked; \
         more_clear_headers Connection Content-Length; \
         more_set_input_headers Content-Length:1; return 200 t; }",
    );
    let left = |name: &str| format!("the field \"{name}\" is left as it is");
    let names = ["Content-Length", "Transfer-Encoding", "Connection", "Content-Length"];
    assert_eq!(bench.warnings, names.map(left));
    assert_eq!(bench.get("/").field("X"), "1");
}
