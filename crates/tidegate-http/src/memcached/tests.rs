//! Lines that answer a `get`.

use super::*;

fn check(input: &str, expected: Result<Reply, ReplyError>) {
    assert_eq!(parse_reply(input.as_bytes(), b"key", 64), expected, "{input:?}");
}

#[test]
fn answers_are_understood() {
    let value = |consumed, flags, length| Ok(Reply::Value { consumed, flags, length });
    check("VALUE key 0 5\r\nhello\r\nEND\r\n", value(15, 0, 5));
    check("VALUE key 4294967295 0\r\n", value(24, u32::MAX, 0));
    check("END\r\n", Ok(Reply::Absent { consumed: 5 }));
    for end in 0.."VALUE key 0 5\r\n".len() {
        check(&"VALUE key 0 5\r\n"[..end], Ok(Reply::Partial));
    }
}

#[test]
fn all_else_is_refused() {
    let line = |text: &str| Err(ReplyError::Line(text.to_owned()));
    check("ERROR\r\n", line("ERROR"));
    check("SERVER_ERROR out of memory\r\n", line("SERVER_ERROR out of memory"));
    check("\r\n", line(""));
    check("END\n", line("END"));
    check("VALUE key 0 5\n", line("VALUE key 0 5"));
    check("VALUE other 0 5\r\n", Err(ReplyError::Key("VALUE other 0 5".into())));
    check("VALUE keys 0 5\r\n", Err(ReplyError::Key("VALUE keys 0 5".into())));
    check("VALUE key x 5\r\n", Err(ReplyError::Flags("VALUE key x 5".into())));
    check("VALUE key 4294967296 5\r\n", Err(ReplyError::Flags("VALUE key 4294967296 5".into())));
    check("VALUE key 0 -5\r\n", Err(ReplyError::Length("VALUE key 0 -5".into())));
    check("VALUE key 2 5 17\r\n", Err(ReplyError::Length("VALUE key 2 5 17".into())));
    check("VALUE key 0 5 \r\n", Err(ReplyError::Length("VALUE key 0 5 ".into())));
    check("VALUE key 0\r\n", Err(ReplyError::Length("VALUE key 0".into())));
    let huge = "VALUE key 0 99999999999999999999\r\n";
    check(huge, Err(ReplyError::Length(huge.trim_end().into())));
    check(&"x".repeat(64), Err(ReplyError::TooBig));
    let message = ReplyError::Key("VALUE other 0 5".into()).message(b"key");
    assert!(message.ends_with("response \"VALUE other 0 5\" for key \"key\""), "{message}");
}
