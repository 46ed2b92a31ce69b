//! The static table (RFC 9204 appendix A).

use tidegate_codec::Known;

/// One entry: the name's id where it has one, name and value.
pub(crate) type StaticEntry = (Known, &'static str, &'static str);

/// Entry 0 is the first.
pub(crate) static STATIC_TABLE: [StaticEntry; 99] = [
    (Known::Other, ":authority", ""),
    (Known::Other, ":path", "/"),
    (Known::Age, "age", "0"),
    (Known::Other, "content-disposition", ""),
    (Known::ContentLength, "content-length", "0"),
    (Known::Cookie, "cookie", ""),
    (Known::Date, "date", ""),
    (Known::Etag, "etag", ""),
    (Known::IfModifiedSince, "if-modified-since", ""),
    (Known::IfNoneMatch, "if-none-match", ""),
    (Known::LastModified, "last-modified", ""),
    (Known::Link, "link", ""),
    (Known::Location, "location", ""),
    (Known::Referer, "referer", ""),
    (Known::SetCookie, "set-cookie", ""),
    (Known::Other, ":method", "CONNECT"),
    (Known::Other, ":method", "DELETE"),
    (Known::Other, ":method", "GET"),
    (Known::Other, ":method", "HEAD"),
    (Known::Other, ":method", "OPTIONS"),
    (Known::Other, ":method", "POST"),
    (Known::Other, ":method", "PUT"),
    (Known::Other, ":scheme", "http"),
    (Known::Other, ":scheme", "https"),
    (Known::Other, ":status", "103"),
    (Known::Other, ":status", "200"),
    (Known::Other, ":status", "304"),
    (Known::Other, ":status", "404"),
    (Known::Other, ":status", "503"),
    (Known::Accept, "accept", "*/*"),
    (Known::Accept, "accept", "application/dns-message"),
    (Known::AcceptEncoding, "accept-encoding", "gzip, deflate, br"),
    (Known::AcceptRanges, "accept-ranges", "bytes"),
    (Known::Other, "access-control-allow-headers", "cache-control"),
    (Known::Other, "access-control-allow-headers", "content-type"),
    (Known::Other, "access-control-allow-origin", "*"),
    (Known::CacheControl, "cache-control", "max-age=0"),
    (Known::CacheControl, "cache-control", "max-age=2592000"),
    (Known::CacheControl, "cache-control", "max-age=604800"),
    (Known::CacheControl, "cache-control", "no-cache"),
    (Known::CacheControl, "cache-control", "no-store"),
    (Known::CacheControl, "cache-control", "public, max-age=31536000"),
    (Known::ContentEncoding, "content-encoding", "br"),
    (Known::ContentEncoding, "content-encoding", "gzip"),
    (Known::ContentType, "content-type", "application/dns-message"),
    (Known::ContentType, "content-type", "application/javascript"),
    (Known::ContentType, "content-type", "application/json"),
    (Known::ContentType, "content-type", "application/x-www-form-urlencoded"),
    (Known::ContentType, "content-type", "image/gif"),
    (Known::ContentType, "content-type", "image/jpeg"),
    (Known::ContentType, "content-type", "image/png"),
    (Known::ContentType, "content-type", "text/css"),
    (Known::ContentType, "content-type", "text/html; charset=utf-8"),
    (Known::ContentType, "content-type", "text/plain"),
    (Known::ContentType, "content-type", "text/plain;charset=utf-8"),
    (Known::Range, "range", "bytes=0-"),
    (Known::Other, "strict-transport-security", "max-age=31536000"),
    (Known::Other, "strict-transport-security", "max-age=31536000; includesubdomains"),
    (Known::Other, "strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    (Known::Vary, "vary", "accept-encoding"),
    (Known::Vary, "vary", "origin"),
    (Known::Other, "x-content-type-options", "nosniff"),
    (Known::Other, "x-xss-protection", "1; mode=block"),
    (Known::Other, ":status", "100"),
    (Known::Other, ":status", "204"),
    (Known::Other, ":status", "206"),
    (Known::Other, ":status", "302"),
    (Known::Other, ":status", "400"),
    (Known::Other, ":status", "403"),
    (Known::Other, ":status", "421"),
    (Known::Other, ":status", "425"),
    (Known::Other, ":status", "500"),
    (Known::AcceptLanguage, "accept-language", ""),
    (Known::Other, "access-control-allow-credentials", "FALSE"),
    (Known::Other, "access-control-allow-credentials", "TRUE"),
    (Known::Other, "access-control-allow-headers", "*"),
    (Known::Other, "access-control-allow-methods", "get"),
    (Known::Other, "access-control-allow-methods", "get, post, options"),
    (Known::Other, "access-control-allow-methods", "options"),
    (Known::Other, "access-control-expose-headers", "content-length"),
    (Known::Other, "access-control-request-headers", "content-type"),
    (Known::Other, "access-control-request-method", "get"),
    (Known::Other, "access-control-request-method", "post"),
    (Known::Other, "alt-svc", "clear"),
    (Known::Authorization, "authorization", ""),
    (
        Known::Other,
        "content-security-policy",
        "script-src 'none'; object-src 'none'; base-uri 'none'",
    ),
    (Known::Other, "early-data", "1"),
    (Known::Other, "expect-ct", ""),
    (Known::Other, "forwarded", ""),
    (Known::IfRange, "if-range", ""),
    (Known::Other, "origin", ""),
    (Known::Other, "purpose", "prefetch"),
    (Known::Server, "server", ""),
    (Known::Other, "timing-allow-origin", "*"),
    (Known::Other, "upgrade-insecure-requests", "1"),
    (Known::UserAgent, "user-agent", ""),
    (Known::XForwardedFor, "x-forwarded-for", ""),
    (Known::Other, "x-frame-options", "deny"),
    (Known::Other, "x-frame-options", "sameorigin"),
];

/// No entry of the static table.
const NONE: u8 = u8::MAX;

/// The first entry of each known name.
static INDEX_OF_KNOWN: [u8; Known::Other as usize + 1] = {
    let mut indices = [NONE; Known::Other as usize + 1];
    let mut at = STATIC_TABLE.len();
    while at > 0 {
        at -= 1;
        let (known, ..) = STATIC_TABLE[at];
        if known as usize != Known::Other as usize {
            indices[known as usize] = at as u8;
        }
    }
    indices
};

/// Returns the first entry with this name, which is in lower case.
#[inline]
pub(crate) fn index_of_name(known: Known, name: &[u8]) -> Option<u32> {
    let index = match known {
        Known::Other => index_of_other(name),
        known => INDEX_OF_KNOWN[known as usize],
    };
    (index != NONE).then_some(u32::from(index))
}

/// Returns the entry with this value and with the name of entry `name_index`, the first one of that name.
#[inline]
pub(crate) fn index_of_field(name_index: u32, value: &[u8]) -> Option<u32> {
    // The entries of a name are in at most two runs.
    let (first, second) = match name_index {
        15 => (15..22, 0..0),
        24 => (24..29, 63..72),
        33 => (33..35, 75..76),
        22 => (22..24, 0..0),
        29 => (29..31, 0..0),
        36 => (36..42, 0..0),
        42 => (42..44, 0..0),
        44 => (44..55, 0..0),
        56 => (56..59, 0..0),
        59 => (59..61, 0..0),
        73 => (73..75, 0..0),
        76 => (76..79, 0..0),
        81 => (81..83, 0..0),
        97 => (97..99, 0..0),
        other => (other..other.saturating_add(1), 0..0),
    };
    let is_value = |index: &u32| {
        let entry = STATIC_TABLE.get(*index as usize);
        entry.is_some_and(|(_, _, entry)| entry.as_bytes() == value)
    };
    first.chain(second).find(is_value)
}

fn index_of_other(name: &[u8]) -> u8 {
    match name {
        b":authority" => 0,
        b":path" => 1,
        b"content-disposition" => 3,
        b":method" => 15,
        b":scheme" => 22,
        b":status" => 24,
        b"access-control-allow-headers" => 33,
        b"access-control-allow-origin" => 35,
        b"strict-transport-security" => 56,
        b"x-content-type-options" => 61,
        b"x-xss-protection" => 62,
        b"access-control-allow-credentials" => 73,
        b"access-control-allow-methods" => 76,
        b"access-control-expose-headers" => 79,
        b"access-control-request-headers" => 80,
        b"access-control-request-method" => 81,
        b"alt-svc" => 83,
        b"content-security-policy" => 85,
        b"early-data" => 86,
        b"expect-ct" => 87,
        b"forwarded" => 88,
        b"origin" => 90,
        b"purpose" => 91,
        b"timing-allow-origin" => 93,
        b"upgrade-insecure-requests" => 94,
        b"x-frame-options" => 97,
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_codec::Known;

    use super::{STATIC_TABLE, index_of_field, index_of_name};

    #[test]
    fn every_entry_is_found() {
        for (index, (known, name, value)) in STATIC_TABLE.iter().enumerate() {
            assert_eq!(*known, Known::of(name.as_bytes()), "{name}");
            let named = index_of_name(*known, name.as_bytes());
            let first = STATIC_TABLE.iter().position(|(_, first, _)| first == name);
            assert_eq!(named.map(|index| index as usize), first, "{name}");
            let found = named.and_then(|named| index_of_field(named, value.as_bytes()));
            assert_eq!(found, Some(index as u32), "{name}: {value}");
            assert_eq!(named.and_then(|named| index_of_field(named, b"another")), None);
        }
        assert_eq!(index_of_name(Known::Other, b"x-other"), None);
        assert_eq!(index_of_name(Known::Connection, b"connection"), None);
    }
}
