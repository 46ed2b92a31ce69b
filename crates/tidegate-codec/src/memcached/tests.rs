//! Response lines of a `get`.

use super::*;

fn check(input: &str, expected: Result<ValueResponse, ValueResponseError>) {
    assert_eq!(parse_value_response(input.as_bytes(), b"key", 64), expected, "{input:?}");
}

#[test]
fn responses_are_parsed() {
    let value = |consumed, flags, length| Ok(ValueResponse::Value { consumed, flags, length });
    check("VALUE key 0 5\r\nhello\r\nEND\r\n", value(15, 0, 5));
    check("VALUE key 4294967295 0\r\n", value(24, u32::MAX, 0));
    check("END\r\n", Ok(ValueResponse::Absent { consumed: 5 }));
    for end in 0.."VALUE key 0 5\r\n".len() {
        check(&"VALUE key 0 5\r\n"[..end], Ok(ValueResponse::Partial));
    }
}

#[test]
fn all_else_is_refused() {
    let line = |text: &str| Err(ValueResponseError::Line(text.to_owned()));
    check("ERROR\r\n", line("ERROR"));
    check("SERVER_ERROR out of memory\r\n", line("SERVER_ERROR out of memory"));
    check("\r\n", line(""));
    check("END\n", line("END"));
    check("VALUE key 0 5\n", line("VALUE key 0 5"));
    check("VALUE other 0 5\r\n", Err(ValueResponseError::Key("VALUE other 0 5".into())));
    check("VALUE keys 0 5\r\n", Err(ValueResponseError::Key("VALUE keys 0 5".into())));
    check("VALUE key x 5\r\n", Err(ValueResponseError::Flags("VALUE key x 5".into())));
    check(
        "VALUE key 4294967296 5\r\n",
        Err(ValueResponseError::Flags("VALUE key 4294967296 5".into())),
    );
    check("VALUE key 0 -5\r\n", Err(ValueResponseError::Length("VALUE key 0 -5".into())));
    check("VALUE key 2 5 17\r\n", Err(ValueResponseError::Length("VALUE key 2 5 17".into())));
    check("VALUE key 0 5 \r\n", Err(ValueResponseError::Length("VALUE key 0 5 ".into())));
    check("VALUE key 0\r\n", Err(ValueResponseError::Length("VALUE key 0".into())));
    for huge in ["VALUE key 0 9223372036854775808\r\n", "VALUE key 0 99999999999999999999\r\n"] {
        check(huge, Err(ValueResponseError::Length(huge.trim_end().into())));
    }
    check(&"x".repeat(64), Err(ValueResponseError::TooBig));
    let message = ValueResponseError::Key("VALUE other 0 5".into()).message(b"key");
    assert!(message.ends_with("response \"VALUE other 0 5\" for key \"key\""), "{message}");
}

#[test]
fn replies_become_heads() {
    let check = |input: &str, gzip_flag: u32, status: u16, reason: &str, fields: &str| {
        // A head that was used before.
        let mut head = ResponseHead::default();
        head.headers.push(b"X-Old", b"1");
        head.status = 599;
        let reply = parse_value_response(input.as_bytes(), b"key", 64).expect("a reply");
        reply.write_head(gzip_flag, &mut head);
        let mut out = Vec::new();
        head.headers.write_to(&mut out);
        assert_eq!((head.status, head.reason()), (status, reason.as_bytes()), "{input:?}");
        assert_eq!(String::from_utf8_lossy(&out), fields, "{input:?}");
        if status != 599 {
            assert!(head.keep_alive(), "{input:?}");
        }
    };
    check("VALUE key 0 5\r\n", 2, 200, "OK", "Content-Length: 5\r\n");
    let gzip = "Content-Length: 0\r\nContent-Encoding: gzip\r\n";
    check("VALUE key 3 0\r\n", 2, 200, "OK", gzip);
    let most = "Content-Length: 9223372036854775807\r\n";
    check("VALUE key 1 9223372036854775807\r\n", 2, 200, "OK", most);
    check("END\r\n", 2, 404, "Not Found", "Content-Length: 0\r\n");
    check("VALUE key", 2, 599, "", "X-Old: 1\r\n");
}
