//! Parts and the body assembled from them; the requests to an origin are tested by the end-to-end cases.

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::range::ByteRange;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::exchange::Response;
use tidegate_core::plan::LocationId;
use tidegate_core::{Body, Chunk};

use super::body::Sliced;
use super::part::{Part, PartError, PartInfo, first_byte, judge, judge_next};

const HERE: LocationId = LocationId(0);

#[test]
fn the_byte_that_a_range_begins_at() {
    for (field, expected) in [
        ("bytes=5-9", 5),
        ("Bytes= 5 -", 5),
        ("bytes=0-", 0),
        ("bytes=-5", 0),
        ("bytes=5-9,1-2", 0),
        ("bytes=5", 0),
        ("bytes=x-", 0),
        ("bytes=99999999999999999999-", 0),
        ("lines=5-9", 0),
        ("", 0),
    ] {
        assert_eq!(first_byte(field.as_bytes()), expected, "{field}");
    }
}

#[test]
fn the_part_that_a_byte_lies_in() {
    for (byte, size, start, last) in
        [(0, 4, 0, 3), (3, 4, 0, 3), (4, 4, 4, 7), (u64::MAX, 4, u64::MAX - 3, u64::MAX)]
    {
        let part = Part::of(HERE, byte, size);
        assert_eq!((part.start, part.last()), (start, last), "{byte} of {size}");
    }
}

fn response(content_range: &str, etag: Option<&str>) -> Response {
    let mut response = Response::default();
    response.headers.set_known(Known::ContentRange, content_range.as_bytes());
    if let Some(etag) = etag {
        response.headers.set_known(Known::Etag, etag.as_bytes());
    }
    response
}

#[test]
fn responses_are_the_part_or_not() {
    let part = Part::of(HERE, 4, 4);
    let range = |start, end| ByteRange { start, end };
    for (status, field, expected) in [
        (206, "bytes 4-7/10", Ok((range(4, 8), 10))),
        (206, "bytes 4-5/6", Ok((range(4, 6), 6))),
        (200, "bytes 4-7/10", Err(PartError::Status(200))),
        (206, "bytes", Err(PartError::ContentRange)),
        (206, "bytes 4-7/*", Err(PartError::Size)),
        (206, "bytes 4-6/10", Err(PartError::Range(range(4, 7)))),
        (206, "bytes 0-3/10", Err(PartError::Range(range(0, 4)))),
        (206, "bytes 4-8/10", Err(PartError::Range(range(4, 9)))),
    ] {
        let info = judge(status, &response(field, None), &part);
        assert_eq!(info.map(|info| (info.range, info.size)), expected, "{status} {field}");
    }
}

#[test]
fn further_parts_are_of_the_same_object() {
    let first = |etag: Option<&'static str>| PartInfo {
        range: ByteRange { start: 0, end: 4 },
        size: 8,
        etag: etag.map(|etag| Bytes::from_static(etag.as_bytes())),
    };
    let part = Part::of(HERE, 4, 4);
    for (first_etag, field, etag, fits) in [
        (None, "bytes 4-7/8", Some("\"a\""), true),
        (Some("\"a\""), "bytes 4-7/8", Some("\"a\""), true),
        (Some("\"a\""), "bytes 4-7/8", Some("\"b\""), false),
        (Some("\"a\""), "bytes 4-7/8", None, false),
        (None, "bytes 4-7/9", None, false),
    ] {
        let info = judge_next(206, &response(field, etag), &part, &first(first_etag));
        assert_eq!(info.is_ok(), fits, "{first_etag:?} {field} {etag:?}");
    }
}

/// Reads a body whose one part is `text`, which claims to hold `size` bytes.
fn read(text: &'static str, size: u64, narrow: Option<(u64, u64)>) -> Result<String, BodyError> {
    let first = PartInfo { range: ByteRange { start: 0, end: size }, size, etag: None };
    let body = Body::from(Bytes::from_static(text.as_bytes()));
    let mut sliced = Sliced::new(body, (Part::of(HERE, 0, size), first, None), None, 1460);
    if let Some((start, end)) = narrow {
        assert!(sliced.narrow(ByteRange { start, end }));
    }
    let read = async move {
        let mut body = Body::Stream(Box::new(sliced));
        let mut out = Vec::new();
        while let Some(chunk) = body.next().await {
            if let Chunk::Bytes(bytes) = chunk? {
                out.extend_from_slice(&bytes);
            }
        }
        Ok(String::from_utf8(out).unwrap())
    };
    tidegate_rt::block_on(read).unwrap()
}

#[test]
fn a_part_alone() {
    assert_eq!(read("0123", 4, None).unwrap(), "0123");
    assert_eq!(read("0123", 4, Some((1, 3))).unwrap(), "12");
    assert!(read("012", 4, None).is_err(), "too short");
    assert!(read("01234", 4, None).is_err(), "too long");
    assert!(read("01", 4, Some((1, 3))).is_err(), "cut too short");
}
