//! The task of a shared connection: it connects, moves bytes between socket and core, and wakes streams.
//!
//! Each poll does four things in order: it sends the output, reads and passes events on until the socket has no more,
//! sends what the events have caused, and decides whether the connection is over. While the output is full it neither
//! reads nor lets streams add to it, so an origin that does not read costs a limited amount of memory
//! (CVE-2019-9517). It reads at the pace of the origin: a stream that is not read stops by its window alone.
//!
//! It ends by itself: when no request waits for the connection any more, when the origin closes, by an error, or idle for
//! `keepalive_timeout`. Whatever is left then ends as [`StreamEnd::Lost`].

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use tidegate_codec::request::Version;
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_core::figures::Tally;
use tidegate_h2::{ErrorCode, Event};
use tidegate_rt::net::Addr;
use tidegate_rt::timer::Deadline;
use tidegate_rt::{clock, spawn_local};
use tidegate_tls::TlsTarget;

use super::connection::{Phase, SharedConnection, State};
use super::slot::StreamEnd;
use crate::connection::{ConnectError, OriginConnection, count_handshake};
use crate::h1::scratch;
use crate::log::os_error;
use crate::pool::shared;
use crate::settings::{FetchSettings, LocalAddress};

/// What a connection is opened with.
pub(crate) struct OpenRequest {
    pub address: Addr,
    pub local: Option<Box<LocalAddress>>,
    pub tls: Option<TlsTarget>,
    pub settings: Arc<FetchSettings>,
    /// Counts the handshake, where there is one.
    pub handshakes: Option<Arc<Tally>>,
    /// For errors of a connection that no request has.
    pub log: ErrorLog,
    /// The server, as log lines name it.
    pub server: Box<str>,
    /// The group's number.
    pub group: u64,
}

/// Starts the task of a connection.
pub(crate) fn start(connection: Rc<SharedConnection>, open: OpenRequest) {
    spawn_local(run(connection, open));
}

async fn run(connection: Rc<SharedConnection>, open: OpenRequest) {
    let group = open.group;
    let reason = match connect(&connection, &open).await {
        Some(Ok(origin)) => {
            let mut driver = Driver::new(&connection, group, origin);
            driver.unacknowledged.set_after(open.settings.read_timeout);
            let end = poll_fn(|context| driver.poll(context)).await;
            driver.log(&open, &end);
            driver.close();
            (end, None)
        }
        Some(Err(error)) => (StreamEnd::Unprocessed, Some(Rc::new(error))),
        None => (StreamEnd::Unprocessed, None),
    };
    shared::forget(group, &connection);
    let mut wakers = Vec::new();
    {
        let mut state = connection.state.borrow_mut();
        state.phase = Phase::Ended(reason.1);
        state.end_all(&reason.0, &mut wakers);
    }
    wakers.into_iter().for_each(Waker::wake);
}

/// Connects as long as a request waits for it; `None`: none does any more.
async fn connect(
    connection: &SharedConnection,
    open: &OpenRequest,
) -> Option<Result<Box<OriginConnection>, ConnectError>> {
    let OpenRequest { address, local, tls, settings, .. } = open;
    let mut opening =
        pin!(OriginConnection::open(address, local.as_deref(), tls.as_ref(), settings));
    poll_fn(|context| {
        if let Poll::Ready(opened) = opening.as_mut().poll(context) {
            if let Some(tally) = &open.handshakes {
                count_handshake(tally, opened.as_ref().map(|connection| &connection.io));
            }
            return Poll::Ready(Some(opened));
        }
        let mut state = connection.state.borrow_mut();
        if state.seats == 0 {
            state.phase = Phase::Closing;
            return Poll::Ready(None);
        }
        state.set_driver(context);
        Poll::Pending
    })
    .await
}

struct Driver<'c> {
    connection: &'c Rc<SharedConnection>,
    /// The group's number.
    group: u64,
    origin: Box<OriginConnection>,
    /// `keepalive_timeout`.
    idle: Deadline,
    was_idle: bool,
    /// For the acknowledgement of our settings.
    unacknowledged: Deadline,
    /// The mistake of the origin that ends the connection.
    fault: Option<OriginFault>,
}

/// What an origin has done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginFault {
    /// An error of the protocol, or a flood; GOAWAY is in the output.
    Protocol,
    /// It has not acknowledged our settings in time (RFC 9113 section 6.5.3).
    SettingsTimeout,
}

