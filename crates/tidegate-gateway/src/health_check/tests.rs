//! Parsing of `health_check` and `match`. The responses that pass are tested by the end-to-end cases.

use crate::testing::Bench;

fn config(rules: &str, location: &str) -> String {
    format!(
        "upstream u {{ zone z 64k; server 127.0.0.1:1; }} upstream fixed {{ server 127.0.0.1:1; }} \
         match m {{ {rules} }} server {{ location / {{ {location} }} }}"
    )
}

fn check(rules: &str, location: &str, error: &str) {
    let errors = Bench::errors(&config(rules, location));
    let found = errors.iter().any(|found| found.contains(error));
    assert!(found, "{rules} {location}: {errors:?} lacks {error}");
}

#[test]
fn valid_directives() {
    for rules in [
        "status 200;",
        "status ! 500;",
        "status 200-399 404;",
        "status ! 301 302;",
        "header Content-Type = text/html;",
        "header Content-Type != text/html;",
        "header Connection ~ close; header Connection !~ open;",
        "header Host; header ! X; header !Y;",
        "body ~ \"Welcome\"; body !~ gone;",
    ] {
        let location = "proxy_pass http://u; health_check interval=200ms jitter=1s fails=3 passes=2 \
                        uri=/x?y=z match=m port=8080 mandatory persistent keepalive_time=60s;";
        Bench::new(&config(rules, location));
    }
}

#[test]
fn invalid_directives() {
    let passed = "proxy_pass http://u; health_check";
    for (location, error) in [
        ("health_check;".to_owned(), "needs a \"proxy_pass\""),
        ("proxy_pass http://$host; health_check;".to_owned(), "needs a \"proxy_pass\""),
        ("proxy_pass http://fixed; health_check;".to_owned(), "in shared memory"),
        (format!("{passed} match=none;"), "match \"none\" not found"),
        (format!("{passed} interval=0;"), "invalid parameter \"interval=0\""),
        (format!("{passed} fails=0;"), "invalid parameter \"fails=0\""),
        (format!("{passed} uri=x;"), "invalid parameter \"uri=x\""),
        (format!("{passed} \"uri=/x y\";"), "invalid parameter \"uri=/x y\""),
        (format!("{passed} port=0;"), "invalid parameter \"port=0\""),
        (format!("{passed} persistent;"), "requires \"mandatory\""),
        (format!("{passed} type=grpc;"), "not supported yet"),
        (format!("{passed} quick;"), "invalid parameter \"quick\""),
    ] {
        check("status 200;", &location, error);
    }
    for rules in ["status;", "status 99;", "status 300-200;", "status abc;", "header;", "header !;"]
    {
        check(rules, "return 200;", "condition of \"match\"");
    }
    for rules in ["header a b c;", "body = x;", "speed 3;"] {
        check(rules, "return 200;", "condition of \"match\"");
    }
    check("require $upstream_status;", "return 200;", "not supported yet");
    check("body ~ (;", "return 200;", "missing");
}
