//! The HTTP/1 driver: requests of one connection, one after the other.

mod body;
mod framing;
mod head;
mod linger;
mod send;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use tidegate_core::body::{Body, Tunnel};
use tidegate_core::client::{CancelCode, ClientIo};
use tidegate_core::phases::Answer;
use tidegate_core::{Exchange, LocalFuture};
use tidegate_http::request::Version;

use crate::conn::Conn;
use crate::serve::deliver::{self, SendError};
use crate::serve::pace::Pace;
use crate::serve::scratch::Scratch;
use crate::serve::{begin, finish};
use framing::Framing;
use linger::Linger;
use send::Sender;

/// How the connection goes on after its requests so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Wait for the next request without any memory.
    Idle,
    /// The next request has begun to arrive.
    Next,
    /// Close; what the client may still send was not read.
    Linger(Linger),
    Close,
    /// Close without a word (`reset_timedout_connection`).
    Reset,
}

/// Requests in progress.
pub type Serving = LocalFuture<'static, ConnectionAction>;

/// How serving a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeResult {
    Closed,
    /// It is idle and shall wait without a task.
    Parked,
}

/// Serves a connection until it ends or is to be parked, from what has `begun` on.
pub async fn run(conn: Rc<Conn>, mut begun: Option<Serving>) -> ServeResult {
    loop {
        let serving = match begun.take() {
            Some(serving) => serving,
            None => match idle(&conn).await {
                // The state of requests in progress is boxed: an idle connection's task stays small.
                WaitOutcome::Bytes => Box::pin(serve(conn.clone())),
                WaitOutcome::End => break,
                WaitOutcome::Parking => return ServeResult::Parked,
            },
        };
        match serving.await {
            ConnectionAction::Idle if conn.front.parking.can_repark(&conn) => {
                return ServeResult::Parked;
            }
            ConnectionAction::Idle | ConnectionAction::Next => continue,
            ConnectionAction::Linger(limits) => Box::pin(linger::close(&conn, limits)).await,
            // Saying that we end would make it an orderly close.
            ConnectionAction::Reset => return ServeResult::Closed,
            ConnectionAction::Close => {}
        }
        break;
    }
    // Without TLS the close that follows says all that a shutdown would.
    if conn.io.plain().is_none() {
        Box::pin(conn.io.shutdown()).await;
    }
    ServeResult::Closed
}

/// What became of waiting.
enum WaitOutcome {
    Bytes,
    End,
    Parking,
}

/// Waits for the first byte of a request, a reason to close, or to be parked.
async fn idle(conn: &Rc<Conn>) -> WaitOutcome {
    let first = conn.info.requests.get() == 0;
    if !conn.input.borrow().is_empty() {
        return WaitOutcome::Bytes;
    }
    let now = conn.idle_since_or_now();
    conn.idle_since.set(Some(now));
    let left = conn.idle_until.get().saturating_duration_since(now);
    // The sweep closes those that wait long; a timer of their own only have those that do not.
    let timed = left < crate::parking::TIMED_BELOW;
    if timed {
        conn.waits().deadline.set_after(left);
    }
    poll_fn(|context| {
        let ends = || !first && conn.is_free(tidegate_rt::clock::now());
        if conn.closing.get() || (conn.front.is_draining() && ends()) {
            return Poll::Ready(WaitOutcome::End);
        }
        if conn.io.poll_readable(context).is_ready() {
            return Poll::Ready(WaitOutcome::Bytes);
        }
        if conn.parking.take() {
            return Poll::Ready(WaitOutcome::Parking);
        }
        match timed {
            true => conn.waits().deadline.poll_elapsed(context).map(|()| WaitOutcome::End),
            false => Poll::Pending,
        }
    })
    .await
}

/// Reads what a parked connection has been sent, without serving it yet.
pub fn read_ahead(conn: &Conn) {
    let Some(stream) = conn.io.plain() else { return };
    let mut input = conn.input.borrow_mut();
    if input.capacity() == 0 {
        *input = conn.front.input();
    }
    let room = input.capacity() - input.len();
    // The end, and an error, are met again by whoever serves it.
    let read = stream.read_arrived(&mut input);
    conn.unread.set(read.is_ok_and(|count| count == room));
}

