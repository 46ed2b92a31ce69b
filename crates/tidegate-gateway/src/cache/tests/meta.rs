//! Encoding and decoding of stored heads; what a 304 changes.

use tidegate_codec::{Headers, Known};

use crate::cache::meta::{Decoded, Meta, PartsInfo};

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.push(name.as_bytes(), value.as_bytes()));
    headers
}

fn listed(headers: &Headers) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    headers.iter().map(|(_, name, value)| (text(name), text(value))).collect()
}

fn sample() -> Meta {
    let fields = headers(&[
        ("Content-Type", "text/plain"),
        ("connection", "close, X-Hop"),
        ("x-hop", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("ETag", "\"e\""),
        ("x-Own", "a"),
        ("X-Own", "b"),
    ]);
    let names = vec![b"accept".to_vec(), b"cookie".to_vec()];
    Meta::of(200, b"Fine", &fields, names, b"accept:x\r\ncookie:\r\n".to_vec(), None)
}

#[test]
fn encoding_round_trips() {
    let of = |size, id| Some(PartsInfo { size, id });
    for (head_length, must_revalidate, parts) in [
        (None, true, None),
        (Some(7), false, None),
        (Some(0), true, of(9, 1)),
        (None, false, of(0, 0)),
    ] {
        let from_tier = parts.is_none();
        let meta =
            Meta { head_length, must_revalidate, from_tier, parts, variant_set: 9, ..sample() };
        let again = Meta::decode(&meta.encode()).expect("own bytes");
        assert_eq!(again.status, 200);
        assert_eq!(again.reason, meta.reason);
        assert_eq!(again.vary, meta.vary);
        assert_eq!(again.variant, meta.variant);
        assert_eq!((again.head_length, again.parts), (head_length, parts));
        assert_eq!((again.must_revalidate, again.variant_set), (must_revalidate, 9));
        assert_eq!(again.from_tier, from_tier);
        assert_eq!(listed(&again.headers), listed(&meta.headers));
        let decoded = Decoded::of(&meta.encode()).expect("own bytes");
        assert_eq!(decoded.head.reason(), b"Fine");
        assert_eq!(listed(&decoded.head.headers), listed(&meta.headers));
    }
}

#[test]
fn fields_of_the_connection_stay_behind() {
    let names: Vec<String> = listed(&sample().headers).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Content-Type", "ETag", "x-Own", "X-Own"]);
}

/// What decodes, encodes to the same again.
fn check_round_trip(bytes: &[u8]) {
    if let Some(meta) = Meta::decode(bytes) {
        let again = meta.encode();
        let decoded = Meta::decode(&again);
        assert_eq!(decoded.map(|decoded| decoded.encode()), Some(again));
    }
}

#[test]
fn cut_and_changed_bytes_do_no_harm() {
    let whole = sample().encode();
    for length in 0..whole.len() {
        assert!(Meta::decode(&whole[..length]).is_none(), "{length}");
    }
    for place in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.to_vec();
            bytes[place] = value;
            check_round_trip(&bytes);
        }
    }
}

#[test]
fn variants() {
    let meta = sample();
    let mut scratch = Vec::new();
    assert!(meta.serves(&headers(&[("Accept", "x")]), &mut scratch));
    assert!(meta.serves(&headers(&[("ACCEPT", " x,")]), &mut scratch));
    assert!(!meta.serves(&headers(&[]), &mut scratch));
    assert!(!meta.serves(&headers(&[("Accept", "x"), ("Cookie", "c")]), &mut scratch));
    let plain = Meta { vary: Vec::new(), variant: Vec::new(), ..meta };
    assert!(plain.serves(&headers(&[("Cookie", "c")]), &mut scratch));
}

#[test]
fn a_304_renews_fields() {
    let renewed = sample().refreshed(&headers(&[
        ("X-Own", "c"),
        ("ETag", "\"other\""),
        ("Content-Type", "text/html"),
        ("Cache-Control", "max-age=1"),
        ("Connection", "close"),
    ]));
    let expected = [
        ("Content-Type", "text/plain"),
        ("ETag", "\"e\""),
        ("X-Own", "c"),
        ("Cache-Control", "max-age=1"),
    ];
    let expected: Vec<(String, String)> =
        expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    assert_eq!(listed(&renewed.headers), expected);
    assert_eq!(renewed.etag(), Some(&b"\"e\""[..]));
    assert!(!renewed.headers.contains(Known::Connection));
}

/// 1 January 2000, noon.
const NOW: u64 = 946_728_000_000;

fn check_fields(meta: &Meta, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    assert_eq!(listed(&meta.headers), expected);
}

#[test]
fn rfc9111_keeps_no_fields_of_proxies_and_gives_every_response_a_date() {
    let fields = headers(&[("Proxy-Authenticate", "Basic"), ("Set-Cookie", "a=b")]);
    let mut meta = Meta::of(200, b"", &fields, Vec::new(), Vec::new(), None);
    meta.make_rfc9111(true, NOW);
    check_fields(&meta, &[("Set-Cookie", "a=b"), ("Date", "Sat, 01 Jan 2000 12:00:00 GMT")]);
    assert!(meta.must_revalidate);
    meta.make_rfc9111(false, NOW + 5000);
    assert_eq!(meta.headers.all(Known::Date).count(), 1);
}

#[test]
fn rfc9111_has_a_304_renew_all_fields_but_the_length() {
    let mut old = sample();
    old.headers.push(b"Age", b"7");
    old.headers.push(b"Date", b"Fri, 31 Dec 1999 12:00:00 GMT");
    let newer = headers(&[
        ("ETag", "\"other\""),
        ("Content-Type", "text/html"),
        ("Content-Length", "9"),
        ("Content-Range", "bytes 0-1/2"),
        ("Vary", "x"),
        ("Connection", "close"),
    ]);
    let expected = [
        ("x-Own", "a"),
        ("X-Own", "b"),
        ("ETag", "\"other\""),
        ("Content-Type", "text/html"),
        ("Date", "Sat, 01 Jan 2000 12:00:00 GMT"),
    ];
    check_fields(&old.refreshed_rfc9111(&newer, NOW), &expected);
}
