//! The stored metadata of a response, and its compact form in cache files.
//!
//! ```text
//! version u8 = 3 | flags u8 | status u16 | length of a HEAD response u64 | variant set u64
//! asked at u64 | tags: u32 length, bytes
//! with flag 4, for an object stored in parts: size u64, id of the parts u64
//! reason: u16 length, bytes
//! variant: u32 length, bytes
//! names of Vary: u16 count, then each u16 length, bytes
//! fields: u16 count, then each u16 length of name, u32 length of value, bytes
//! ```
//!
//! Numbers are little-endian. The store guards against torn files; the decoder trusts no input all the same: for any
//! bytes it returns a value or `None`.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_cache::{OpenEntry, PurgeMetadata};
use tidegate_codec::connection::tokens;
use tidegate_codec::response::ResponseHead;
use tidegate_codec::{Headers, Known, Span, date};

const VERSION: u8 = 3;
const FLAG_HEAD: u8 = 1;
const FLAG_MUST_REVALIDATE: u8 = 2;
const FLAG_PARTS: u8 = 4;
const FLAG_FROM_TIER: u8 = 8;
const FLAGS: u8 = FLAG_HEAD | FLAG_MUST_REVALIDATE | FLAG_PARTS | FLAG_FROM_TIER;

/// Most bytes of tags that a response may carry; the rest is left out.
const TAGS_BYTES_MAX: usize = 16 * 1024;

/// A stored response's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meta {
    pub status: u16,
    /// The reason phrase as sent by the origin; may be empty.
    pub reason: Bytes,
    /// Lower-case names of request fields that tell variants apart, sorted.
    pub vary: Vec<Vec<u8>>,
    /// The values of those fields in the request that fetched this response.
    pub variant: Vec<u8>,
    /// The announced length of a response to a HEAD request; that response has no body here.
    pub head_length: Option<u64>,
    /// A number common to all variants that were stored since the key was empty: an object under a variant's key is
    /// valid only while the one under the main key is of the same variant set.
    pub variant_set: u64,
    /// When the request to the origin began, for purges ([`tidegate_cache::Fill::started_at`]).
    pub requested_at: u64,
    /// Tags by which it can be purged, separated by spaces.
    pub tags: Vec<u8>,
    /// See [`crate::cache::decide::policy::Storable`].
    pub must_revalidate: bool,
    /// It was taken from a second tier, which has it.
    pub from_tier: bool,
    /// This entry has no body; the body is stored in parts.
    pub parts: Option<PartsInfo>,
    /// The origin's fields but those that belong to its connection.
    pub headers: Headers,
}

/// The data that locate the parts of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartsInfo {
    /// Bytes of the complete object.
    pub size: u64,
    /// Tells this object's parts from those of an earlier one under the same key.
    pub id: u64,
}

impl Meta {
    /// Makes the metadata of a response's head. `head_length` is for responses to HEAD.
    pub(crate) fn of(
        status: u16,
        reason: &[u8],
        headers: &Headers,
        vary: Vec<Vec<u8>>,
        variant: Vec<u8>,
        head_length: Option<u64>,
    ) -> Meta {
        Meta {
            status,
            reason: Bytes::copy_from_slice(reason),
            vary,
            variant,
            head_length,
            variant_set: 0,
            requested_at: 0,
            tags: Vec::new(),
            must_revalidate: false,
            from_tier: false,
            parts: None,
            headers: end_to_end(headers),
        }
    }

    /// Makes it conform to RFC 9111: without the fields that only a proxy uses for itself (section 3.1), and with the
    /// `Date` that every stored response has (RFC 9110 section 6.6.1). `now` is in Unix milliseconds.
    pub(crate) fn make_rfc9111(&mut self, must_revalidate: bool, now: u64) {
        const OF_PROXIES: [&[u8]; 3] =
            [b"Proxy-Authenticate", b"Proxy-Authentication-Info", b"Proxy-Authorization"];
        let headers = &mut self.headers;
        OF_PROXIES.iter().for_each(|name| headers.remove_named(name));
        if !headers.contains(Known::Date) {
            headers.push_known(Known::Date, &http_date(now));
        }
        self.must_revalidate = must_revalidate;
    }

