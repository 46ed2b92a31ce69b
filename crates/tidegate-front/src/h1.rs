//! The HTTP/1 driver: it serves the requests of a connection one after the other.

mod body;
mod framing;
mod head;
mod send;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_codec::request::Version;
use tidegate_core::Exchange;
use tidegate_core::body::{Body, Tunnel};
use tidegate_core::client::{CancelCode, ClientIo};
use tidegate_core::phases::{self, PhaseResult};
use tidegate_core::settings::{Lingering, Settings};
use tidegate_core::timeline;
use tidegate_rt::clock;

use crate::action::{ConnectionAction, Linger};
use crate::client::ClientStream;
use crate::duplex::LinkStream;
use crate::front::Front;
use crate::link::{ConnectionState, Link};
use crate::serve::deliver::{self, SendError};
use crate::serve::pace::Pace;
use crate::serve::scratch::Scratch;
use crate::serve::{begin, finish};
use framing::Framing;
use send::Sender;

/// Reads the bytes that have arrived on a parked connection, without serving them yet.
pub(crate) fn read_ahead(front: &Front, link: &Link) {
    let mut input = link.received.borrow_mut();
    if input.capacity() == 0 {
        *input = front.input();
    }
    let room = input.capacity() - input.len();
    // The end of the stream, and an error, are found again when the connection is served.
    let read = link.io.read_arrived(&mut input);
    link.unread.set(link.io.may_have_more(read.is_ok_and(|count| count == room)));
}

/// Serves requests as long as they have arrived (pipelining, RFC 9112 section 9.3.2).
///
/// Invariant: one exchange's memory serves all of them, reset in between; it goes back to the thread after the last
/// response. Dropped at an await, that memory is dropped and the connection stays `Serving`: it closes.
pub(crate) async fn serve(front: Rc<Front>, link: Rc<Link>) -> ConnectionAction {
    let (front, link) = (&front, &link);
    link.set_serving();
    let mut scratch = front.scratch();
    scratch.attach(link);
    if link.received.borrow().capacity() == 0 {
        link.received.replace(front.input());
    }
    let action = loop {
        let action = request(front, link, &mut scratch).await;
        if action != ConnectionAction::Next || link.multiplexer().is_some() {
            break action;
        }
        let plan = front.plan();
        scratch.exchange.reset(plan);
        scratch.exchange.outcome.pipelined = true;
        // A client that sends faster than it is served must not keep others waiting.
        tidegate_rt::share::step().await;
        // The request may be about something that the request before it has changed.
        tidegate_rt::batch_epoch::advance();
    };
    // Empty, unless the connection ends or another protocol goes on with the bytes.
    if action != ConnectionAction::Next {
        front.give_back_input(link.received.take());
    }
    front.give_back(scratch);
    if action == ConnectionAction::Idle && link.state().idle_since().is_none() {
        // There was no request after all.
        link.set_idle(clock::now());
    }
    action
}

/// Receives one request, responds to it and logs it.
///
/// | received | then |
/// |---|---|
/// | nothing, the end | no request: nothing is counted or logged |
/// | the preface of HTTP/2 | the connection is handed over to that driver |
/// | a part of a head | logged with 400 or 408, no response |
/// | a malformed head, or a connection that may not send requests | refused: a response without the phases |
/// | a request | the phases, then the response unless it was given up meanwhile |
///
/// Dropped at an await, the request ends unlogged; its connection closes ([`serve`]).
async fn request(front: &Front, link: &Rc<Link>, scratch: &mut Scratch) -> ConnectionAction {
    let Scratch { exchange: x, output, client, timeline, .. } = scratch;
    let timeline = &**timeline;
    output.clear();
    let received = head::receive(front, link, x, client).await;
    let _writing = front.counters.writing();
    let outcome = match received {
        head::Received::Nothing => return ConnectionAction::Idle,
        head::Received::End => return ConnectionAction::Close,
        head::Received::Http2 => return ConnectionAction::Next,
        head::Received::Cut(status) => {
            x.disposition.end_without_response(status);
            finish::log(x);
            finish::without_response(x);
            return unless_cancelled(link, ConnectionAction::Close);
        }
        head::Received::Broken(status) => begin::refuse(x, status).await,
        head::Received::Request => match begin::refusal(link.binding(), x) {
            Some(status) => begin::refuse(x, status).await,
            None => timeline::around(Some(timeline), phases::run(x)).await,
        },
    };
    let action = match outcome {
        PhaseResult::Send(body) if link.state() == ConnectionState::Serving => {
            timeline.note_response();
            let respond = respond(front, link, x, output, client, body);
            timeline::around(Some(timeline), respond).await
        }
        // Given up by the module that was to make the response.
        PhaseResult::Send(_) => ConnectionAction::Close,
        PhaseResult::Close => {
            finish::without_response(x);
            ConnectionAction::Close
        }
    };
    let action = unless_cancelled(link, action);
    x.debug(|| format!("connection: {action:?}"));
    let closes = !matches!(action, ConnectionAction::Idle | ConnectionAction::Next);
    if let Some(rest) = finish::request(x, closes) {
        rest.await;
    }
    action
}