/// Serves requests as long as they are there.
pub async fn serve(conn: Rc<Conn>) -> ConnectionAction {
    let conn = &conn;
    conn.idle_since.set(None);
    let mut scratch = conn.front.scratch(conn);
    if conn.input.borrow().capacity() == 0 {
        conn.input.replace(conn.front.input());
    }
    let action = loop {
        let action = request(conn, &mut scratch).await;
        if action != ConnectionAction::Next {
            break action;
        }
        let plan = conn.front.plan();
        scratch.exchange.reset(plan);
        scratch.exchange.outcome.pipelined = true;
        // A client that sends faster than it is served must not keep others waiting.
        tidegate_rt::share::step().await;
        // What it asks for may be what the request before it has changed.
        tidegate_rt::freshness::received();
    };
    conn.front.give_back_input(conn.input.take());
    conn.front.give_back(scratch);
    action
}

/// Receives, answers and logs one request.
async fn request(conn: &Rc<Conn>, scratch: &mut Scratch) -> ConnectionAction {
    let Scratch { exchange: x, output, .. } = scratch;
    output.clear();
    let received = head::receive(conn, x).await;
    let _writing = conn.front.counters.writing();
    let answer = match received {
        head::Received::Nothing => return ConnectionAction::Idle,
        head::Received::End => return ConnectionAction::Close,
        head::Received::Cut(status) => {
            x.disposition.leave_unanswered(status);
            finish::log(x);
            return close_without_answer(conn, x);
        }
        head::Received::Broken(status) => begin::refuse(x, status).await,
        head::Received::Request => begin::respond(conn, x).await,
    };
    let action = match answer {
        Answer::Close => close_without_answer(conn, x),
        Answer::Send(body) => respond(conn, x, output, body).await,
    };
    finish::request(x, !matches!(action, ConnectionAction::Idle | ConnectionAction::Next)).await;
    action
}

fn close_without_answer(conn: &Conn, x: &Exchange) -> ConnectionAction {
    finish::without_response(x);
    cancelled(conn)
}

/// What a request that was given up means for the connection.
fn cancelled(conn: &Conn) -> ConnectionAction {
    match conn.cancelled.get() {
        Some(CancelCode::Reset) => {
            let _ = conn.io.stream().set_linger_reset();
            ConnectionAction::Reset
        }
        Some(CancelCode::Close) | None => ConnectionAction::Close,
    }
}

/// Sends the answer and decides how the connection goes on.
async fn respond(
    conn: &Rc<Conn>,
    x: &mut Exchange,
    output: &mut Vec<u8>,
    mut body: Body,
) -> ConnectionAction {
    if let Body::Tunnel(tunnel) = body {
        return Box::pin(take_over(conn, x, output, tunnel)).await;
    }
    settle_keep_alive(conn, x);
    let (framing, length) = framing::decide(x, &body);
    if x.request.version() != Version::H09 {
        framing::write_head(x, framing, length, output);
    }
    if conn.nodelay_wanted(x) {
        let _ = conn.io.stream().set_nodelay(true);
        conn.nodelay.set(true);
    }
    let head_bytes = output.len() as u64;
    let pace = Pace::of(x);
    let (at_once, framing) = match pace {
        None => {
            let most = send::sendfile_max(x.settings());
            poll_fn(|context| {
                Poll::Ready(send::at_once(context, conn, output, &mut body, framing, most))
            })
            .await
        }
        Some(_) => (0, framing),
    };
    let mut sent = at_once;
    let mut result = Ok(());
    if !(output.is_empty() && framing == Framing::None) {
        let (rest, end) = Box::pin(send_rest(conn, x, output, &mut body, framing, pace)).await;
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
                true => Box::pin(discard_request(conn, x)).await,
                false => after_answer(conn, x, false),
            }
        }
        Err(error) => {
            finish::broken(x, &error);
            cancelled(conn)
        }
    }
}