    pub(crate) fn encode(&self) -> Bytes {
        let texts = self.variant.len() + self.reason.len() + self.tags.len();
        let size = self.headers.text().len() + texts + 64;
        let mut out = Vec::with_capacity(size + 6 * self.headers.len());
        out.push(VERSION);
        let head = if self.head_length.is_some() { FLAG_HEAD } else { 0 };
        let must_revalidate = if self.must_revalidate { FLAG_MUST_REVALIDATE } else { 0 };
        let parts = if self.parts.is_some() { FLAG_PARTS } else { 0 };
        let from_tier = if self.from_tier { FLAG_FROM_TIER } else { 0 };
        out.push(head | must_revalidate | parts | from_tier);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&self.head_length.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.variant_set.to_le_bytes());
        out.extend_from_slice(&self.requested_at.to_le_bytes());
        put_u32(self.tags.len(), &mut out);
        out.extend_from_slice(&self.tags);
        if let Some(PartsInfo { size, id }) = self.parts {
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
        put_short(&self.reason, &mut out);
        put_u32(self.variant.len(), &mut out);
        out.extend_from_slice(&self.variant);
        put_u16(self.vary.len(), &mut out);
        for name in &self.vary {
            put_short(name, &mut out);
        }
        put_u16(self.headers.len(), &mut out);
        for (_, name, value) in self.headers.iter() {
            put_u16(name.len(), &mut out);
            put_u32(value.len(), &mut out);
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        out.into()
    }

    /// Decodes metadata; `None` for bytes that `encode` did not make.
    ///
    /// Nothing is read beyond the end, no count is trusted before its bytes are there, and trailing bytes make the
    /// input invalid. So decoded input encodes to the same bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Meta> {
        let mut input = Reader(bytes);
        if input.u8()? != VERSION {
            return None;
        }
        let flags = input.u8()?;
        let status = input.u16()?;
        if !(100..1000).contains(&status) || flags & !FLAGS != 0 {
            return None;
        }
        let head_length = input.u64()?;
        let variant_set = input.u64()?;
        let requested_at = input.u64()?;
        let tags_length = input.u32()?;
        let tags = input.take(tags_length)?.to_vec();
        let parts = match flags & FLAG_PARTS {
            0 => None,
            _ => Some(PartsInfo { size: input.u64()?, id: input.u64()? }),
        };
        let reason = input.short()?;
        let variant_length = input.u32()?;
        let variant = input.take(variant_length)?.to_vec();
        let names = input.u16()?;
        let vary: Option<Vec<Vec<u8>>> =
            (0..names).map(|_| input.short().map(<[u8]>::to_vec)).collect();
        let fields = usize::from(input.u16()?);
        // A field takes six bytes at least, which bounds the count by the bytes left.
        let room = input.0.len();
        let mut headers = Headers::with_capacity(room, fields.min(room / 6));
        for _ in 0..fields {
            let name_length = usize::from(input.u16()?);
            let value_length = input.u32()?;
            let name = input.take(name_length)?;
            headers.push(name, input.take(value_length)?);
        }
        let head_length = (flags & FLAG_HEAD != 0).then_some(head_length);
        let reason = Bytes::copy_from_slice(reason);
        let must_revalidate = flags & FLAG_MUST_REVALIDATE != 0;
        let from_tier = flags & FLAG_FROM_TIER != 0;
        let vary = vary?;
        let meta = Meta {
            status,
            reason,
            vary,
            variant,
            head_length,
            variant_set,
            requested_at,
            tags,
            must_revalidate,
            from_tier,
            parts,
            headers,
        };
        input.0.is_empty().then_some(meta)
    }

    /// Decodes `requested_at` and `tags` alone.
    pub(crate) fn purge_terms(bytes: &[u8]) -> Option<(u64, &[u8])> {
        let mut input = Reader(bytes);
        if input.u8()? != VERSION {
            return None;
        }
        // Flags, status, length of a HEAD response, variant set.
        input.take(1 + 2 + 8 + 8)?;
        let requested_at = input.u64()?;
        let length = input.u32()?;
        Some((requested_at, input.take(length)?))
    }

    /// Returns whether this response is the variant for a request with these fields.
    pub(crate) fn serves(&self, request: &Headers, scratch: &mut Vec<u8>) -> bool {
        if self.vary.is_empty() {
            return true;
        }
        scratch.clear();
        tidegate_codec::caching::write_variant(&self.vary, request, scratch);
        *scratch == self.variant
    }

    /// Returns `Last-Modified` as sent, for responses to which conditions apply.
    pub(crate) fn last_modified(&self) -> Option<&[u8]> {
        self.headers.first(Known::LastModified).filter(|_| self.may_be_revalidated())
    }

    /// Returns `ETag` as sent, for responses to which conditions apply.
    pub(crate) fn etag(&self) -> Option<&[u8]> {
        self.headers.first(Known::Etag).filter(|_| self.may_be_revalidated())
    }

    fn may_be_revalidated(&self) -> bool {
        matches!(self.status, 200 | 206)
    }

    /// Returns the head updated by the origin's 304: its fields replace those of the same name, except those that
    /// describe the body, which was not sent.
    pub(crate) fn refreshed(&self, not_modified: &Headers) -> Meta {
        const KEPT: [Known; 7] = [
            Known::ContentLength,
            Known::ContentEncoding,
            Known::ContentType,
            Known::ContentRange,
            Known::Etag,
            Known::LastModified,
            // This object is stored under a key made of it.
            Known::Vary,
        ];
        self.updated(not_modified, &KEPT)
    }

