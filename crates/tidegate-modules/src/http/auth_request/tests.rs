//! Statuses of subrequests and the variables that they set.

use crate::testing::Bench;

#[test]
fn the_status_decides() {
    let bench = Bench::new(
        "server { auth_request /auth; return 444;
         location / { } }
         server { server_name verdicts; auth_request /auth/$server_name;
            location /auth { return 204; }
            location /none { auth_request off; }
            location /open { }
            location /made { auth_request /200; }
            location /200 { return 200 hidden; }
            location /401 { auth_request /auth401; }
            location /auth401 { return 401; }
            location /403 { auth_request /auth403; }
            location /auth403 { return 403; }
            location /404 { auth_request /auth404; }
            location /auth404 { return 404; }
            location /302 { auth_request /auth302; }
            location /auth302 { return 302 /x; }
            location /444 { auth_request /auth444; }
            location /auth444 { return 444; }
            location /loop { auth_request /loop; }
            location /any { satisfy any; deny all; auth_request /auth; }
            location /any401 { satisfy any; deny all; auth_request /auth401; }
         }",
    );
    for (path, status) in [
        ("/none", 404),
        ("/open", 404),
        ("/made", 404),
        ("/401", 401),
        ("/403", 403),
        ("/404", 500),
        ("/302", 500),
        ("/444", 500),
        ("/loop", 500),
        ("/any", 404),
        ("/any401", 401),
    ] {
        let reply = bench.send(&format!("GET {path} HTTP/1.1\r\nHost: verdicts\r\n\r\n"));
        assert_eq!(reply.status, status, "{path}");
        assert!(!reply.text().contains("hidden"), "{path}");
    }
    assert!(bench.read("logs/error.log").contains("auth request unexpected status: 404"));
}

#[test]
fn variables_come_from_the_subrequest() {
    let bench = Bench::new(
        "server { auth_request_set $user $uri; auth_request_set $kept $args;
            location /a { auth_request /auth; error_page 404 /page; }
            location /page { add_header X-User $user always; return 200; }
            location /args { auth_request /auth; auth_request_set $args new=1; try_files /none @shown; }
            location @shown { return 200 $args; }
            location /refused { auth_request /no; error_page 401 /page; }
            location /auth { return 204; }
            location /no { return 401; }
            location /unset { return 200 x${user}x; }
         }",
    );
    assert_eq!(bench.get("/a?q").field("X-User"), "/auth");
    assert_eq!(bench.text("/args?q"), "new=1");
    let refused = bench.get("/refused");
    assert_eq!((refused.status, refused.field("X-User").as_str()), (401, "/no"));
    assert_eq!(bench.text("/unset"), "xx");
}

#[test]
fn errors() {
    for (config, expected) in [
        ("auth_request_set x y;", "invalid variable name \"x\""),
        ("server { auth_request_set $uri y; }", "the duplicate \"uri\" variable"),
        ("auth_request /a; auth_request off;", "\"auth_request\" directive is duplicate"),
    ] {
        assert_eq!(Bench::errors(config)[0], expected, "{config}");
    }
}
