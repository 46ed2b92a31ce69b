//! The number of bytes of a fill that a request needs.

use tidegate_codec::Headers;
use tidegate_codec::conditional::IfModifiedSince;

use crate::cache::decide::coverage::needed_by;
use crate::cache::meta::Meta;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.push(name.as_bytes(), value.as_bytes()));
    headers
}

fn meta(status: u16) -> Meta {
    let fields = headers(&[("ETag", "\"e\""), ("Last-Modified", DATE)]);
    Meta::of(status, b"", &fields, Vec::new(), Vec::new(), None)
}

#[test]
fn conditions_and_ranges_need_less_than_all() {
    let check = |request: &[(&str, &str)], size: Option<u64>, expected: Option<u64>| {
        let needed = needed_by(&headers(request), &meta(200), size, IfModifiedSince::Exact);
        assert_eq!(needed, expected, "{request:?} {size:?}");
    };
    let size = Some(100);
    check(&[], size, None);
    check(&[("If-None-Match", "\"e\"")], size, Some(0));
    check(&[("If-None-Match", "\"f\"")], size, None);
    check(&[("If-Modified-Since", DATE)], size, Some(0));
    check(&[("If-Match", "\"f\"")], size, Some(0));
    check(&[("Range", "bytes=10-19")], size, Some(20));
    check(&[("Range", "bytes=-1")], size, Some(100));
    check(&[("Range", "bytes=0-9,50-59,20-29")], size, Some(60));
    check(&[("Range", "bytes=100-")], size, Some(0));
    check(&[("Range", "lines=1-2")], size, None);
    check(&[("Range", "bytes=10-19")], None, None);
    check(&[("Range", "bytes=10-19"), ("If-Range", "\"e\"")], size, Some(20));
    check(&[("Range", "bytes=10-19"), ("If-Range", "\"f\"")], size, None);
    check(&[("Range", "bytes=10-19"), ("If-None-Match", "\"e\"")], size, Some(0));
}

#[test]
fn only_a_200_needs_less_than_all() {
    let request = headers(&[("If-None-Match", "\"e\""), ("Range", "bytes=0-1")]);
    assert_eq!(needed_by(&request, &meta(404), Some(100), IfModifiedSince::Exact), None);
    let since = headers(&[("If-Modified-Since", DATE)]);
    assert_eq!(needed_by(&since, &meta(200), Some(100), IfModifiedSince::Off), None);
}