/// Returns what follows a request. If the request was given up the connection ends, since nothing else on it could
/// continue.
fn unless_cancelled(link: &Link, action: ConnectionAction) -> ConnectionAction {
    match link.state() {
        ConnectionState::Cancelled { code: CancelCode::Reset } => {
            let _ = link.io.stream().set_linger_reset();
            ConnectionAction::Reset
        }
        ConnectionState::Cancelled { code: CancelCode::Close } => ConnectionAction::Close,
        ConnectionState::Idle { .. } | ConnectionState::Serving => action,
    }
}

/// Sends the response and decides how the connection goes on.
///
/// | sent | then |
/// |---|---|
/// | whole, request body read | idle or the next request; closed where `keep_alive` is off ([`after_response`]) |
/// | whole, request body not read | its rest is read and dropped first, within `lingering_time` |
/// | not whole | cancelled: closed or reset, so that the client notices (RFC 9112 section 8) |
/// | taken over (101) | closed behind the tunnel |
///
/// Invariant: whether the connection stays is settled before the head is written. Most responses leave in the first of
/// its awaits, which is never pending; dropped at a later one, the response is cut off on the wire and the connection
/// closes. Sources: `keepalive_*`, `tcp_nodelay`, `limit_rate`, `send_timeout`, RFC 9112 section 9.
async fn respond(
    front: &Front,
    link: &Rc<Link>,
    x: &mut Exchange,
    output: &mut Vec<u8>,
    client: &ClientStream,
    mut body: Body,
) -> ConnectionAction {
    if let Body::Tunnel(tunnel) = body {
        return Box::pin(take_over(link, x, output, tunnel)).await;
    }
    settle_keep_alive(front, link, x);
    let (framing, length) = framing::decide(x, &body);
    if x.request.version() != Version::H09 {
        framing::write_head(x, framing, length, output);
    }
    // A closing connection needs no option: the close sends its last bytes at once.
    if !link.has_nodelay() && x.disposition.keeps_connection() && x.settings().tcp_nodelay {
        link.set_nodelay();
    }
    let head_bytes = output.len() as u64;
    let pace = Pace::of(x);
    // A rate limit has to wait between pieces, so nothing is tried at once.
    let (at_once, framing) = match pace {
        None => {
            let most = send::sendfile_max(x.settings());
            poll_fn(|context| {
                Poll::Ready(send::at_once(context, link, output, &mut body, framing, most))
            })
            .await
        }
        Some(_) => (0, framing),
    };
    let mut sent = at_once;
    // Boxed: most responses have left by now, and the future of each would have the size of this one.
    let mut result = Ok(());
    if !(output.is_empty() && framing == Framing::None) || link.io.has_unsent() {
        let (rest, end) = Box::pin(send_rest(link, x, output, &mut body, framing, pace)).await;
        sent += rest;
        result = end;
    }
    deliver::count(x, sent, head_bytes);
    drop(body);
    match result {
        Ok(()) => {
            x.outcome.complete = true;
            let unread = !x.request.body.is_finished() || x.request.body.is_broken();
            match unread {
                true => Box::pin(discard_request(link, x, client)).await,
                false => after_response(link, x, false),
            }
        }
        Err(error) => {
            finish::broken(x, &error);
            ConnectionAction::Close
        }
    }
}

/// Sends what did not leave at once; returns the bytes sent, and how sending ended.
///
/// Dropped at an await, the response is cut off on the wire; [`respond`] is dropped with it.
async fn send_rest(
    link: &Link,
    x: &mut Exchange,
    output: &mut Vec<u8>,
    body: &mut Body,
    framing: Framing,
    pace: Option<Box<Pace>>,
) -> (u64, Result<(), SendError>) {
    let mut sender = Sender::new(link, output, framing, pace, x);
    let mut result = sender.run(body).await;
    if result.is_ok() {
        let trailers = deliver::trailers(x, body, framing == Framing::Chunked);
        result = sender.finish(trailers).await;
    }
    (sender.sent, result)
}

