//! Added fields, and the arithmetic of `expires`.
use super::expires::{ExpiresRule, fields, parse};
use crate::testing::Bench;

#[test]
fn forms_of_expires() {
    for (text, modified, expected) in [
        ("epoch", false, Ok(ExpiresRule::Epoch)),
        ("max", false, Ok(ExpiresRule::Max)),
        ("off", false, Ok(ExpiresRule::Off)),
        ("2048", false, Ok(ExpiresRule::Access(2048))),
        ("+1h", false, Ok(ExpiresRule::Access(3600))),
        ("-1h", false, Ok(ExpiresRule::Access(-3600))),
        ("1h", true, Ok(ExpiresRule::Modified(3600))),
        ("-1h", true, Ok(ExpiresRule::Modified(-3600))),
        ("@15h30m33s", false, Ok(ExpiresRule::Daily(55833))),
        ("@25h", false, Err("daily time value must be less than 24 hours")),
        ("@1h", true, Err("daily time cannot be used with \"modified\" parameter")),
        ("-@1h", false, Err("invalid value")),
        ("epoch", true, Err("invalid value")),
        ("foo", false, Err("invalid value")),
        ("", false, Err("invalid value")),
    ] {
        let found = parse(text.as_bytes(), modified).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }
}

#[test]
fn values_of_expires() {
    // 784111777 is Sun, 06 Nov 1994 08:49:37 GMT.
    let now = 784_111_777;
    for (rule, modified, offset, at, control) in [
        (ExpiresRule::Access(60), None, 0, now + 60, "max-age=60"),
        (ExpiresRule::Access(0), None, 0, now, "max-age=0"),
        (ExpiresRule::Access(-60), None, 0, now - 60, "no-cache"),
        (ExpiresRule::Modified(60), Some(now - 10), 0, now + 50, "max-age=50"),
        (ExpiresRule::Modified(60), Some(now - 100), 0, now - 40, "no-cache"),
        (ExpiresRule::Modified(60), None, 0, now + 60, "max-age=60"),
        (ExpiresRule::Daily(9 * 3600), None, 0, now + 623, "max-age=623"),
        (ExpiresRule::Daily(8 * 3600), None, 0, now - 2977 + 86400, "max-age=83423"),
        (ExpiresRule::Daily(9 * 3600), None, 3600, now + 623 - 3600 + 86400, "max-age=83423"),
    ] {
        let expected = (tidegate_codec::date::format_http(at).to_vec(), control.to_owned());
        assert_eq!(fields(rule, now, modified, offset), Some(expected), "{rule:?}");
    }
    assert_eq!(fields(ExpiresRule::Off, now, None, 0), None);
}

#[test]
fn fields_are_added_by_status() {
    let bench = Bench::new(
        r#"server {
            add_header X-URI $uri; add_header X-Always $uri always;
            add_header ETag foo always; add_header ETag "" always; expires epoch;
            location /t { return 200 t; }
            location /nx { return 404; }
            location /redirect { return 302 /x; }
            location /own { add_header X-Own 1; return 200 t; }
            location /merge { add_header_inherit merge; add_header X-Own 1; return 200 t; }
            location /off { add_header_inherit off; return 200 t; }
            location /many {
                add_header Cache-Control a; add_header Cache-Control b; add_header Foo "";
                add_header X-Sent $sent_http_cache_control; expires off; return 204;
            }
            location /var { expires $arg_e; return 200 t; }
            location /line { add_header X-Line "a$uri"; return 200 t; }
        }"#,
    );
    for (target, field, expected) in [
        ("/t", "Cache-Control", "no-cache"),
        ("/t", "Expires", "Thu, 01 Jan 1970 00:00:01 GMT"),
        ("/t", "X-URI", "/t"),
        ("/t", "X-Always", "/t"),
        ("/t", "ETag", "-"),
        ("/nx", "X-URI", "-"),
        ("/nx", "X-Always", "/nx"),
        ("/nx", "Expires", "-"),
        ("/redirect", "X-URI", "/redirect"),
        ("/own", "X-URI", "-"),
        ("/own", "X-Own", "1"),
        ("/merge", "X-URI", "/merge"),
        ("/merge", "X-Own", "1"),
        ("/off", "X-URI", "-"),
        ("/many", "Cache-Control", "a|b"),
        ("/many", "X-Sent", "a, b"),
        ("/many", "Foo", "-"),
        ("/var?e=max", "Expires", "Thu, 31 Dec 2037 23:55:55 GMT"),
        ("/var?e=2048", "Cache-Control", "max-age=2048"),
        ("/var?e=off", "Expires", "-"),
        ("/var?e=bad", "Expires", "-"),
        ("/var", "Expires", "-"),
        ("/line%0d%0aSet-Cookie:x", "X-Line", "a/line  Set-Cookie:x"),
    ] {
        assert_eq!(bench.get(target).field(field), expected, "{target} {field}");
    }
}

#[test]
fn trailers_follow_chunked_bodies() {
    let bench = Bench::new(
        r#"server { location / {
            add_trailer Foo foo; add_trailer Foo bar; add_trailer X-Sent $sent_trailer_foo;
            add_trailer X-Late $sent_http_accept_ranges; add_trailer X-Empty "";
            return 200 "text";
        } }"#,
    );
    let reply = bench.get("/");
    let mut text = Vec::new();
    reply.trailers.as_ref().unwrap().write_to(&mut text);
    assert_eq!(text, b"Foo: foo\r\nFoo: bar\r\nX-Sent: foo, bar\r\n");
    assert_eq!((reply.text(), reply.x.delivery.expects_trailers), ("text", true));
    let old = bench.send("GET / HTTP/1.0\r\n\r\n");
    assert!(old.trailers.is_none() && !old.x.delivery.expects_trailers);
}

#[test]
fn errors() {
    for (config, expected) in [
        ("expires foo;", "\"expires\" directive invalid value"),
        ("expires modified;", "\"expires\" directive invalid value"),
        ("expires modified epoch;", "\"expires\" directive invalid value"),
        ("expires @25h;", "\"expires\" directive daily time value must be less than 24 hours"),
        ("add_header a b c;", "invalid parameter \"c\""),
        ("add_header a $nope;", "unknown \"nope\" variable"),
        ("add_header_inherit x;", "invalid value \"x\""),
    ] {
        let errors = Bench::errors(&format!("server {{ {config} }}"));
        assert_eq!(errors, [expected], "{config}");
    }
}
