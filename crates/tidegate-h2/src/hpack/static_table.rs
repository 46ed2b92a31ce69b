//! The static table (RFC 7541 appendix A).

use tidegate_codec::Known;

/// One entry: the name's id where it has one, name and value.
pub(crate) type StaticEntry = (Known, &'static str, &'static str);

/// Entry 1 is the first.
pub(crate) static STATIC_TABLE: [StaticEntry; 61] = [
    (Known::Other, ":authority", ""),
    (Known::Other, ":method", "GET"),
    (Known::Other, ":method", "POST"),
    (Known::Other, ":path", "/"),
    (Known::Other, ":path", "/index.html"),
    (Known::Other, ":scheme", "http"),
    (Known::Other, ":scheme", "https"),
    (Known::Other, ":status", "200"),
    (Known::Other, ":status", "204"),
    (Known::Other, ":status", "206"),
    (Known::Other, ":status", "304"),
    (Known::Other, ":status", "400"),
    (Known::Other, ":status", "404"),
    (Known::Other, ":status", "500"),
    (Known::Other, "accept-charset", ""),
    (Known::AcceptEncoding, "accept-encoding", "gzip, deflate"),
    (Known::AcceptLanguage, "accept-language", ""),
    (Known::AcceptRanges, "accept-ranges", ""),
    (Known::Accept, "accept", ""),
    (Known::Other, "access-control-allow-origin", ""),
    (Known::Age, "age", ""),
    (Known::Allow, "allow", ""),
    (Known::Authorization, "authorization", ""),
    (Known::CacheControl, "cache-control", ""),
    (Known::Other, "content-disposition", ""),
    (Known::ContentEncoding, "content-encoding", ""),
    (Known::ContentLanguage, "content-language", ""),
    (Known::ContentLength, "content-length", ""),
    (Known::Other, "content-location", ""),
    (Known::ContentRange, "content-range", ""),
    (Known::ContentType, "content-type", ""),
    (Known::Cookie, "cookie", ""),
    (Known::Date, "date", ""),
    (Known::Etag, "etag", ""),
    (Known::Expect, "expect", ""),
    (Known::Expires, "expires", ""),
    (Known::Other, "from", ""),
    (Known::Host, "host", ""),
    (Known::IfMatch, "if-match", ""),
    (Known::IfModifiedSince, "if-modified-since", ""),
    (Known::IfNoneMatch, "if-none-match", ""),
    (Known::IfRange, "if-range", ""),
    (Known::IfUnmodifiedSince, "if-unmodified-since", ""),
    (Known::LastModified, "last-modified", ""),
    (Known::Link, "link", ""),
    (Known::Location, "location", ""),
    (Known::Other, "max-forwards", ""),
    (Known::Other, "proxy-authenticate", ""),
    (Known::Other, "proxy-authorization", ""),
    (Known::Range, "range", ""),
    (Known::Referer, "referer", ""),
    (Known::Refresh, "refresh", ""),
    (Known::Other, "retry-after", ""),
    (Known::Server, "server", ""),
    (Known::SetCookie, "set-cookie", ""),
    (Known::Other, "strict-transport-security", ""),
    (Known::TransferEncoding, "transfer-encoding", ""),
    (Known::UserAgent, "user-agent", ""),
    (Known::Vary, "vary", ""),
    (Known::Via, "via", ""),
    (Known::WwwAuthenticate, "www-authenticate", ""),
];

/// Index of the first entry with each known name; 0 for none.
static INDEX_OF_KNOWN: [u8; Known::Other as usize + 1] = {
    let mut indices = [0; Known::Other as usize + 1];
    let mut at = STATIC_TABLE.len();
    while at > 0 {
        at -= 1;
        let (known, ..) = STATIC_TABLE[at];
        if known as usize != Known::Other as usize {
            indices[known as usize] = at as u8 + 1;
        }
    }
    indices
};

/// Returns the index of an entry with this name, in lower case; 0 where there is none.
pub(crate) fn index_of_name(known: Known, name: &[u8]) -> u32 {
    if known != Known::Other {
        return u32::from(INDEX_OF_KNOWN[known as usize]);
    }
    match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"accept-charset" => 15,
        b"access-control-allow-origin" => 20,
        b"content-disposition" => 25,
        b"content-location" => 29,
        b"from" => 37,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"retry-after" => 53,
        b"strict-transport-security" => 56,
        _ => 0,
    }
}

/// Returns the index of the entry with this name and value; `name_index` is that of the name.
#[inline]
pub(crate) fn index_of_field(name_index: u32, value: &[u8]) -> Option<u32> {
    let candidates = match name_index {
        2 => 2..=3,
        4 => 4..=5,
        6 => 6..=7,
        8 => 8..=14,
        16 => 16..=16,
        _ => return None,
    };
    let entry = |index: u32| STATIC_TABLE.get(index as usize - 1);
    candidates
        .into_iter()
        .find(|index| entry(*index).is_some_and(|(_, _, wanted)| wanted.as_bytes() == value))
}
