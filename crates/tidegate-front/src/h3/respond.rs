//! The response: its head as a field section, and what of its body can leave at once.

use std::rc::Rc;

use bytes::Bytes;
use tidegate_core::Exchange;
use tidegate_core::body::Body;
use tidegate_core::exchange::HeadSending;
use tidegate_h3::{Fields, SendError as Refused};

use super::send::Sending;
use super::stream::{Place, Stream};
use super::tunnel;
use crate::serve::deliver::{self, SendError};
use crate::serve::finish;
use crate::serve::pace::Pace;
use crate::serve::streams::{self, announced_length, has_no_body};

/// Bytes of the memory in which heads are written, where it is kept for the next one.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bodies below this are copied behind their head: QUIC takes one piece for less than two.
const COPIED_BELOW: usize = 1024;

/// Sends the response to a request.
///
/// Most responses have been taken by QUIC when it returns for the first time. Dropped at its await, the response is cut
/// off. Sources: `limit_rate`, `send_timeout`, RFC 9114 section 4.1.
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
    let mut result = Ok(());
    let mut is_done = false;
    if !with_body {
        let at_once = match pace {
            None if !ends => whole(x, &body, length),
            _ => None,
        };
        is_done = ends || at_once.is_some();
        result = head(&place, stream, x, length, at_once.unwrap_or_default(), is_done);
    }
    if result.is_ok() {
        let timeout = x.settings().send_timeout;
        let sending = Sending { place: &place, stream, length, with_body, timeout, pace };
        result = match is_done {
            true if stream.outbox.borrow().is_empty() => Ok(()),
            true => Box::pin(sending.drained(x)).await,
            false => Box::pin(sending.run(x, &mut body)).await,
        };
    }
    let (taken, overhead) = {
        let outbox = stream.outbox.borrow();
        (outbox.taken, outbox.overhead.min(outbox.taken))
    };
    deliver::count(x, taken, overhead);
    drop(body);
    match result {
        Ok(()) => x.outcome.complete = true,
        Err(error) => finish::broken(x, &error),
    }
}

/// Returns a body that is in memory as a whole.
fn whole(x: &Exchange, body: &Body, length: Option<u64>) -> Option<Bytes> {
    let bytes = match body {
        Body::Bytes(bytes) => bytes.clone(),
        Body::File(range) => range.in_memory()?,
        _ => return None,
    };
    let is_whole = length == Some(bytes.len() as u64) && !x.delivery.expects_trailers;
    is_whole.then_some(bytes)
}

/// Writes the head, and `body` behind it in one frame. The message ends there if `ends` is set.
pub(super) fn head(
    place: &Place,
    stream: &Stream,
    x: &mut Exchange,
    length: Option<u64>,
    body: Bytes,
    ends: bool,
) -> Result<(), SendError> {
    if place.link.is_hq.get() {
        // HTTP/0.9 has no head.
        stream.send(place, body, 0);
        if ends {
            stream.end(place);
        }
        return Ok(());
    }
    let server = streams::server_field(x);
    let status = x.disposition.status();
    let mut out = place.link.port.head.take();
    out.clear();
    let ends_at_head = ends && body.is_empty();
    let written = place.link.with_core(|core| {
        core.respond(place.id, status, ends_at_head, &mut out, |fields| {
            let mut beginnings = place.link.port.beginnings.borrow_mut();
            let begin = |first: streams::FirstFields<'_>, fields: &mut Fields<'_>| {
                beginnings.list(first, fields);
            };
            streams::list_fields(x, server.as_deref(), length, fields, begin);
        })?;
        match body.is_empty() {
            true => Ok(()),
            false => core.send_data_header(place.id, body.len() as u64, ends, &mut out),
        }
    });
    let result = match written {
        Some(Ok(())) => Ok(()),
        None | Some(Err(Refused::Closed)) => Err(SendError::Left),
        Some(Err(error)) => Err(SendError::Client(std::io::Error::other(error))),
    };
    if result.is_ok() {
        place.link.send_own();
        let overhead = out.len();
        let apart = match body.len() < COPIED_BELOW {
            true => {
                out.extend_from_slice(&body);
                Bytes::new()
            }
            false => body,
        };
        stream.send_all(place, [Bytes::copy_from_slice(&out), apart], overhead, ends);
    }
    if out.capacity() <= HEAD_BYTES_MAX {
        place.link.port.head.replace(out);
    }
    result
}