/// Reads the rest of the request's body, then keeps the connection or closes it.
async fn discard_request(link: &Link, x: &mut Exchange, client: &ClientStream) -> ConnectionAction {
    let settings = x.settings();
    if x.disposition.keeps_connection() {
        let limits = Linger::of(settings);
        let counted = client.body_bytes.get();
        let whole = body::discard(&mut x.request.body, limits).await;
        client.body_bytes.set(counted);
        if !whole {
            return ConnectionAction::Close;
        }
    }
    after_response(link, x, true)
}

/// Keeps the connection or closes it; `unread` when the body was not read to its end.
fn after_response(link: &Link, x: &Exchange, unread: bool) -> ConnectionAction {
    match x.disposition.keeps_connection() {
        true => keep(link, x, clock::now()),
        false => close(link, x, unread),
    }
}

/// Closes the connection, at once or after reading on for what the client still sends (`lingering_close`).
fn close(link: &Link, x: &Exchange, unread: bool) -> ConnectionAction {
    let settings = x.settings();
    // The last read filled its buffer: more may wait in the socket, and closing now would reset the connection.
    let more = !link.received.borrow().is_empty() || link.unread.get();
    match lingers(settings.lingering_close, unread || more) {
        true => ConnectionAction::Linger(Linger::of(settings)),
        false => ConnectionAction::Close,
    }
}

/// Whether a connection that closes is read on first; `more` where the client may still be sending.
fn lingers(mode: Lingering, more: bool) -> bool {
    match mode {
        Lingering::Off => false,
        Lingering::On => more,
        Lingering::Always => true,
    }
}

/// Keeps the connection, whose response was sent at `now`.
fn keep(link: &Link, x: &Exchange, now: Instant) -> ConnectionAction {
    let settings = x.settings();
    let (timeout, min_timeout) = (settings.keepalive_timeout.idle, settings.keepalive_min_timeout);
    link.set_limits(link.limits().renewed(now, timeout, min_timeout));
    if !link.received.borrow().is_empty() {
        return ConnectionAction::Next;
    }
    link.set_idle(now);
    ConnectionAction::Idle
}

/// Settles whether the connection can stay, by all of its limits.
fn settle_keep_alive(front: &Front, link: &Link, x: &mut Exchange) {
    if !x.disposition.keeps_connection() {
        return;
    }
    // A client that still waits for `100 Continue` may or may not send its body after this response.
    let unasked = x.request.expects_continue
        && !x.request.body.is_finished()
        && x.request.body.received() == 0;
    let life = x.progress.started.saturating_duration_since(link.accepted);
    let keep = may_stay(x.settings(), x.ordinal, life)
        && !front.is_draining()
        && !link.is_closing()
        && !unasked
        && !x.request.body.is_broken()
        && !head::keepalive_disabled(x);
    if !keep {
        x.disposition.close_connection();
    }
}

/// Whether a connection may serve another request after request number `ordinal` (from 1), `life` after it was accepted
/// (`keepalive_timeout`, `keepalive_requests`, `keepalive_time`).
fn may_stay(settings: &Settings, ordinal: u64, life: Duration) -> bool {
    !settings.keepalive_timeout.idle.is_zero()
        && ordinal < settings.keepalive_requests
        && life < settings.keepalive_time
}

/// Gives the connection to a tunnel (101, CONNECT) until the tunnel ends.
///
/// Bytes that were received behind the request belong to the tunnel. Dropped at an await, the connection closes.
async fn take_over(
    link: &Rc<Link>,
    x: &mut Exchange,
    output: &mut Vec<u8>,
    tunnel: Tunnel,
) -> ConnectionAction {
    framing::write_head(x, Framing::None, None, output);
    if let Err(error) = link.write_all(output, x.settings().send_timeout).await {
        if error.kind() == io::ErrorKind::TimedOut {
            finish::broken(x, &SendError::Timeout);
        }
        return ConnectionAction::Close;
    }
    x.outcome.bytes_sent = output.len() as u64;
    let prefetched = Bytes::from(std::mem::take(&mut *link.received.borrow_mut()));
    link.set_nodelay();
    link.waits().deadline.clear();
    let sent = Rc::new(std::cell::Cell::new(0));
    let io = Rc::new(LinkStream::new(link.clone(), sent.clone()));
    deliver::tunnel(x, tunnel, ClientIo { io, prefetched }, sent).await;
    ConnectionAction::Close
}
