//! Heads as text and as lists.

use super::*;

/// Writes the same fields through a writer.
fn write(writer: &mut impl FieldWriter) {
    let set: [(&[u8], &[u8]); 6] = [
        (b"Host", b"origin:8080"),
        (b"Connection", b"close"),
        (b"X-Empty", b""),
        (b"X-One", b"1"),
        (b"X-Split", b"a\nevil: 1"),
        (b"Transfer-Encoding", b"chunked"),
    ];
    for (name, value) in set {
        let (out, start) = writer.begin(name);
        assert_eq!(out.len(), start);
        out.extend_from_slice(value);
        writer.end(name);
    }
    writer.field(Known::Accept, b"Accept", b"*/*");
    writer.field(Known::Upgrade, b"Upgrade", b"websocket");
    writer.field(Known::Other, b"x_Y", b"");
}

#[test]
fn text_has_each_field_with_a_value() {
    let mut text = b"GET /a HTTP/1.1\r\n".to_vec();
    write(&mut TextFields::new(&mut text));
    // Line ends of values are the caller's to replace.
    let expected = "GET /a HTTP/1.1\r\nHost: origin:8080\r\nConnection: close\r\nX-One: 1\r\n\
                    X-Split: a\nevil: 1\r\nTransfer-Encoding: chunked\r\nAccept: */*\r\n\
                    Upgrade: websocket\r\nx_Y: \r\n";
    assert_eq!(String::from_utf8_lossy(&text), expected);
}

#[test]
fn a_list_has_what_http2_allows() {
    let mut list = HeadList::new(b"GET /a", 4..6);
    write(&mut ListFields::new(&mut list));
    assert_eq!((list.method(), list.path()), (&b"GET"[..], &b"/a"[..]));
    assert_eq!(list.authority, b"origin:8080");
    let shown = |(_, name, value): (Known, &[u8], &[u8])| {
        format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    let fields: Vec<_> = list.headers.iter().map(shown).collect();
    assert_eq!(fields, ["x-one=1", "accept=*/*", "x_y="]);
    assert_eq!(&OriginHead::List(Box::new(list)).text()[4..6], b"/a");
}