impl<'c> Driver<'c> {
    fn new(
        connection: &'c Rc<SharedConnection>,
        group: u64,
        origin: Box<OriginConnection>,
    ) -> Driver<'c> {
        Driver {
            connection,
            group,
            origin,
            idle: Deadline::new(),
            was_idle: false,
            unacknowledged: Deadline::new(),
            fault: None,
        }
    }

    /// Ready when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<StreamEnd> {
        self.open(context);
        loop {
            let is_written = match self.poll_write(context) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(lost(format!("send() failed ({})", os_error(&error))));
                }
                Poll::Pending => false,
            };
            self.check_acknowledgement(context);
            if is_written && self.is_over() {
                return Poll::Ready(match self.fault {
                    Some(OriginFault::SettingsTimeout) => lost(UNACKNOWLEDGED.to_owned()),
                    _ => lost(CLOSED.to_owned()),
                });
            }
            if self.connection.state.borrow().core.output_is_full() {
                return Poll::Pending;
            }
            match self.poll_read(context) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => return Poll::Ready(end),
            }
        }
        self.poll_idle(context)
    }

    /// The connection is open: lets streams begin.
    fn open(&mut self, context: &Context<'_>) {
        let mut wakers = Vec::new();
        {
            let mut state = self.connection.state.borrow_mut();
            state.set_driver(context);
            if let Phase::Connecting = state.phase {
                state.phase = Phase::Open;
                state.received_at = self.origin.opened;
                wakers.append(&mut state.waiting);
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sends the output; ready when all of it has gone to the kernel.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wakers = Vec::new();
        let written = {
            let mut state = self.connection.state.borrow_mut();
            let written = write(&self.origin, &mut state, context);
            if !state.core.output_is_full() {
                wakers.append(&mut state.senders);
            }
            written
        };
        wakers.into_iter().for_each(Waker::wake);
        written
    }

    /// Reads once and passes the events on.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamEnd>> {
        let io = &self.origin.io;
        // No buffer is held while there is nothing to read.
        if let Err(error) = ready!(io.poll_readable(context)) {
            return Poll::Ready(Err(received(&error)));
        }
        let mut buffer = scratch::buffer();
        let count = match io.poll_read_append(context, &mut buffer) {
            Poll::Pending => {
                scratch::give_buffer(buffer);
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(received(&error))),
            Poll::Ready(Ok(count)) => count,
        };
        if count == 0 {
            scratch::give_buffer(buffer);
            return Poll::Ready(Err(lost(CLOSED.to_owned())));
        }
        let mut wakers = Vec::new();
        let end = {
            let mut state = self.connection.state.borrow_mut();
            state.received_at = clock::now();
            let since = state.received_at.saturating_duration_since(self.connection.begun);
            match count >= SLICED_FROM {
                true => {
                    let whole = Bytes::from(buffer);
                    take_events(&mut state, &whole, Some(&whole), since, &mut wakers)
                }
                false => {
                    let end = take_events(&mut state, &buffer, None, since, &mut wakers);
                    scratch::give_buffer(buffer);
                    end
                }
            }
        };
        wakers.into_iter().for_each(Waker::wake);
        if end.is_err() {
            self.fault = Some(OriginFault::Protocol);
        }
        Poll::Ready(end)
    }

    /// Lets no more streams begin where the origin has not acknowledged our settings within `*_read_timeout`. Those in
    /// progress go on: their own limits apply.
    fn check_acknowledgement(&mut self, context: &mut Context<'_>) {
        if self.unacknowledged.at().is_none() {
            return;
        }
        let state = self.connection.state.borrow_mut();
        if state.has_acknowledged {
            self.unacknowledged.clear();
        } else if self.unacknowledged.poll_elapsed(context).is_ready() {
            self.unacknowledged.clear();
            self.fault = Some(OriginFault::SettingsTimeout);
            drop(state);
            self.connection.retire();
        }
    }

    /// Returns whether the connection takes no more streams and has none.
    fn is_over(&self) -> bool {
        let state = self.connection.state.borrow();
        let keepalive = self.connection.limits.keepalive;
        let is_used_up = keepalive.is_none_or(|keepalive| {
            let age = clock::now().saturating_duration_since(self.connection.begun);
            state.taken >= keepalive.requests_max || age >= keepalive.age_max
        });
        state.seats == 0
            && (is_used_up || !matches!(state.phase, Phase::Open) || state.core.is_drained())
    }

    /// Ends a connection that has been idle for `keepalive_timeout`.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<StreamEnd> {
        let idle_since = self.connection.idle_since();
        let Some((since, keepalive)) = idle_since.zip(self.connection.limits.keepalive) else {
            self.idle.clear();
            self.was_idle = false;
            return Poll::Pending;
        };
        if !std::mem::replace(&mut self.was_idle, true) {
            self.connection.state.borrow_mut().core.release_memory();
            shared::trim(self.group, keepalive.idle_max);
        }
        if let Some(until) = since.checked_add(keepalive.idle_time_max) {
            self.idle.set(until);
        }
        ready!(self.idle.poll_elapsed(context));
        Poll::Ready(lost(CLOSED.to_owned()))
    }

    /// Logs a mistake of the origin where no request does: it has none.
    fn log(&self, open: &OpenRequest, end: &StreamEnd) {
        if self.fault.is_some() && self.connection.state.borrow().seats == 0 {
            let text =
                format!("{end} while keeping connection alive, upstream: \"{}\"", open.server);
            open.log.say(Level::Error, format_args!("{text}"));
        }
    }

    /// Says goodbye as far as the socket takes it at once.
    fn close(&mut self) {
        let mut state = self.connection.state.borrow_mut();
        match self.fault {
            Some(OriginFault::SettingsTimeout) => {
                state.core.abort(ErrorCode::SETTINGS_TIMEOUT);
            }
            Some(OriginFault::Protocol) | None => state.core.go_away(ErrorCode::NO_ERROR),
        }
        let _ = write(&self.origin, &mut state, &mut Context::from_waker(Waker::noop()));
    }
}

