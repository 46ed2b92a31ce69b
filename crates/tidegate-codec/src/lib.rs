//! Codecs: HTTP heads, chunks, URIs, ranges, dates, caching rules, and the formats of other protocols; no
//! I/O, no clock.
//!
//! All functions take bytes and times as arguments and return decisions, so that they can be tested as
//! tables. `request` and `headers` are the hot path: they fill buffers that the caller reuses and do not
//! allocate for a common request.
//!
//! # Messages
//!
//! - [`Headers`] is an ordered list of fields in one buffer, each a [`headers::Field`]; [`Known`] has the
//!   names that the server itself uses, for which a lookup is a bit test. A [`Span`] is a range of such a
//!   buffer.
//! - [`request::RequestHead`] is a parsed request head, with its [`request::Method`], [`request::Version`]
//!   and the [`request::TargetForm`] of its target. [`request::ParseOptions`] are the limits and tolerances
//!   of directives, [`request::ComposedHead`] a head that was not received as text, [`request::Parse`] is the
//!   result of a call of the parser, and a [`request::RequestError`] carries the [`request::RequestFault`] with the invalid line. [`request::RequestMeta`] has the body framing,
//!   host and connection options of a valid head; [`request::HostName`] is a host in lower case, borrowed
//!   where it was sent so.
//! - [`response::ResponseHead`] is a parsed response head, or one made by [`response::ResponseHead::begin`].
//!   [`response::ResponseFraming`] is the framing of its body, [`response::ResponseError`] the reason why an
//!   origin's response is refused.
//! - [`chunked::ChunkedDecoder`] decodes the chunked coding piece by piece, each a [`chunked::Decoded`], and
//!   refuses with a [`chunked::ChunkError`]; [`chunked::ChunkHeader`] is the line before a chunk to be sent.
//! - [`uri::Uri`] has the positions of the parts of a target, [`uri::UriError`] is a target that cannot be
//!   decoded, and [`uri::Escape`] a set of bytes to be escaped.
//! - [`connection`], [`cookie`] and [`date`] parse values of fields; [`date::Civil`] is a date in parts.
//!   [`pages`] are the built-in error pages.
//!
//! # Decisions
//!
//! - [`conditional::Condition`] is the result of the preconditions of a request: proceed, 304 or 412.
//!   [`conditional::Comparison`] is the comparison of entity tags, [`conditional::IfModifiedSince`] is the
//!   directive.
//! - [`range::RangeDecision`] has the [`range::ByteRange`]s to send; [`range::ContentRange`] is the range of
//!   a part.
//! - [`caching::Storable`] is the time for which a response may be stored and the fields by which it varies
//!   ([`caching::Vary`]), and [`caching::NotStorable`] the reason why it may not be stored.
//!   [`caching::CacheControl`], [`caching::AccelExpires`] and [`caching::Seconds`] are the fields that
//!   decide, [`caching::IgnoredFields`] those that a directive ignores. [`caching::Freshness`] is the
//!   freshness of a stored response; [`caching::rfc9111`] has the rules of that RFC.
//!
//! # Other protocols
//!
//! - [`fastcgi::Decoder`] decodes an application's records, or refuses them with a [`fastcgi::RecordError`];
//!   [`fastcgi::ParamsWriter`] writes a request's parameters. [`cgi`] writes those of SCGI and uwsgi.
//! - [`grpc_web::RequestDecoder`] checks a request in gRPC-Web and undoes its base64, or refuses it with a
//!   [`grpc_web::WebError`]; [`grpc_web::ContentType`] is its form.
//! - [`protobuf`] writes and reads the fields of messages, each a [`protobuf::Value`].
//! - [`memcached::ValueResponse`] is the response line of a `get`, [`memcached::ValueResponseError`] an invalid one.
//! - [`proxy_protocol::ProxyHeader`] has the addresses of the client behind a load balancer,
//!   [`proxy_protocol::ParsedProxy`] is the result of parsing; [`proxy_protocol::ProxyProtocolError`]: the
//!   bytes are no such header.
//! - [`client_hello::ClientHello`] is the offer of a TLS client, [`client_hello::ParsedHello`] the result of
//!   parsing; [`client_hello::NotHello`]: the bytes are something else.
#![warn(missing_docs)]
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
pub mod grpc_web;
pub mod headers;
pub mod json;
mod lines;
pub mod memcached;
pub mod pages;
pub mod protobuf;
pub mod proxy_protocol;
pub mod range;
pub mod request;
pub mod response;
pub mod span;
pub mod uri;

pub use headers::{Headers, Known};
pub use span::Span;
