//! Names of well-known fields, and the table that recognises them in any case.

/// A field name that the server itself uses; every other name is `Other`.
///
/// The discriminants are below 64, so that a set of names is one `u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Known {
    /// `Host`.
    Host,
    /// `Content-Length`.
    ContentLength,
    /// `Transfer-Encoding`.
    TransferEncoding,
    /// `Connection`.
    Connection,
    /// `Keep-Alive`.
    KeepAlive,
    /// `Expect`.
    Expect,
    /// `Upgrade`.
    Upgrade,
    /// `User-Agent`.
    UserAgent,
    /// `Referer`.
    Referer,
    /// `Range`.
    Range,
    /// `If-Range`.
    IfRange,
    /// `If-Modified-Since`.
    IfModifiedSince,
    /// `If-Unmodified-Since`.
    IfUnmodifiedSince,
    /// `If-Match`.
    IfMatch,
    /// `If-None-Match`.
    IfNoneMatch,
    /// `Accept-Encoding`.
    AcceptEncoding,
    /// `Accept`.
    Accept,
    /// `Accept-Language`.
    AcceptLanguage,
    /// `Authorization`.
    Authorization,
    /// `Cookie`.
    Cookie,
    /// `Set-Cookie`.
    SetCookie,
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `X-Real-IP`.
    XRealIp,
    /// `Via`.
    Via,
    /// `TE`.
    Te,
    /// `Trailer`.
    Trailer,
    /// `Content-Type`.
    ContentType,
    /// `Content-Encoding`.
    ContentEncoding,
    /// `Content-Range`.
    ContentRange,
    /// `Content-Language`.
    ContentLanguage,
    /// `Location`.
    Location,
    /// `Refresh`.
    Refresh,
    /// `Server`.
    Server,
    /// `Date`.
    Date,
    /// `Last-Modified`.
    LastModified,
    /// `Expires`.
    Expires,
    /// `Cache-Control`.
    CacheControl,
    /// `Pragma`.
    Pragma,
    /// `ETag`.
    Etag,
    /// `Age`.
    Age,
    /// `Vary`.
    Vary,
    /// `Accept-Ranges`.
    AcceptRanges,
    /// `WWW-Authenticate`.
    WwwAuthenticate,
    /// `Link`.
    Link,
    /// `Allow`.
    Allow,
    /// `Destination`.
    Destination,
    /// `Depth`.
    Depth,
    /// `Overwrite`.
    Overwrite,
    /// `Proxy-Connection`.
    ProxyConnection,
    /// `X-Accel-Redirect`.
    XAccelRedirect,
    /// `X-Accel-Expires`.
    XAccelExpires,
    /// `X-Accel-Buffering`.
    XAccelBuffering,
    /// `X-Accel-Limit-Rate`.
    XAccelLimitRate,
    /// `X-Accel-Charset`.
    XAccelCharset,
    /// `Status`.
    Status,
    /// `X-Pad`.
    XPad,
    /// `HTTP2-Settings`.
    Http2Settings,
    /// Any other name.
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
    /// Returns the well-known name that `name` spells in any case, or `Other`.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        match Folded::of(name) {
            Some(folded) => Known::of_folded(folded),
            None => Known::Other,
        }
    }

    /// Returns the well-known name at the start of a line, and its length, if a colon follows at once. It
    /// reads whole words of the line, so it also returns `None` near the end of the received bytes.
    #[inline]
    pub(crate) fn before_colon(line: &[u8]) -> Option<(Known, usize)> {
        let (first, len) = colon_among_words(line)?;
        let folded = match len {
            0 => return None,
            1..8 => Folded::short(len, first & !(u64::MAX << (8 * len)) | DASHES << (8 * len))?,
            _ => Folded::of(&line[..len])?,
        };
        let known = Known::of_folded(folded);
        (known != Known::Other).then_some((known, len))
    }

    #[inline]
    fn of_folded(folded: Folded) -> Known {
        let mut slot = folded.slot();
        loop {
            let index = TABLE[slot & SLOT_MASK];
            if index == EMPTY {
                return Known::Other;
            }
            if FOLDED[index as usize] == folded {
                return NAMES[index as usize].0;
            }
            slot += 1;
        }
    }

    /// Returns every well-known name, in the order of the enum.
    pub fn all() -> impl Iterator<Item = Known> {
        NAMES.iter().map(|(known, _)| *known)
    }

    /// Returns the canonical spelling, as in `Content-Length`; empty for `Other`.
    pub fn name(self) -> &'static str {
        match NAMES.get(self as usize) {
            Some((_, spelling)) => spelling,
            None => "",
        }
    }

    /// Whether the field is about one connection of HTTP/1, and so is not sent over HTTP/2 (RFC 9113 section 8.2.2).
    /// `TE` is not among them: it may say `trailers`.
    #[inline]
    pub const fn is_of_connection(self) -> bool {
        matches!(
            self,
            Known::Connection
                | Known::ProxyConnection
                | Known::KeepAlive
                | Known::TransferEncoding
                | Known::Upgrade
                | Known::Http2Settings
        )
    }

    /// Returns this name's bit in a set of names.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// A name in lower case as three words, which compare faster than its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Folded {
    len: u8,
    words: [u64; 3],
}

