//! Entry points for fuzzers; plain functions, so that ordinary tests replay a corpus through them.

use crate::caching::rfc9111::invalidation::{self, TargetUri};
use crate::caching::{self, IgnoredFields};
use crate::chunked::{ChunkError, ChunkedDecoder};
use crate::client_hello::{self, ParsedHello};
use crate::fastcgi;
use crate::grpc_web::{self, ContentType, RequestDecoder, WebError};
use crate::headers::{Headers, Known};
use crate::memcached::{self, ValueResponse};
use crate::proxy_protocol::{self, ParsedProxy};
use crate::range::{self, ContentRange, RangeDecision};
use crate::request::{
    Method, Parse, ParseOptions, RequestHead, RequestMeta, TargetForm, parse_host, parse_request,
};
use crate::response::{ResponseHead, parse_cgi_response, parse_response};
use crate::uri::normalise;

/// Normalises a target with and without `merge_slashes`.
pub fn fuzz_uri(data: &[u8]) {
    let mut decoded = Vec::new();
    for merge_slashes in [true, false] {
        if let Ok(uri) = normalise(data, merge_slashes, &mut decoded) {
            let path = uri.path(data, &decoded);
            assert!(uri.plain || path.first() == Some(&b'/') || data.first() != Some(&b'/'));
            let _ = uri.args(data);
        }
    }
}

/// Decides a `Range` for several sizes: ranges lie within the representation.
pub fn fuzz_range(data: &[u8]) {
    for size in [0, 1, 1000, u64::MAX] {
        for field in [data.to_vec(), [b"bytes=", data].concat()] {
            if let RangeDecision::Multiple(ranges) = range::decide(&field, size, usize::MAX) {
                assert!(ranges.iter().all(|range| range.start < range.end && range.end <= size));
            }
        }
    }
    let _ = range::if_range_holds(data, Some(b"\"a\""), Some(0));
    if let Some(ContentRange { range, size }) = ContentRange::parse(data) {
        let mut written = Vec::new();
        range::write_content_range(range, size, &mut written);
        assert_eq!(ContentRange::parse(&written), Some(ContentRange { range, size }));
    }
}

/// Parses `Cache-Control`, `Vary` and `X-Accel-Expires` with the bytes as every value.
pub fn fuzz_cache_control(data: &[u8]) {
    let mut headers = Headers::new();
    for known in [Known::CacheControl, Known::Vary, Known::XAccelExpires, Known::Expires] {
        headers.push_known(known, data);
    }
    for now in [i64::MIN, 0, i64::MAX] {
        if let Ok(stored) = caching::storable(&headers, IgnoredFields::default(), Some(1), now) {
            let _ = stored.freshness(now);
            caching::write_variant(&stored.vary, &headers, &mut Vec::new());
        }
    }
    headers.push(b"CDN-Cache-Control", data);
    headers.push_known(Known::Age, data);
    headers.push_known(Known::Date, data);
    let asked = caching::rfc9111::RequestFields::of(&headers);
    for received_at in [i64::MIN, 0, i64::MAX] {
        let received = caching::rfc9111::ReceivedResponse {
            status: 200,
            headers: &headers,
            requested_at: 0,
            received_at,
        };
        let _ = caching::rfc9111::storable(asked, received, Default::default());
    }
    headers.push_known(Known::Location, data);
    let place = TargetUri { scheme: b"http", authority: b"a.test", target: b"/a/b?c" };
    for target in invalidation::related(place, &headers) {
        assert!(target.starts_with(b"/"));
    }
}

/// Parses PROXY protocol headers: a shorter input is partial or wrong, never complete in another way.
pub fn fuzz_proxy_protocol(data: &[u8]) {
    if let Ok(ParsedProxy::Complete(header, len)) = proxy_protocol::parse(data) {
        assert!(len <= data.len());
        assert_eq!(proxy_protocol::parse(&data[..len - 1]), Ok(ParsedProxy::Partial));
        let _ = (header.ssl_verify(), header.ssl_tlv(0x21), header.tlv(1));
    }
}

/// Parses TLS hellos: once one is complete or refused, more bytes change nothing.
pub fn fuzz_client_hello(data: &[u8]) {
    let whole = client_hello::parse(data);
    for cut in [1, data.len() / 2, data.len().saturating_sub(1)] {
        let part = client_hello::parse(&data[..cut.min(data.len())]);
        assert!(part == Ok(ParsedHello::Partial) || part == whole);
    }
}

/// Parses request heads: the result does not depend on where the bytes are cut.
pub fn fuzz_request(data: &[u8]) {
    let options = ParseOptions { headers_max: 8, ..ParseOptions::default() };
    let mut head = RequestHead::new();
    let outcome = parse_request(data, &options, &mut head);
    if let Ok(Parse::Complete(len)) = outcome {
        assert!(len <= data.len());
        let _ = head.target();
        if head.form == TargetForm::Absolute {
            assert!(matches!(head.path_and_args().first(), Some(b'/' | b'?')));
        }
        if let Ok(meta) = RequestMeta::of(&head)
            && let Some(host) = meta.host
        {
            check_host(host.as_bytes());
        }
    }
    if let Err(error) = outcome {
        let _ = (error.message(head.headers.text()), head.line());
    }
    for cut in [1, data.len() / 2, data.len().saturating_sub(1)] {
        let mut pieces = RequestHead::new();
        let first = parse_request(&data[..cut.min(data.len())], &options, &mut pieces);
        let second = match first {
            Ok(Parse::Partial) => parse_request(data, &options, &mut pieces),
            other => other,
        };
        assert_eq!(outcome.is_err(), second.is_err());
        assert!(outcome.is_err() || outcome == second);
    }
}