/// Larger reads are kept in their buffer, of which bodies are slices; smaller ones are copied.
const SLICED_FROM: usize = 8 * 1024;
const CLOSED: &str = "upstream prematurely closed connection";
const UNACKNOWLEDGED: &str = "upstream did not acknowledge SETTINGS in time (SETTINGS_TIMEOUT)";

fn lost(reason: String) -> StreamEnd {
    StreamEnd::Lost(reason.into())
}

fn received(error: &io::Error) -> StreamEnd {
    lost(format!("recv() failed ({})", os_error(error)))
}

fn write(
    origin: &OriginConnection,
    state: &mut State,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !state.core.output().is_empty() {
        let count = ready!(origin.io.poll_write(context, state.core.output()))?;
        state.core.output_sent(count);
    }
    origin.io.poll_flush(context)
}

/// Passes received bytes through the core. `whole` is the same bytes where bodies may keep slices of them.
fn take_events(
    state: &mut State,
    mut input: &[u8],
    whole: Option<&Bytes>,
    since: std::time::Duration,
    wakers: &mut Vec<Waker>,
) -> Result<(), StreamEnd> {
    loop {
        let before = input.len();
        match state.core.receive(&mut input, since) {
            Ok(None) => return Ok(()),
            Ok(Some(event)) => {
                let length = (before - input.len()) as u64;
                take_event(state, event, length, whole, wakers);
            }
            Err(error) => {
                return Err(lost(format!("upstream broke the HTTP/2 protocol: {error}")));
            }
        }
    }
}

fn take_event(
    state: &mut State,
    event: Event<'_>,
    length: u64,
    whole: Option<&Bytes>,
    wakers: &mut Vec<Waker>,
) {
    let State { core, slots, .. } = state;
    let find = |id| slots.binary_search_by_key(&id, |slot| slot.id);
    let (id, at) = match event {
        Event::Head { stream, .. }
        | Event::Interim { stream }
        | Event::Data { stream, .. }
        | Event::Trailers { stream }
        | Event::Malformed { stream, .. }
        | Event::Reset { stream, .. } => (stream, find(stream)),
        Event::Window { stream } if !stream.is_connection() => (stream, find(stream)),
        Event::Window { .. } => return state.wake_all(wakers),
        Event::Settings => {
            state.has_settings = true;
            wakers.append(&mut state.waiting);
            return state.wake_all(wakers);
        }
        Event::GoAway { .. } => return go_away(state, wakers),
        Event::Acknowledged => return state.has_acknowledged = true,
        Event::Pong { .. } => return,
    };
    let Ok(at) = at else { return };
    let slot = &mut slots[at];
    slot.received += length;
    match event {
        Event::Head { end, .. } => {
            slot.head = Some(compose(core.head()));
            slot.has_head = true;
            state.has_served = true;
            if end {
                slot.end(StreamEnd::Complete);
            }
        }
        Event::Interim { .. } if slot.wants_interim => slot.push_interim(compose(core.head())),
        Event::Interim { .. } => {}
        Event::Data { bytes, end, .. } => {
            slot.body.extend(piece(bytes, whole));
            if end {
                slot.end(StreamEnd::Complete);
            }
        }
        Event::Trailers { .. } => {
            slot.trailers = Some(std::mem::take(&mut core.head().headers));
            slot.end(StreamEnd::Complete);
        }
        Event::Malformed { fault, .. } => {
            core.reset(id, ErrorCode::PROTOCOL_ERROR);
            slot.end(StreamEnd::Malformed(fault));
        }
        Event::Reset { code, .. } => slot.end(match code {
            ErrorCode::REFUSED_STREAM if !slot.has_head => StreamEnd::Unprocessed,
            code => StreamEnd::Reset(code),
        }),
        _ => {}
    }
    wakers.extend(slot.take_waker());
}

/// Returns bytes of a body: a part of the `whole` input where they are many, else a copy; `None` without any.
fn piece(bytes: &[u8], whole: Option<&Bytes>) -> Option<Bytes> {
    match whole {
        _ if bytes.is_empty() => None,
        Some(whole) if bytes.len() >= SLICED_FROM => Some(whole.slice_ref(bytes)),
        _ => Some(Bytes::copy_from_slice(bytes)),
    }
}

/// Makes the head of a response.
fn compose(received: &mut tidegate_h2::Head) -> tidegate_codec::response::ResponseHead {
    let mut head = scratch::head();
    head.compose(Version::H2, received.status, &mut received.headers);
    head
}

/// The origin takes no new streams, and has not processed some of ours.
fn go_away(state: &mut State, wakers: &mut Vec<Waker>) {
    state.phase = Phase::Closing;
    let State { core, slots, .. } = state;
    for slot in slots.iter_mut().filter(|slot| core.is_unprocessed(slot.id)) {
        slot.end(StreamEnd::Unprocessed);
        wakers.extend(slot.take_waker());
    }
    wakers.append(&mut state.waiting);
}
