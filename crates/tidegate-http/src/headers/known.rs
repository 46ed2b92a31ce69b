//! Names of well-known fields, and the table that recognises them whatever their case.

/// A field name that the server itself has to do with; every other name is `Other`.
///
/// The discriminants are below 64, so that a set of names is one `u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Known {
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    KeepAlive,
    Expect,
    Upgrade,
    UserAgent,
    Referer,
    Range,
    IfRange,
    IfModifiedSince,
    IfUnmodifiedSince,
    IfMatch,
    IfNoneMatch,
    AcceptEncoding,
    Accept,
    AcceptLanguage,
    Authorization,
    Cookie,
    SetCookie,
    XForwardedFor,
    XRealIp,
    Via,
    Te,
    Trailer,
    ContentType,
    ContentEncoding,
    ContentRange,
    ContentLanguage,
    Location,
    Refresh,
    Server,
    Date,
    LastModified,
    Expires,
    CacheControl,
    Pragma,
    Etag,
    Age,
    Vary,
    AcceptRanges,
    WwwAuthenticate,
    Link,
    Allow,
    Destination,
    Depth,
    Overwrite,
    ProxyConnection,
    XAccelRedirect,
    XAccelExpires,
    XAccelBuffering,
    XAccelLimitRate,
    XAccelCharset,
    Status,
    XPad,
    Http2Settings,
    Other,
}

/// The canonical spelling of each name, in the order of the enum.
const NAMES: [(Known, &str); KNOWN_COUNT] = [
    (Known::Host, "Host"),
    (Known::ContentLength, "Content-Length"),
    (Known::TransferEncoding, "Transfer-Encoding"),
    (Known::Connection, "Connection"),
    (Known::KeepAlive, "Keep-Alive"),
    (Known::Expect, "Expect"),
    (Known::Upgrade, "Upgrade"),
    (Known::UserAgent, "User-Agent"),
    (Known::Referer, "Referer"),
    (Known::Range, "Range"),
    (Known::IfRange, "If-Range"),
    (Known::IfModifiedSince, "If-Modified-Since"),
    (Known::IfUnmodifiedSince, "If-Unmodified-Since"),
    (Known::IfMatch, "If-Match"),
    (Known::IfNoneMatch, "If-None-Match"),
    (Known::AcceptEncoding, "Accept-Encoding"),
    (Known::Accept, "Accept"),
    (Known::AcceptLanguage, "Accept-Language"),
    (Known::Authorization, "Authorization"),
    (Known::Cookie, "Cookie"),
    (Known::SetCookie, "Set-Cookie"),
    (Known::XForwardedFor, "X-Forwarded-For"),
    (Known::XRealIp, "X-Real-IP"),
    (Known::Via, "Via"),
    (Known::Te, "TE"),
    (Known::Trailer, "Trailer"),
    (Known::ContentType, "Content-Type"),
    (Known::ContentEncoding, "Content-Encoding"),
    (Known::ContentRange, "Content-Range"),
    (Known::ContentLanguage, "Content-Language"),
    (Known::Location, "Location"),
    (Known::Refresh, "Refresh"),
    (Known::Server, "Server"),
    (Known::Date, "Date"),
    (Known::LastModified, "Last-Modified"),
    (Known::Expires, "Expires"),
    (Known::CacheControl, "Cache-Control"),
    (Known::Pragma, "Pragma"),
    (Known::Etag, "ETag"),
    (Known::Age, "Age"),
    (Known::Vary, "Vary"),
    (Known::AcceptRanges, "Accept-Ranges"),
    (Known::WwwAuthenticate, "WWW-Authenticate"),
    (Known::Link, "Link"),
    (Known::Allow, "Allow"),
    (Known::Destination, "Destination"),
    (Known::Depth, "Depth"),
    (Known::Overwrite, "Overwrite"),
    (Known::ProxyConnection, "Proxy-Connection"),
    (Known::XAccelRedirect, "X-Accel-Redirect"),
    (Known::XAccelExpires, "X-Accel-Expires"),
    (Known::XAccelBuffering, "X-Accel-Buffering"),
    (Known::XAccelLimitRate, "X-Accel-Limit-Rate"),
    (Known::XAccelCharset, "X-Accel-Charset"),
    (Known::Status, "Status"),
    (Known::XPad, "X-Pad"),
    (Known::Http2Settings, "HTTP2-Settings"),
];

const KNOWN_COUNT: usize = Known::Other as usize;

impl Known {
    /// The well-known name that `name` spells in any case, or `Other`.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        let Some(mut slot) = slot_of(name) else { return Known::Other };
        loop {
            let index = TABLE[slot & SLOT_MASK];
            if index == EMPTY {
                return Known::Other;
            }
            let (known, spelling) = NAMES[index as usize];
            if name.eq_ignore_ascii_case(spelling.as_bytes()) {
                return known;
            }
            slot += 1;
        }
    }

    /// Every well-known name, in the order of the enum.
    pub fn all() -> impl Iterator<Item = Known> {
        NAMES.iter().map(|(known, _)| *known)
    }

    /// The canonical spelling, as in `Content-Length`; empty for `Other`.
    pub fn name(self) -> &'static str {
        match NAMES.get(self as usize) {
            Some((_, spelling)) => spelling,
            None => "",
        }
    }

    /// This name's bit in a set of names.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

const SLOTS: usize = 512;
const SLOT_MASK: usize = SLOTS - 1;
const EMPTY: u8 = u8::MAX;

/// Open addressing over a hash of length and three letters, built while compiling.
static TABLE: [u8; SLOTS] = build_table();

const fn build_table() -> [u8; SLOTS] {
    let mut table = [EMPTY; SLOTS];
    let mut index = 0;
    while index < KNOWN_COUNT {
        let (known, spelling) = NAMES[index];
        assert!(known as usize == index, "names must be in the order of the enum");
        let Some(mut slot) = slot_of(spelling.as_bytes()) else { panic!("no name is empty") };
        while table[slot & SLOT_MASK] != EMPTY {
            slot += 1;
        }
        table[slot & SLOT_MASK] = index as u8;
        index += 1;
    }
    table
}

/// Setting bit 0x20 folds the case of letters; what it does to other bytes costs at most a probe.
#[inline]
const fn slot_of(name: &[u8]) -> Option<usize> {
    let len = name.len();
    if len == 0 {
        return None;
    }
    let first = (name[0] | 0x20) as usize;
    let middle = (name[len / 2] | 0x20) as usize;
    let last = (name[len - 1] | 0x20) as usize;
    Some((len * 37 + first * 5 + middle * 71 + last * 131) & SLOT_MASK)
}
