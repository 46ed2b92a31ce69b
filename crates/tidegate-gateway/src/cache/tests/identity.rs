//! Responses that can be completed by parts, and responses that are such parts.

use tidegate_codec::{Headers, Known};

use crate::cache::decide::identity::{Identity, MatchingPart, PartMismatch};

const ETAG: (&str, &str) = ("ETag", "\"e\"");
const MODIFIED: (&str, &str) = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.push(name.as_bytes(), value.as_bytes()));
    headers
}

#[test]
fn only_strong_validators_name_a_representation() {
    let check = |status: u16, fields: &[(&str, &str)], expected: bool| {
        let identity = Identity::of(status, &headers(fields), Some(8));
        assert_eq!(identity.is_some(), expected, "{status} {fields:?}");
    };
    check(200, &[ETAG], true);
    check(200, &[], false);
    check(206, &[ETAG], false);
    check(404, &[ETAG], false);
    check(200, &[("ETag", "W/\"e\"")], false);
    check(200, &[("ETag", "e")], false);
    check(200, &[("ETag", "\"")], false);
    check(200, &[ETAG, ("Content-Encoding", "gzip")], false);
    check(200, &[ETAG, ("Content-Encoding", "identity")], true);
    check(200, &[ETAG, ("Accept-Ranges", "None")], false);
    check(200, &[ETAG, ("Accept-Ranges", "bytes")], true);
    let minute_later = ("Date", "Sun, 06 Nov 1994 08:50:37 GMT");
    check(200, &[MODIFIED, minute_later], true);
    check(200, &[MODIFIED, ("Date", "Sun, 06 Nov 1994 08:50:36 GMT")], false);
    check(200, &[MODIFIED], false);
    check(200, &[("Last-Modified", "yesterday"), minute_later], false);
    // A weak tag implies that the date is no better.
    check(200, &[("ETag", "W/\"e\""), MODIFIED, minute_later], false);
}

/// Four bytes have arrived.
fn judge(
    size: Option<u64>,
    status: u16,
    fields: &[(&str, &str)],
    length: Option<u64>,
) -> Result<MatchingPart, PartMismatch> {
    let mut identity = Identity::of(200, &headers(&[ETAG]), size).expect("a validator");
    identity.judge(status, &headers(fields), length, 4)
}

#[test]
fn a_part_has_to_fit() {
    let check = |size, status, fields: &[(&str, &str)], length, expected| {
        let what = format!("{size:?} {status} {fields:?} {length:?}");
        assert_eq!(judge(size, status, fields, length), expected, "{what}");
    };
    let rest = Ok(MatchingPart { skip: 0, end: Some(8) });
    let range = ("Content-Range", "bytes 4-7/8");
    check(Some(8), 206, &[ETAG, range], Some(4), rest);
    check(Some(8), 206, &[ETAG, range], None, rest);
    check(None, 206, &[ETAG, range], None, rest);
    check(Some(8), 206, &[ETAG, ("Content-Range", "bytes 4-7/*")], Some(4), rest);
    let shorter = Ok(MatchingPart { skip: 0, end: Some(6) });
    check(Some(8), 206, &[ETAG, ("Content-Range", "bytes 4-5/8")], Some(2), shorter);
    let whole = Ok(MatchingPart { skip: 4, end: Some(8) });
    check(Some(8), 200, &[ETAG], Some(8), whole);
    check(Some(8), 200, &[ETAG], None, whole);
    check(None, 200, &[ETAG], Some(8), whole);
    check(None, 200, &[ETAG], None, Ok(MatchingPart { skip: 4, end: None }));

    check(Some(8), 206, &[range], Some(4), Err(PartMismatch::Validator));
    check(Some(8), 206, &[("ETag", "\"f\""), range], Some(4), Err(PartMismatch::Validator));
    check(Some(8), 206, &[("ETag", "W/\"e\""), range], Some(4), Err(PartMismatch::Validator));
    check(Some(8), 206, &[ETAG], Some(4), Err(PartMismatch::Range));
    check(
        Some(8),
        206,
        &[ETAG, ("Content-Range", "bytes 3-7/8")],
        Some(5),
        Err(PartMismatch::Range),
    );
    check(
        Some(8),
        206,
        &[ETAG, ("Content-Range", "bytes 5-7/8")],
        Some(3),
        Err(PartMismatch::Range),
    );
    check(Some(8), 206, &[ETAG, ("Content-Range", "bytes */8")], Some(4), Err(PartMismatch::Range));
    check(
        Some(8),
        206,
        &[ETAG, ("Content-Range", "bytes 4-8/9")],
        Some(5),
        Err(PartMismatch::Length),
    );
    check(
        Some(8),
        206,
        &[ETAG, ("Content-Range", "bytes 4-8/*")],
        Some(5),
        Err(PartMismatch::Length),
    );
    check(None, 206, &[ETAG, ("Content-Range", "bytes 4-7/*")], Some(4), Err(PartMismatch::Length));
    check(Some(8), 206, &[ETAG, range], Some(5), Err(PartMismatch::Length));
    let encoded = ("Content-Encoding", "gzip");
    check(Some(8), 206, &[ETAG, range, encoded], Some(4), Err(PartMismatch::Encoding));
    check(Some(8), 200, &[ETAG], Some(9), Err(PartMismatch::Length));
    check(None, 200, &[ETAG], Some(3), Err(PartMismatch::Length));
    check(Some(8), 200, &[], Some(8), Err(PartMismatch::Validator));
    for status in [204, 304, 404, 416, 503] {
        check(Some(8), status, &[ETAG, range], Some(4), Err(PartMismatch::Status(status)));
    }
}

#[test]
fn the_size_of_a_part_binds_the_next_one() {
    let mut identity = Identity::of(200, &headers(&[ETAG]), None).expect("a validator");
    let first = headers(&[ETAG, ("Content-Range", "bytes 4-5/8")]);
    assert!(identity.judge(206, &first, Some(2), 4).is_ok());
    let other = headers(&[ETAG, ("Content-Range", "bytes 6-8/9")]);
    assert_eq!(identity.judge(206, &other, Some(3), 6), Err(PartMismatch::Length));
    assert_eq!(identity.judge(200, &headers(&[ETAG]), Some(9), 6), Err(PartMismatch::Length));
    let last = headers(&[ETAG, ("Content-Range", "bytes 6-7/8")]);
    assert_eq!(identity.judge(206, &last, Some(2), 6), Ok(MatchingPart { skip: 0, end: Some(8) }));
}

#[test]
fn a_date_has_to_be_the_same_text() {
    let made = ("Date", "Sun, 06 Nov 1994 10:00:00 GMT");
    let mut identity =
        Identity::of(200, &headers(&[MODIFIED, made]), Some(8)).expect("a validator");
    let range = ("Content-Range", "bytes 4-7/8");
    assert!(identity.judge(206, &headers(&[MODIFIED, range]), Some(4), 4).is_ok());
    let newer = (Known::LastModified.name(), "Sun, 06 Nov 1994 08:49:38 GMT");
    assert_eq!(
        identity.judge(206, &headers(&[newer, range]), Some(4), 4),
        Err(PartMismatch::Validator)
    );
}
