//! The response: its head as a header block, and what of its body can leave at once.

use std::rc::Rc;

use tidegate_core::Exchange;
use tidegate_core::body::Body;
use tidegate_core::exchange::HeadSending;
use tidegate_h2::frame::FRAME_HEADER_BYTES;
use tidegate_h2::{Connection, Fields, SendError as Refused, Server};

use super::send;
use super::stream::{Place, Stream};
use super::tunnel;
use crate::serve::deliver::{self, SendError};
use crate::serve::finish;
use crate::serve::pace::Pace;
use crate::serve::streams::{self, announced_length, has_no_body};

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

/// Writes the head. Returns its bytes.
pub(super) fn head(
    place: &Place,
    x: &mut Exchange,
    length: Option<u64>,
    ends: bool,
) -> Result<u64, SendError> {
    let server = streams::server_field(x);
    let status = x.disposition.status();
    let list = |fields: &mut Fields<'_>| {
        let begin = |first: streams::FirstFields<'_>, fields: &mut Fields<'_>| first.list(fields);
        streams::list_fields(x, server.as_deref(), length, fields, begin);
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