/// Sends what did not leave at once: the bytes sent, and how it ended.
async fn send_rest(
    conn: &Conn,
    x: &mut Exchange,
    output: &mut Vec<u8>,
    body: &mut Body,
    framing: Framing,
    pace: Option<Pace>,
) -> (u64, Result<(), SendError>) {
    let mut sender = Sender::new(conn, output, framing, pace, x);
    let mut result = sender.run(body).await;
    if result.is_ok() {
        let trailers = deliver::trailers(x, body, framing == Framing::Chunked);
        result = sender.finish(trailers).await;
    }
    (sender.sent, result)
}

/// Reads what is left of the request's body, then keeps the connection or closes it.
async fn discard_request(conn: &Conn, x: &mut Exchange) -> ConnectionAction {
    let settings = x.settings();
    if x.disposition.keeps_connection() {
        let limits = Linger::of(settings);
        let counted = conn.body_bytes.get();
        let whole = linger::discard_body(&mut x.request.body, limits).await;
        conn.body_bytes.set(counted);
        if !whole {
            return ConnectionAction::Close;
        }
    }
    after_answer(conn, x, true)
}

/// Keeps the connection or closes it; `unread` when the body was not asked for to its end.
fn after_answer(conn: &Conn, x: &Exchange, unread: bool) -> ConnectionAction {
    let settings = x.settings();
    let more = !conn.input.borrow().is_empty();
    if !x.disposition.keeps_connection() {
        // What was read last filled its room: more may wait in the socket, and closing now would reset the connection.
        let more = more || conn.unread.get();
        let always = settings.lingering_close == tidegate_core::settings::Lingering::Always;
        let on = settings.lingering_close != tidegate_core::settings::Lingering::Off;
        return match always || (on && (unread || more)) {
            true => ConnectionAction::Linger(Linger::of(settings)),
            false => ConnectionAction::Close,
        };
    }
    let now = tidegate_rt::clock::now();
    conn.idle_until.set(now + settings.keepalive_timeout);
    if !settings.keepalive_min_timeout.is_zero() {
        conn.kept_until.set(now + settings.keepalive_min_timeout);
    }
    if more {
        return ConnectionAction::Next;
    }
    conn.idle_since.set(Some(now));
    ConnectionAction::Idle
}

/// Whether the connection can stay, by all that limits it.
fn settle_keep_alive(conn: &Conn, x: &mut Exchange) {
    if !x.disposition.keeps_connection() {
        return;
    }
    // A client that still waits for `100 Continue` may or may not send its body after this answer.
    let unasked = x.request.expects_continue
        && !x.request.body.is_finished()
        && x.request.body.received() == 0;
    let settings = x.settings();
    let requests = x.ordinal;
    let life = x.progress.started.saturating_duration_since(conn.accepted);
    let keep = !settings.keepalive_timeout.is_zero()
        && requests < settings.keepalive_requests
        && life < settings.keepalive_time
        && !conn.front.is_draining()
        && !conn.closing.get()
        && !unasked
        && !x.request.body.is_broken()
        && !head::keepalive_disabled(x);
    if !keep {
        x.disposition.close_connection();
    }
}

/// Gives the connection to a tunnel (101, CONNECT) until that ends.
async fn take_over(
    conn: &Rc<Conn>,
    x: &mut Exchange,
    output: &mut Vec<u8>,
    tunnel: Tunnel,
) -> ConnectionAction {
    framing::write_head(x, Framing::None, None, output);
    if conn.write_all(output).await.is_err() {
        return ConnectionAction::Close;
    }
    x.outcome.bytes_sent = output.len() as u64;
    let prefetched = Bytes::from(std::mem::take(&mut *conn.input.borrow_mut()));
    let _ = conn.io.stream().set_nodelay(true);
    conn.waits().deadline.clear();
    let sent = Rc::new(std::cell::Cell::new(0));
    let io = Rc::new(crate::duplex::ConnDuplex::new(conn.clone(), sent.clone()));
    deliver::tunnel(x, tunnel, ClientIo { io, prefetched }, sent).await;
    ConnectionAction::Close
}

impl Conn {
    fn nodelay_wanted(&self, x: &Exchange) -> bool {
        !self.nodelay.get() && x.disposition.keeps_connection() && x.settings().tcp_nodelay
    }
}
