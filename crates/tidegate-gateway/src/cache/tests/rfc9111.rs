//! Ages, responses to HEAD, and the keys that an unsafe method invalidates.

use tidegate_cache::{Key, Times};
use tidegate_codec::Headers;
use tidegate_codec::caching::NotStorable;
use tidegate_codec::caching::rfc9111::invalidation::TargetUri;
use tidegate_codec::response::ResponseHead;

use crate::cache::decide::policy::{Refusal, Storable};
use crate::cache::decide::rfc9111::{HeadVerdict, StoredGet, after_head, age, other_keys};
use crate::cache::meta::Meta;

const NOW: u64 = 1_700_000_000_250;
const TIMES: Times = Times { created: 1, valid_until: 2, updating_until: 3, error_until: 4 };

fn fields(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.push(name.as_bytes(), value.as_bytes());
    }
    headers
}

#[test]
fn only_stored_responses_have_an_age() {
    for (generated_at, now, expected) in
        [(0, 9_000, None), (1, 1, Some(0)), (1_000, 3_999, Some(2)), (9_000, 1_000, Some(0))]
    {
        assert_eq!(age(generated_at, now), expected, "{generated_at} {now}");
    }
}

/// Returns the effect of a response to HEAD on a stored one of 9 bytes: `K`eep, `R`emove, or the new `ETag` and `X`
/// fields.
fn verdict(stored: u16, status: u16, head: &[(&str, &str)], is_storable: bool) -> String {
    let own = fields(&[("ETag", "\"a\""), ("X", "old"), ("Cache-Tag", "one")]);
    let meta = Meta::of(stored, b"OK", &own, Vec::new(), Vec::new(), None);
    let mut received = ResponseHead::default();
    received.status = status;
    received.headers = fields(head);
    let tags = [Box::from(&b"Cache-Tag"[..])];
    let stored = StoredGet { meta: &meta, body_bytes: 9 };
    let decided = after_head(stored, &received, &tags, (NOW - 7, NOW), |status, headers| {
        assert_eq!(status, 200);
        assert!(headers.contains(tidegate_codec::Known::Date), "every stored response has one");
        match is_storable {
            true => Ok(Storable { times: TIMES, must_revalidate: true, vary: Vec::new() }),
            false => Err(Refusal::CacheRules(NotStorable::NoStore)),
        }
    });
    match decided {
        HeadVerdict::Keep => "K".to_owned(),
        HeadVerdict::Remove => "R".to_owned(),
        HeadVerdict::Renew(metadata, times) => {
            let renewed = Meta::decode(&metadata).expect("our own bytes");
            assert_eq!(
                (times, renewed.requested_at, renewed.must_revalidate),
                (TIMES, NOW - 7, true)
            );
            let field = |name: &[u8]| {
                String::from_utf8_lossy(renewed.headers.first_named(name).unwrap_or(b"-"))
                    .into_owned()
            };
            format!("{} {} {}", field(b"ETag"), field(b"X"), field(b"Cache-Tag"))
        }
    }
}

#[test]
fn a_response_to_head_renews_or_removes_the_stored_one() {
    let same = [("ETag", "\"a\""), ("X", "new"), ("Content-Length", "9")];
    for (stored, status, head, is_storable, expected) in [
        (200, 200, &same[..], true, "\"a\" new one"),
        (200, 200, &[][..], true, "\"a\" old one"),
        (200, 200, &same[..], false, "R"),
        (200, 200, &[("ETag", "\"b\"")][..], true, "R"),
        (200, 200, &[("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")][..], true, "R"),
        (200, 200, &[("Content-Length", "8")][..], true, "R"),
        (200, 404, &same[..], true, "K"),
        (404, 200, &same[..], true, "K"),
    ] {
        assert_eq!(
            verdict(stored, status, head, is_storable),
            expected,
            "{stored} {status} {head:?}"
        );
    }
}

#[test]
fn keys_of_other_targets_are_made_of_the_requests_key() {
    let check = |main: &str, target: &str, response: &[(&str, &str)], expected: &[&str]| {
        let place = TargetUri { scheme: b"http", authority: b"a", target: target.as_bytes() };
        let keys = other_keys(place, &fields(response), &Key::new(main.as_bytes()));
        let keys: Vec<_> = keys.iter().map(|key| key.text().to_vec()).collect();
        let expected: Vec<_> = expected.iter().map(|key| key.as_bytes().to_vec()).collect();
        assert_eq!(keys, expected, "{main} {target} {response:?}");
    };
    let other = [("Location", "/y"), ("Content-Location", "http://a/z")];
    check("http://o/x", "/x", &other, &["http://o/y", "http://o/z"]);
    check("/x/x|de", "/x", &other, &["/x/y|de", "/x/z|de"]);
    check("/x", "/x", &[("Location", "http://b/y")], &[]);
    check("constant", "/x", &other, &[]);
    check("/x", "/x", &[("Location", "/x")], &[]);
}
