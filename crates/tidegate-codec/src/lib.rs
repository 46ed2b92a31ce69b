//! Pure HTTP: heads, chunks, URIs, ranges, dates, caching rules; no I/O, no clock.
//!
//! Everything here takes bytes and times as arguments and gives back decisions, so that all of it
//! can be tested as tables. `request` and `headers` are the hot path: they fill buffers that the
//! caller reuses and do not allocate for a common request.
//!
//! # Messages
//!
//! - [`Headers`] is an ordered list of fields in one buffer, each a [`headers::Field`]; [`Known`] names those that the
//!   server itself looks at, so that asking for one is a bit test. A [`Span`] is a place in such a buffer.
//! - [`request::RequestHead`] is a parsed request head, with its [`request::Method`], [`request::Version`] and the
//!   [`request::TargetForm`] of its target. [`request::ParseOptions`] are the limits and tolerances of directives,
//!   [`request::Parse`] is how far a parser has come, and a [`request::RequestError`] carries the [`request::Fault`]
//!   with the line to blame. [`request::RequestMeta`] is what a valid head says of its body, host and connection;
//!   [`request::HostName`] is a host in lower case, borrowed where it was sent so.
//! - [`response::ResponseHead`] is a parsed response head, or one that is made by [`response::ResponseHead::begin`].
//!   [`response::ResponseFraming`] is what ends its body, [`response::ResponseError`] why an origin's is refused.
//! - [`chunked::ChunkedDecoder`] reads the chunked coding piece by piece, each a [`chunked::Decoded`], and refuses with
//!   a [`chunked::ChunkError`]; [`chunked::ChunkHeader`] is the line in front of a chunk to be sent.
//! - [`uri::Uri`] is where the parts of a target are, [`uri::UriError`] a target that cannot be decoded, and
//!   [`uri::Escape`] the set of bytes that a place needs escaped.
//! - [`connection`], [`cookie`] and [`date`] read values of fields; [`date::Civil`] is a date in parts. [`pages`] are
//!   the built-in error pages.
//!
//! # Decisions
//!
//! - [`conditional::Condition`] is what the conditions of a request ask for: go on, 304 or 412.
//!   [`conditional::Comparison`] tells strong from weak validators, [`conditional::IfModifiedSince`] is the directive.
//! - [`range::RangeDecision`] is which [`range::ByteRange`]s are sent; [`range::ContentRange`] is what a part says of
//!   itself.
//! - [`caching::Storable`] is until when a response may be kept and how it varies ([`caching::Vary`]), and
//!   [`caching::NotStorable`] why it may not; [`caching::CacheControl`], [`caching::AccelExpires`] and
//!   [`caching::Seconds`] are the fields that say so, [`caching::IgnoredFields`] those that a directive ignores.
//!   [`caching::Freshness`] is what a stored response is good for; [`caching::rfc9111`] has the rules of that RFC.
//!
//! # Other languages
//!
//! - [`fastcgi::Decoder`] takes an application's records apart, or refuses with a [`fastcgi::RecordError`];
//!   [`fastcgi::ParamsWriter`] writes a request's parameters. [`cgi`] writes those of SCGI and uwsgi.
//! - [`memcached::Reply`] is the line that answers a `get`, [`memcached::ReplyError`] a line that does not.
//! - [`proxy_protocol::ProxyHeader`] is who is behind a load balancer, as far as [`proxy_protocol::ParsedProxy`] is
//!   whole; [`proxy_protocol::ProxyProtocolError`] says that the bytes are no such header.
//! - [`client_hello::ClientHello`] is what a TLS client asks for, as far as [`client_hello::ParsedHello`] is whole;
//!   [`client_hello::NotHello`] says that the bytes are something else.
#![forbid(unsafe_code)]

pub mod caching;
pub mod cgi;
pub mod chunked;
pub mod client_hello;
pub mod conditional;
pub mod connection;
pub mod cookie;
pub mod date;
mod decimal;
pub mod fastcgi;
#[doc(hidden)]
pub mod fuzzing;
pub mod headers;
mod lines;
pub mod memcached;
pub mod pages;
pub mod proxy_protocol;
pub mod range;
pub mod request;
pub mod response;
pub mod span;
pub mod uri;

pub use headers::{Headers, Known};
pub use span::Span;
