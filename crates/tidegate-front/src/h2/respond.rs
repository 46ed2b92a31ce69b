//! The response: its head as a header block, and what of its body can leave at once.

use std::rc::Rc;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::Exchange;
use tidegate_core::body::Body;
use tidegate_core::error_page;
use tidegate_core::exchange::{FieldOwner, HeadSending};
use tidegate_h2::frame::FRAME_HEADER_BYTES;
use tidegate_h2::{Connection, Fields, SendError as Refused, Server};

use super::send;
use super::stream::{Place, Stream};
use super::tunnel;
use crate::serve::deliver::{self, SendError};
use crate::serve::finish;
use crate::serve::pace::Pace;

/// Sends the response to a request.
///
/// Most responses are in the protocol's output when it returns for the first time. Dropped at its await, the response
/// is cut off. Sources: `http2_chunk_size`, `limit_rate`, `send_timeout`, RFC 9113 section 8.1.
pub(super) async fn respond(stream: &Rc<Stream>, x: &mut Exchange, mut body: Body) {
    let Some(place) = stream.place() else { return };
    if let Body::Tunnel(tunnel) = body {
        return Box::pin(tunnel::run(&place, stream, x, tunnel)).await;
    }
    let length = announced_length(x, &body);
    let ends = has_no_body(x, length);
    let pace = Pace::of(x);
    // A head that waits for the body's first bytes is written with them.
    let with_body = !ends && x.delivery.head == HeadSending::WithBody;
    let mut head_bytes = 0;
    let mut result = Ok(false);
    if !with_body {
        (head_bytes, result) = match head(&place, x, length, ends) {
            Ok(bytes) => (bytes, Ok(ends)),
            Err(error) => (0, Err(error)),
        };
        if let (Ok(false), None) = (&result, &pace) {
            result = Ok(at_once(&place, stream, x, &mut body, length));
        }
    }
    let result = match result {
        Ok(true) => Ok(()),
        Ok(false) => {
            let timeout = x.settings().send_timeout;
            let sending = send::Sending { place: &place, stream, length, with_body, timeout, pace };
            let (of_head, result) = Box::pin(sending.run(x, &mut body)).await;
            head_bytes += of_head;
            result
        }
        Err(error) => Err(error),
    };
    let outbox = stream.outbox.borrow();
    let of_frames = outbox.frames * FRAME_HEADER_BYTES as u64;
    // The head, and the frames of the body, are no bytes of the body.
    deliver::count(x, head_bytes + of_frames + outbox.sent, head_bytes + of_frames);
    drop(outbox);
    drop(body);
    match result {
        Ok(()) => x.outcome.complete = true,
        Err(error) => finish::broken(x, &error),
    }
}

/// Returns the length that the head announces.
fn announced_length(x: &mut Exchange, body: &Body) -> Option<u64> {
    let length = match x.disposition.status() {
        204 => return None,
        304 => return x.response.content_length,
        _ => x.response.content_length.or_else(|| body.known_length()),
    };
    // Logs show the announced length.
    x.response.content_length = length;
    length
}

/// Whether the head ends the message.
fn has_no_body(x: &Exchange, length: Option<u64>) -> bool {
    let bodiless = x.request.head.method == Method::Head;
    let is_empty = length == Some(0) && !x.delivery.expects_trailers;
    bodiless || is_empty || matches!(x.disposition.status(), 204 | 304)
}

/// Writes the head in nginx's order: server, date, type, length, then the others. Returns its bytes.
pub(super) fn head(
    place: &Place,
    x: &mut Exchange,
    length: Option<u64>,
    ends: bool,
) -> Result<u64, SendError> {
    let with_server =
        x.delivery.server == FieldOwner::Server && !x.response.headers.contains(Known::Server);
    let server = with_server.then(|| error_page::server_value(x));
    let status = x.disposition.status();
    let list = |fields: &mut Fields<'_>| {
        if let Some(server) = server.as_deref().filter(|server| !server.is_empty()) {
            fields.push_known(Known::Server, server);
        }
        let headers = &x.response.headers;
        if x.delivery.date == FieldOwner::Server && !headers.contains(Known::Date) {
            tidegate_rt::clock::http_date(|date| fields.push_known(Known::Date, date));
        }
        if let Some(kind) = headers.first(Known::ContentType) {
            fields.push_known(Known::ContentType, kind);
        }
        if let Some(length) = length {
            fields.push_known(Known::ContentLength, Digits::of(length).text());
        }
        for (known, name, value) in headers.iter() {
            // The protocol leaves out what concerns one connection (RFC 9113 section 8.2.2).
            if !matches!(known, Known::ContentType | Known::ContentLength) {
                fields.push(name, value);
            }
        }
    };
    let send = |core: &mut Connection<Server>| {
        let before = core.output().len();
        core.respond(place.id, status, ends, list).map(|_| core.output().len() - before)
    };
    match place.multiplexer.command(send) {
        Ok(bytes) => Ok(bytes as u64),
        Err(Refused::Closed) => Err(SendError::Left),
        Err(error) => Err(SendError::Client(std::io::Error::other(error))),
    }
}

/// Sends a body that is in memory as far as windows and output have room, unless other streams wait for both. Returns
/// whether that was all of it.
fn at_once(
    place: &Place,
    stream: &Stream,
    x: &Exchange,
    body: &mut Body,
    length: Option<u64>,
) -> bool {
    let mut bytes = match &*body {
        Body::Bytes(bytes) => bytes.clone(),
        Body::File(range) => match range.in_memory() {
            Some(bytes) => bytes,
            None => return false,
        },
        _ => return false,
    };
    if length != Some(bytes.len() as u64) || x.delivery.expects_trailers {
        return false;
    }
    let chunk = x.settings().http2_chunk_bytes as usize;
    let multiplexer = &place.multiplexer;
    let mut outbox = stream.outbox.borrow_mut();
    while multiplexer.core().next_to_send().is_none() && !multiplexer.is_full() {
        let most = chunk.min(multiplexer.core().sendable(place.id) as usize);
        if most == 0 {
            break;
        }
        let piece = bytes.split_to(bytes.len().min(most));
        let ends = bytes.is_empty();
        let count = piece.len() as u64;
        if multiplexer.send_data(place.id, piece, ends).is_err() {
            break;
        }
        outbox.count(count);
        if ends {
            break;
        }
    }
    drop(outbox);
    let all = bytes.is_empty();
    *body = Body::from(bytes);
    all
}

/// Decimal digits of a number.
struct Digits {
    text: [u8; 20],
    start: usize,
}

impl Digits {
    fn of(mut number: u64) -> Digits {
        let mut digits = Digits { text: [0; 20], start: 20 };
        loop {
            digits.start -= 1;
            digits.text[digits.start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return digits;
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.text[self.start..]
    }
}
