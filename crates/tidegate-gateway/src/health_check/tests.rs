//! Parsing of `health_check` and `match`, and gRPC's messages. The responses that pass are tested by the end-to-end cases.

use super::serving::{ServingState, encode_request};
use crate::testing::Bench;
use proptest::prelude::*;

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
    let location = "grpc_pass grpcs://u; health_check mandatory port=1 keepalive_time=60s type=grpc \
                    grpc_service=greet.Greeter grpc_status=12;";
    Bench::new(&config("status 200;", location));
}

#[test]
fn invalid_directives() {
    let passed = "proxy_pass http://u; health_check";
    let calls = "grpc_pass grpc://u; health_check";
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
        (format!("{passed} type=grpc;"), "needs a \"grpc_pass\""),
        (format!("{passed} type=other;"), "invalid parameter \"type=other\""),
        (format!("{passed} grpc_status=12;"), "\"grpc_status\" must follow \"type=grpc\""),
        (format!("{calls} grpc_service=a type=grpc;"), "\"grpc_service\" must follow"),
        (format!("{calls} type=grpc fails=2;"), "\"fails\" must precede \"type=grpc\""),
        (format!("{calls} uri=/x type=grpc;"), "incompatible with \"uri\""),
        (format!("{calls} match=m type=grpc;"), "incompatible with \"match\""),
        (format!("{calls} type=grpc grpc_status=0;"), "invalid parameter \"grpc_status=0\""),
        (format!("{calls} type=grpc grpc_status=x;"), "invalid parameter \"grpc_status=x\""),
        (format!("{calls} type=grpc type=grpc;"), "invalid parameter \"type=grpc\""),
        (format!("{calls};"), "needs a \"proxy_pass\""),
        ("grpc_pass fixed; health_check type=grpc;".to_owned(), "in shared memory"),
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

#[test]
fn requests_for_the_state_of_a_service() {
    let check =
        |service: &str, frame: &[u8]| assert_eq!(encode_request(service), frame, "{service}");
    check("", b"\0\0\0\0\0");
    check("a.B", b"\0\0\0\0\x05\x0a\x03a.B");
    let long = "x".repeat(200);
    let prefix = b"\0\0\0\0\xcb\x0a\xc8\x01";
    check(&long, &[&prefix[..], long.as_bytes()].concat());
}

#[test]
fn states_of_services() {
    let check = |message: &[u8], state: Option<ServingState>| {
        let length = u32::try_from(message.len()).unwrap_or(0).to_be_bytes();
        let body = [&[0], &length[..], message].concat();
        assert_eq!(ServingState::of(&body), state, "{message:?}");
    };
    check(b"", Some(ServingState::Unknown));
    check(b"\x08\x01", Some(ServingState::Serving));
    check(b"\x08\x02", Some(ServingState::NotServing));
    check(b"\x08\x03", Some(ServingState::ServiceUnknown));
    check(b"\x08\x09", Some(ServingState::Unknown));
    check(b"\x08\x02\x08\x01", Some(ServingState::Serving));
    check(b"\x08\x81\x00", Some(ServingState::Serving));
    // Unknown fields of each type are skipped.
    check(b"\x10\x05\x11abcdefgh\x1a\x02ab\x25abcd\x08\x01", Some(ServingState::Serving));
    for broken in
        [&b"\x08"[..], b"\x08\xff", b"\x0b", b"\x11abc", b"\x1a\x05ab", b"\x25a", &[0xff; 11]]
    {
        check(broken, None);
    }
    for body in [&b""[..], b"\0\0\0\0", b"\x01\0\0\0\0", b"\0\0\0\0\x03\x08\x01", b"\0\0\0\0\0a"] {
        assert_eq!(ServingState::of(body), None, "{body:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_state_or_none(mut body: Vec<u8>, framed: bool) {
        if framed {
            let length = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
            body.splice(0..0, [0, length[0], length[1], length[2], length[3]]);
        }
        let _ = ServingState::of(&body);
    }
}
