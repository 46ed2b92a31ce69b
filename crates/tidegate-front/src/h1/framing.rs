//! The response's head on the wire: how the body ends, whether the connection stays, and the text.

use std::io::Write as _;

use tidegate_codec::Known;
use tidegate_codec::request::{Method, Version};
use tidegate_codec::response::{write_status_line, write_status_line_with};
use tidegate_core::Exchange;
use tidegate_core::body::Body;
use tidegate_core::error_page;
use tidegate_core::exchange::FieldOwner;

#[cfg(test)]
mod tests;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is no body: HEAD, 204, 304, HTTP/0.9 aside.
    None,
    Length(u64),
    Chunked,
    /// The body ends with the connection.
    Close,
}

/// Decides how the body ends (RFC 9112 section 6).
pub(super) fn decide(x: &mut Exchange, body: &Body) -> (Framing, Option<u64>) {
    let status = x.disposition.status();
    let version = x.request.version();
    if status == 101 || status == 204 || status == 304 {
        let announced = if status == 304 { x.response.content_length } else { None };
        return (Framing::None, announced);
    }
    let length = x.response.content_length.or_else(|| body.known_length());
    // Logs show the announced length.
    x.response.content_length = length;
    if x.request.head.method == Method::Head {
        return (Framing::None, length);
    }
    match length {
        Some(length) if !x.delivery.expects_trailers || version != Version::H11 => {
            (Framing::Length(length), Some(length))
        }
        _ if version == Version::H11 && x.settings().chunked_transfer_encoding => {
            x.response.content_length = None;
            x.outcome.chunked = true;
            (Framing::Chunked, None)
        }
        _ => {
            x.disposition.close_connection();
            (Framing::Close, None)
        }
    }
}

/// Writes the head in nginx's order: server, date, type, length, connection, then the others.
pub(super) fn write_head(
    x: &mut Exchange,
    framing: Framing,
    length: Option<u64>,
    out: &mut Vec<u8>,
) {
    match &x.response.reason {
        Some(reason) => write_status_line_with(x.disposition.status(), reason, out),
        None => write_status_line(x.disposition.status(), out),
    }
    if x.delivery.server == FieldOwner::Server && !x.response.headers.contains(Known::Server) {
        error_page::write_server_field(x, out);
    }
    let headers = &x.response.headers;
    if x.delivery.date == FieldOwner::Server && !headers.contains(Known::Date) {
        tidegate_rt::clock::http_date(|date| field(out, b"Date: ", date));
    }
    if let Some(kind) = headers.first(Known::ContentType) {
        field(out, b"Content-Type: ", kind);
    }
    if let Some(length) = length {
        out.extend_from_slice(b"Content-Length: ");
        write_number(length, out);
        out.extend_from_slice(b"\r\n");
    }
    if framing == Framing::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    connection_fields(x, out);
    for (known, name, value) in x.response.headers.iter() {
        if !matches!(
            known,
            Known::ContentType | Known::ContentLength | Known::TransferEncoding | Known::Connection
        ) {
            field_named(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn connection_fields(x: &Exchange, out: &mut Vec<u8>) {
    if x.disposition.status() == 101 {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        return;
    }
    if !x.disposition.keeps_connection() {
        out.extend_from_slice(b"Connection: close\r\n");
        return;
    }
    out.extend_from_slice(b"Connection: keep-alive\r\n");
    if let Some(time) = x.settings().keepalive_timeout.field {
        let _ = write!(out, "Keep-Alive: timeout={}\r\n", time.as_secs());
    }
}

fn field(out: &mut Vec<u8>, name_and_colon: &[u8], value: &[u8]) {
    out.extend_from_slice(name_and_colon);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn field_named(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes decimal digits without the formatting machinery.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