    /// Returns the head updated by RFC 9111 section 3.2, which excepts nothing but the length; also for the origin's
    /// response to HEAD. `now` is in Unix milliseconds.
    pub(crate) fn refreshed_rfc9111(&self, newer: &Headers, now: u64) -> Meta {
        // `Content-Range` describes the range of that request, not the stored body.
        const KEPT: [Known; 3] = [Known::ContentLength, Known::ContentRange, Known::Vary];
        let mut newer = newer.clone();
        if !newer.contains(Known::Date) {
            newer.push_known(Known::Date, &http_date(now));
        }
        let mut meta = self.updated(&newer, &KEPT);
        if !newer.contains(Known::Age) {
            // The age of the older response.
            meta.headers.remove(Known::Age);
        }
        meta
    }

    fn updated(&self, newer: &Headers, kept: &[Known]) -> Meta {
        let mut headers = self.headers.clone();
        let renewing = end_to_end(newer);
        let renews = |known: Known| !kept.contains(&known);
        for (known, name, _) in renewing.iter().filter(|(known, ..)| renews(*known)) {
            match known {
                Known::Other => headers.remove_named(name),
                known => headers.remove(known),
            }
        }
        for (_, name, value) in renewing.iter().filter(|(known, ..)| renews(*known)) {
            headers.push(name, value);
        }
        // Built anew, since removed fields leave their bytes behind.
        Meta { headers: end_to_end(&headers), ..self.clone() }
    }
}

/// Returns a number that no variant set had before: the time, or one more than the last one, since the clock may be
/// coarser than the time between two of them.
pub(crate) fn new_variant_set(now: u64) -> u64 {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let next = |latest: u64| now.max(latest + 1);
    let latest =
        LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)));
    next(latest.unwrap_or_default())
}

fn http_date(now: u64) -> [u8; 29] {
    date::format_http(i64::try_from(now / 1000).unwrap_or(i64::MAX))
}

/// A stored head, decoded once for all its hits.
pub(crate) struct Decoded {
    pub meta: Meta,
    /// The same head in the form of a received one.
    pub head: ResponseHead,
}

impl Decoded {
    /// Decodes metadata; `None` for bytes that `Meta::encode` did not make.
    pub(crate) fn of(bytes: &[u8]) -> Option<Decoded> {
        Some(Decoded::of_meta(Meta::decode(bytes)?))
    }

    pub(crate) fn of_meta(meta: Meta) -> Decoded {
        let mut head = ResponseHead::new();
        head.status = meta.status;
        // The reason phrase is a part of a head's text.
        head.reason_span = Span::new(0, meta.reason.len());
        head.headers = Headers::from_raw_parts(meta.reason.to_vec(), Vec::new());
        for (_, name, value) in meta.headers.iter() {
            head.headers.push(name, value);
        }
        Decoded { meta, head }
    }
}

/// Returns the fields without those of one connection (RFC 9110 section 7.6.1) and without the length, which the
/// store keeps.
fn end_to_end(headers: &Headers) -> Headers {
    let mut kept = Headers::with_capacity(headers.text().len(), headers.len());
    let listed: Vec<&[u8]> = headers.all(Known::Connection).flat_map(tokens).collect();
    for (known, name, value) in headers.iter() {
        let of_connection = matches!(
            known,
            Known::Connection
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::TransferEncoding
                | Known::Te
                | Known::Trailer
                | Known::Upgrade
                | Known::ContentLength
        );
        if !of_connection && !listed.iter().any(|token| token.eq_ignore_ascii_case(name)) {
            kept.push(name, value);
        }
    }
    kept
}

fn put_u16(number: usize, out: &mut Vec<u8>) {
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u32(number: usize, out: &mut Vec<u8>) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Writes a text of at most 64 kB; the rest of a longer one is cut off.
fn put_short(text: &[u8], out: &mut Vec<u8>) {
    let text = &text[..text.len().min(usize::from(u16::MAX))];
    put_u16(text.len(), out);
    out.extend_from_slice(text);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u16()?);
        self.take(length)
    }
}

/// Returns the decoded head of an open entry, decoded once for all its hits.
pub(crate) fn decoded(entry: &OpenEntry) -> Option<&Decoded> {
    entry.companion(|| Decoded::of(entry.metadata()))?.as_ref()
}

/// Returns the tags of a response, separated by spaces: all words of the fields with these names, which commas may
/// separate as well.
pub(crate) fn tags_of(headers: &Headers, names: &[Box<[u8]>]) -> Vec<u8> {
    let mut tags = Vec::new();
    for word in names.iter().flat_map(|name| headers.all_named(name)).flat_map(words) {
        if tags.len() + word.len() + 1 > TAGS_BYTES_MAX {
            break;
        }
        if !tags.is_empty() {
            tags.push(b' ');
        }
        tags.extend_from_slice(word);
    }
    tags
}

/// Returns the properties that the store checks against purges.
pub(crate) fn bearing(metadata: &[u8]) -> Option<PurgeMetadata<'_>> {
    let (requested_at, tags) = Meta::purge_terms(metadata)?;
    Some(PurgeMetadata { requested_at, tags })
}

/// Returns the words of a text, which spaces, tabs or commas separate.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_between = |byte: &u8| matches!(byte, b' ' | b',' | b'\t');
    text.split(move |byte| is_between(byte)).filter(|word| !word.is_empty())
}
