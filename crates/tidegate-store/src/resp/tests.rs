//! Replies: all forms, in any pieces, and those above the limits.

use proptest::prelude::*;

use super::{DEPTH_MAX, DecodeError, Decoder, TEXT_BYTES_MAX, Value, fuzz_replies};

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn decode(bytes: &[u8]) -> Result<Option<Value>, DecodeError> {
    let mut decoder = Decoder::default();
    decoder.buffer().extend_from_slice(bytes);
    decoder.next_reply()
}

#[test]
fn both_versions_are_read() {
    let table: [(&str, Value); 20] = [
        ("+OK\r\n", text("OK")),
        ("-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
        (":-12\r\n", Value::Integer(-12)),
        ("$5\r\na\r\nbc\r\n", text("a\r\nbc")),
        ("$0\r\n\r\n", text("")),
        ("$-1\r\n", Value::Null),
        ("*-1\r\n", Value::Null),
        ("_\r\n", Value::Null),
        ("#t\r\n", Value::Integer(1)),
        ("#f\r\n", Value::Integer(0)),
        (",1.5\r\n", text("1.5")),
        ("(123456789012345678901\r\n", text("123456789012345678901")),
        ("!5\r\nERR x\r\n", Value::Error(b"ERR x".to_vec())),
        ("=6\r\ntxt:hi\r\n", text("hi")),
        ("*0\r\n", Value::List(vec![])),
        ("%1\r\n+a\r\n:1\r\n", Value::List(vec![text("a"), Value::Integer(1)])),
        ("~1\r\n+a\r\n", Value::List(vec![text("a")])),
        (">1\r\n+a\r\n", Value::Push(vec![text("a")])),
        ("|1\r\n+ttl\r\n:3\r\n*2\r\n|0\r\n:1\r\n*0\r\n", {
            Value::List(vec![Value::Integer(1), Value::List(vec![])])
        }),
        ("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", {
            Value::List(vec![Value::List(vec![Value::Integer(1)]), text("x")])
        }),
    ];
    for (bytes, expected) in table {
        assert_eq!(decode(bytes.as_bytes()), Ok(Some(expected)), "{bytes:?}");
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes.as_bytes()[..end]), Ok(None), "{bytes:?} {end}");
        }
    }
}

#[test]
fn other_bytes_and_large_announcements_are_refused_at_once() {
    let deep = "*1\r\n".repeat(DEPTH_MAX + 1);
    let long = format!("+{}", "a".repeat(70_000));
    let above = format!("${}\r\n", TEXT_BYTES_MAX + 1);
    let table = [
        ("HTTP/1.1 400 Bad Request\r\n", DecodeError::Syntax),
        ("$536870912\r\n", DecodeError::TooLarge),
        (&above, DecodeError::TooLarge),
        ("*2147483647\r\n", DecodeError::TooLarge),
        ("%9223372036854775807\r\n", DecodeError::TooLarge),
        ("$-2\r\n", DecodeError::Syntax),
        ("*-2\r\n", DecodeError::Syntax),
        ("$99999999999999999999\r\n", DecodeError::Syntax),
        ("$1\r\nxyz\r\n", DecodeError::Syntax),
        ("=2\r\nab\r\n", DecodeError::Syntax),
        (":x\r\n", DecodeError::Syntax),
        ("#x\r\n", DecodeError::Syntax),
        ("_x\r\n", DecodeError::Syntax),
        (&long, DecodeError::TooLarge),
        (&deep, DecodeError::TooDeep),
    ];
    for (bytes, expected) in table {
        let shown = &bytes[..bytes.len().min(40)];
        assert_eq!(decode(bytes.as_bytes()), Err(expected), "{shown:?}");
    }
}

#[test]
fn a_reply_of_many_texts_is_bounded() {
    let mut decoder = Decoder::default();
    decoder.buffer().extend_from_slice(b"*1000\r\n");
    let mut piece = format!("${}\r\n", 1 << 20).into_bytes();
    piece.resize(piece.len() + (1 << 20), b'x');
    piece.extend_from_slice(b"\r\n");
    let ends = (0..40).find_map(|count| {
        decoder.buffer().extend_from_slice(&piece);
        decoder.next_reply().err().map(|error| (count, error))
    });
    assert_eq!(ends, Some((31, DecodeError::TooLarge)));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Text),
        "[A-Z]{1,8} [a-z ]{0,8}".prop_map(|text| Value::Error(text.into_bytes())),
    ];
    leaf.prop_recursive(4, 30, 6, |inner| {
        proptest::collection::vec(inner, 0..6).prop_map(Value::List)
    })
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    let mut line = |text: String| out.extend_from_slice(text.as_bytes());
    match value {
        Value::Null => line("_\r\n".to_owned()),
        Value::Integer(number) => line(format!(":{number}\r\n")),
        Value::Error(text) => line(format!("-{}\r\n", String::from_utf8_lossy(text))),
        Value::Text(text) => {
            line(format!("${}\r\n", text.len()));
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Value::List(values) | Value::Push(values) => {
            line(format!("*{}\r\n", values.len()));
            values.iter().for_each(|value| encode(value, out));
        }
    }
}

proptest! {
    #[test]
    fn replies_come_as_they_were_sent(
        values in proptest::collection::vec(any_value(), 1..5),
        piece in 1usize..40,
    ) {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| encode(value, &mut bytes));
        let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(reply) = decoder.next_reply().expect("valid") {
                replies.push(reply);
            }
        }
        prop_assert_eq!(replies, values);
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_replies(&bytes);
    }

    #[test]
    fn what_looks_like_replies_is_read(
        parts in proptest::collection::vec("[-+:$*_,#!=(%~>|][0-9]{0,2}\r\n", 0..20),
        piece in any::<u8>(),
    ) {
        let mut bytes = vec![piece];
        parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        fuzz_replies(&bytes);
    }
}