/// Checks that an accepted host conforms to RFC 3986 section 3.2.2, and is the same when it is parsed again.
fn check_host(host: &[u8]) {
    let literal = host.first() == Some(&b'[');
    let may = |byte: &u8| match byte {
        b'[' | b']' | b':' => literal,
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte),
    };
    assert!(!host.is_empty() && host.iter().all(may));
    assert!(!host.iter().any(u8::is_ascii_uppercase));
    let dots = host.ends_with(b".") || host.windows(2).any(|two| two == b"..");
    assert!(!dots || literal);
    assert_eq!(parse_host(host).as_ref().map(|again| again.as_bytes()), Some(host));
}

/// Parses response heads, as for requests.
pub fn fuzz_response(data: &[u8]) {
    let mut head = ResponseHead::new();
    let outcome = parse_response(data, 4096, &mut head);
    let _ = (head.framing(Method::Get), head.keep_alive(), head.reason());
    let mut cgi = ResponseHead::new();
    if parse_cgi_response(data, 4096, &mut cgi).is_ok() {
        let _ = cgi.cgi_framing(Method::Get);
    }
    let mut pieces = ResponseHead::new();
    let second = match parse_response(&data[..data.len() / 2], 4096, &mut pieces) {
        Ok(Parse::Partial) => parse_response(data, 4096, &mut pieces),
        other => other,
    };
    assert_eq!(outcome.is_err(), second.is_err());
    assert!(outcome.is_err() || outcome == second);
}

/// Decodes a FastCGI application's records: the result does not depend on where the bytes are cut, and the
/// output is never longer than the input.
pub fn fuzz_fastcgi(data: &[u8]) {
    let decode = |piece: usize| {
        let (mut decoder, mut out) = (fastcgi::Decoder::new(), Vec::new());
        let mut outcome = Ok(());
        for part in data.chunks(piece) {
            let start = out.len();
            out.extend_from_slice(part);
            match decoder.decode(&mut out, start) {
                Ok(begin) => drop(out.drain(..begin)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        assert!(out.len() <= data.len());
        (outcome, out, decoder.is_clean(), decoder.take_stderr().0)
    };
    let whole = decode(data.len().max(1));
    assert_eq!(decode(1), whole);
    let mut head = ResponseHead::new();
    let outcome = parse_cgi_response(&whole.1, 4096, &mut head);
    let _ = (outcome, head.cgi_framing(Method::Get));
}

/// Parses the response line of a memcached `get`: all values lie within the received bytes.
pub fn fuzz_memcached(data: &[u8]) {
    for (key, most) in [(&b"key"[..], 4096), (b"", 64)] {
        match memcached::parse_value_response(data, key, most) {
            Ok(
                reply
                @ (ValueResponse::Absent { consumed } | ValueResponse::Value { consumed, .. }),
            ) => {
                assert!(consumed <= data.len().min(most));
                let mut head = ResponseHead::default();
                reply.write_head(1, &mut head);
                assert!(head.framing(Method::Get).is_ok());
                let cut = memcached::parse_value_response(&data[..consumed - 1], key, most);
                assert_eq!(cut, Ok(ValueResponse::Partial));
            }
            Ok(ValueResponse::Partial) => {}
            Err(error) => assert!(!error.message(key).contains(['\r', '\n'])),
        }
    }
}

/// Decodes bodies and types of gRPC-Web: one piece equals many, and a decoded body encoded again is the same body.
pub fn fuzz_grpc_web(data: &[u8]) {
    type Outcome = (Result<(), WebError>, Vec<u8>);
    let decode = |data: &[u8], is_text: bool, piece: usize| -> Outcome {
        let (mut decoder, mut body) = (RequestDecoder::new(is_text), Vec::new());
        let mut pieces = data.chunks(piece);
        let result = pieces.try_for_each(|piece| decoder.decode(piece, &mut body));
        (result.and_then(|()| decoder.finish()), body)
    };
    for is_text in [true, false] {
        let (result, body) = decode(data, is_text, 1);
        assert!(body.len() <= data.len());
        for piece in [2, 5, data.len().max(1)] {
            let (other, other_body) = decode(data, is_text, piece);
            assert_eq!(other.is_ok(), result.is_ok());
            assert!(result.is_err() || other_body == body);
        }
        if result.is_ok() {
            let mut text = Vec::new();
            body.chunks(7).for_each(|piece| grpc_web::write_base64(piece, &mut text));
            assert_eq!(decode(&text, true, 3), (Ok(()), body));
        }
    }
    if let Some(sent) = ContentType::parse(data) {
        let response = grpc_web::response_type(&sent.grpc(), sent.is_text).unwrap_or_default();
        assert_eq!(ContentType::parse(&response), Some(sent));
    }
}

/// Decodes chunked bodies: the decoder always advances, and one piece equals many.
pub fn fuzz_chunked(data: &[u8]) {
    type Outcome = Result<(Vec<u8>, usize, bool), (ChunkError, Vec<u8>)>;
    let decode = |piece: usize| -> Outcome {
        let mut decoder = ChunkedDecoder::new(1024);
        let (mut at, mut body) = (0, Vec::new());
        while at < data.len() && !decoder.is_done() {
            let input = &data[at..(at + piece).min(data.len())];
            let step = decoder.decode(input).map_err(|error| (error, body.clone()))?;
            assert!(step.consumed > 0 || step.done);
            body.extend_from_slice(&input[step.data]);
            at += step.consumed;
        }
        decoder.trailers(&mut Headers::new());
        Ok((body, at, decoder.is_done()))
    };
    assert_eq!(decode(1), decode(data.len().max(1)));
}