/// The longest name that `Folded` can hold; no well-known one is longer.
const FOLDED_BYTES_MAX: usize = 24;
const DASHES: u64 = u64::from_le_bytes([b'-'; 8]);
/// This bit makes a letter lower-case and leaves digits and `-` unchanged.
const LOWER: u64 = 0x2020_2020_2020_2020;

impl Folded {
    /// Folds a name; returns `None` for an empty or a long name and for one with a byte that no field name
    /// may contain: such a byte could become a letter.
    #[inline]
    const fn of(name: &[u8]) -> Option<Folded> {
        let len = name.len();
        if len == 0 || len > FOLDED_BYTES_MAX {
            return None;
        }
        if len < 8 {
            let (mut bytes, mut at) = ([b'-'; 8], 0);
            while at < len {
                bytes[at] = name[at];
                at += 1;
            }
            return Folded::short(len, u64::from_le_bytes(bytes));
        }
        // The last word overlaps the one before it.
        let middle = if len > 16 { word(name, 8) } else { DASHES };
        Folded::checked(len, [word(name, 0), middle, word(name, len - 8)])
    }

    /// Folds a name below eight bytes, padded with `-`.
    #[inline]
    const fn short(len: usize, word: u64) -> Option<Folded> {
        Folded::checked(len, [word, DASHES, DASHES])
    }

    #[inline]
    const fn checked(len: usize, words: [u64; 3]) -> Option<Folded> {
        if !(is_printable(words[0]) && is_printable(words[1]) && is_printable(words[2])) {
            return None;
        }
        let words = [words[0] | LOWER, words[1] | LOWER, words[2] | LOWER];
        Some(Folded { len: len as u8, words })
    }

    #[inline]
    const fn slot(&self) -> usize {
        let mixed = self.words[0] ^ self.words[1].rotate_left(21) ^ self.words[2].rotate_left(42);
        ((mixed ^ self.len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
    }
}

/// Returns eight bytes of a name, from `at` on.
#[inline]
const fn word(name: &[u8], at: usize) -> u64 {
    let (_, rest) = name.split_at(at);
    match rest.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// Returns the first word of a line and the position of its first colon, if that is within the longest
/// well-known name.
#[inline]
fn colon_among_words(line: &[u8]) -> Option<(u64, usize)> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let words = line.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let first = line.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    for (index, word) in words.take(FOLDED_BYTES_MAX / 8 + 1).enumerate() {
        let colons = word ^ u64::from_le_bytes([b':'; 8]);
        // The lowest set bit marks the first byte that is zero now.
        let zeros = colons.wrapping_sub(ONES) & !colons & (ONES << 7);
        if zeros != 0 {
            return Some((first, index * 8 + zeros.trailing_zeros() as usize / 8));
        }
    }
    None
}

/// Returns whether bit 5 or bit 6 is set in every byte, as in all from the space to `DEL`.
#[inline]
const fn is_printable(word: u64) -> bool {
    (word | (word << 1)) & (LOWER << 1) == (LOWER << 1)
}

const SLOTS: usize = 512;
const SLOT_MASK: usize = SLOTS - 1;
const EMPTY: u8 = u8::MAX;

static FOLDED: [Folded; KNOWN_COUNT] = {
    let mut folded = [Folded { len: 0, words: [0; 3] }; KNOWN_COUNT];
    let mut index = 0;
    while index < KNOWN_COUNT {
        match Folded::of(NAMES[index].1.as_bytes()) {
            Some(name) => folded[index] = name,
            None => panic!("no name is empty or longer than FOLDED_BYTES_MAX"),
        }
        index += 1;
    }
    folded
};

/// Open addressing over the folded names, built at compile time.
static TABLE: [u8; SLOTS] = {
    let mut table = [EMPTY; SLOTS];
    let mut index = 0;
    while index < KNOWN_COUNT {
        let (known, _) = NAMES[index];
        assert!(known as usize == index, "names must be in the order of the enum");
        let mut slot = FOLDED[index].slot();
        while table[slot & SLOT_MASK] != EMPTY {
            slot += 1;
        }
        table[slot & SLOT_MASK] = index as u8;
        index += 1;
    }
    table
};
