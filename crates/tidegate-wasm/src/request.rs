//! The conversion of a request to `wasi:http`.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Method, Uri};
use http_body::{Body, Frame, SizeHint};
use tidegate_codec::uri::{Escape, escape, unescape};
use tidegate_handler::Request;
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;

use crate::failure::Failure;

/// Bytes of one read of a body.
const READ_BYTES: usize = 32 << 10;

/// Returns scheme and request for the interface.
///
/// # Errors
/// The interface cannot represent the method or the target.
pub(crate) fn convert(request: Request) -> Result<(Scheme, http::Request<Incoming>), Failure> {
    let variable = |name| request.variable(name).unwrap_or_default();
    let (scheme, name) = match variable("scheme") {
        b"https" => (Scheme::Https, "https"),
        _ => (Scheme::Http, "http"),
    };
    let host = [variable("host"), b"localhost"].into_iter().find(|host| !host.is_empty());
    let host = host.unwrap_or_default();
    let method = Method::from_bytes(request.method()).map_err(Failure::Method)?;
    let uri = Uri::builder()
        .scheme(name)
        // A name with percent signs is no authority of the interface; the field `Host` is passed on as it is.
        .authority(Authority::try_from(host).unwrap_or(Authority::from_static("localhost")))
        .path_and_query(target(&request))
        .build()
        .map_err(Failure::Target)?;
    let mut converted = http::Request::new(());
    *converted.method_mut() = method;
    *converted.uri_mut() = uri;
    for (name, value) in request.headers() {
        // Fields that the interface cannot represent are not passed on.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            converted.headers_mut().append(name, value);
        }
    }
    Ok((scheme, converted.map(|()| Incoming(request))))
}

/// Returns the target as received unless the path was rewritten; bytes that no URI has are percent-encoded (RFC 3986,
/// section 2).
fn target(request: &Request) -> Vec<u8> {
    const NEVER: &[u8] = b"\"#<>\\^`{|}";
    let written = written(request);
    let mut target = Vec::with_capacity(written.len());
    for byte in written {
        if byte.is_ascii_graphic() && !NEVER.contains(&byte) {
            target.push(byte);
        } else {
            escape(&[byte], Escape::Component, &mut target);
        }
    }
    target
}

fn written(request: &Request) -> Vec<u8> {
    let received = request.target();
    let (path, query) = match received.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&received[..mark], &received[mark + 1..]),
        None => (received, &b""[..]),
    };
    let mut decoded = Vec::new();
    unescape(path, &mut decoded);
    if path.starts_with(b"/") && decoded == request.path() && query == request.query() {
        return received.to_vec();
    }
    let mut target = Vec::new();
    escape(request.path(), Escape::Uri, &mut target);
    if !request.query().is_empty() {
        target.push(b'?');
        target.extend_from_slice(request.query());
    }
    target
}

/// The body of a request, which has been received completely.
pub(crate) struct Incoming(Request);

impl Body for Incoming {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let body = self.0.body();
        if body.is_empty() {
            return Poll::Ready(None);
        }
        let mut bytes = Vec::with_capacity(READ_BYTES);
        // From memory or a temporary file, on a thread that may block.
        let read = body.take(READ_BYTES as u64).read_to_end(&mut bytes);
        Poll::Ready(Some(match read {
            Ok(_) => Ok(Frame::data(bytes.into())),
            Err(error) => Err(Error::InternalError(Some(error.to_string()))),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
