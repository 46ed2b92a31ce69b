//! The state of a shared connection, between its driver and its streams.
//!
//! ```text
//! Connecting ── connected ──> Open ── GOAWAY of either side, `keepalive_*`, silence ──> Closing ── no streams ──┐
//!     │ refused, late, or no request waits          │ closed, broken, an error of the protocol                ▼
//!     └──> Ended(why) <───────────────────────────────┴────────────────────────────────────────────────────── Ended
//! ```
//! Invariant: a seat is counted from its making to its drop, a stream belongs to a seat, and `slots` are the streams
//! that the core has, by number. Only the driver moves the phase to `Open` and `Ended`.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tidegate_h2::frame::FRAME_BYTES_LIMIT;
use tidegate_h2::{Client, Config, Connection, ErrorCode, StreamId};
use tidegate_rt::clock;

use super::slot::{Slot, StreamEnd};
use super::stream::SeatError;
use super::{STREAM_WINDOW, STREAMS_MAX};
use crate::connection::ConnectError;
use crate::peers::Keepalive;

/// The step that a connection has reached.
#[derive(Clone)]
pub(super) enum Phase {
    Connecting,
    Open,
    /// It takes no new streams.
    Closing,
    /// It is over; with the reason if it was never open.
    Ended(Option<Rc<ConnectError>>),
}

/// The limits of a connection's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// `None`: it is for one request.
    pub keepalive: Option<Keepalive>,
    /// Bytes of the largest head.
    pub head_bytes_max: usize,
}

/// A connection to an origin with several streams; shared by its driver, its pool and its streams.
pub(crate) struct SharedConnection {
    pub(super) state: RefCell<State>,
    pub(super) limits: ConnectionLimits,
    /// When it was asked for.
    pub(super) begun: Instant,
}

pub(super) struct State {
    pub phase: Phase,
    pub core: Connection<Client>,
    /// Streams by their numbers.
    pub slots: Vec<Slot>,
    /// Requests that wait for the connection or have a stream on it.
    pub seats: u32,
    /// Seats so far, for `keepalive_requests`.
    pub taken: u64,
    /// The origin's settings have been received: its limit on streams is known.
    pub has_settings: bool,
    /// The origin has acknowledged our settings.
    pub has_acknowledged: bool,
    /// A stream has received a head: the connection has worked.
    pub has_served: bool,
    /// When bytes were received last.
    pub received_at: Instant,
    /// When the last seat was given back; `None` while there are any.
    pub idle_since: Option<Instant>,
    driver: Option<Waker>,
    /// Tasks that wait for a seat to be ready.
    pub waiting: Vec<Waker>,
    /// Tasks that wait for room in the output, in the order in which they came to wait.
    pub senders: Vec<Waker>,
}

impl SharedConnection {
    pub(crate) fn new(limits: ConnectionLimits) -> Rc<SharedConnection> {
        let head_bytes = u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX);
        let config = Config {
            streams_max: STREAMS_MAX,
            // Bodies are passed on as they arrive; heads and all other frames have limits of their own.
            frame_bytes_max: FRAME_BYTES_LIMIT,
            stream_window: STREAM_WINDOW,
            // Never reached: a reader that is slow stops its own stream alone.
            unread_bytes_max: STREAMS_MAX.saturating_mul(STREAM_WINDOW),
            list_bytes_max: head_bytes,
            block_bytes_max: head_bytes,
            // Names of origins' fields are passed on as in HTTP/1.
            ignore_odd_names: false,
            ..Config::default()
        };
        let now = clock::now();
        Rc::new(SharedConnection {
            limits,
            begun: now,
            state: RefCell::new(State {
                phase: Phase::Connecting,
                core: Connection::<Client>::new(config.shared()),
                slots: Vec::new(),
                seats: 0,
                taken: 0,
                has_settings: false,
                has_acknowledged: false,
                has_served: false,
                received_at: now,
                idle_since: None,
                driver: None,
                waiting: Vec::new(),
                senders: Vec::new(),
            }),
        })
    }

    /// Returns the number of seats in use if another one can be taken.
    pub(crate) fn room(&self, now: Instant) -> Option<u32> {
        let state = self.state.borrow();
        let keepalive = self.limits.keepalive?;
        let is_usable = matches!(state.phase, Phase::Connecting | Phase::Open)
            && state.taken < keepalive.requests_max.max(1)
            && now.saturating_duration_since(self.begun) < keepalive.age_max;
        (is_usable && state.seats < state.seats_max()).then_some(state.seats)
    }

    /// Returns the bytes of the largest head that it takes.
    pub(crate) fn head_bytes_max(&self) -> usize {
        self.limits.head_bytes_max
    }

    /// Returns since when it has had no seats.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.state.borrow().idle_since
    }

    /// Takes no new streams from now on, and ends without any.
    pub(crate) fn retire(&self) {
        let mut state = self.state.borrow_mut();
        if !matches!(state.phase, Phase::Ended(_)) {
            state.phase = Phase::Closing;
        }
        state.wake_driver();
        // They begin on another connection.
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Takes no new streams if nothing was received since a stream has waited: an origin that responds to none of its
    /// streams would keep others waiting, too.
    pub(super) fn suspect(&self, since: Instant) {
        let is_silent = self.state.borrow().received_at <= since;
        if is_silent {
            self.retire();
        }
    }

    pub(super) fn sit(&self) {
        let mut state = self.state.borrow_mut();
        state.seats += 1;
        state.taken += 1;
        state.idle_since = None;
    }

    /// Gives a seat back, with its stream.
    pub(super) fn leave(&self, stream: Option<StreamId>) {
        let mut state = self.state.borrow_mut();
        state.seats = state.seats.saturating_sub(1);
        if state.seats == 0 {
            state.idle_since = Some(clock::now());
        }
        if let Some(id) = stream {
            state.core.close(id, ErrorCode::CANCEL);
            if let Ok(at) = state.find(id) {
                state.slots.remove(at);
            }
        }
        state.wake_driver();
        // Without the origin's settings one stream is sent at a time: it is the next one's turn.
        let waiting = match state.has_settings {
            true => Vec::new(),
            false => std::mem::take(&mut state.waiting),
        };
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Polls until a stream may begin.
    ///
    /// Until the origin's limit is known only one stream is sent, so that none has to be refused.
    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), SeatError>> {
        let mut state = self.state.borrow_mut();
        match &state.phase {
            Phase::Connecting => {}
            Phase::Closing | Phase::Ended(None) => return Poll::Ready(Err(SeatError::Full)),
            Phase::Ended(Some(error)) => {
                return Poll::Ready(Err(SeatError::Connect(error.clone())));
            }
            Phase::Open => match state.core.may_request() {
                Ok(()) if state.has_settings || state.slots.is_empty() => {
                    return Poll::Ready(Ok(()));
                }
                Ok(()) => {}
                Err(_) => return Poll::Ready(Err(SeatError::Full)),
            },
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl State {
    /// Returns the most seats.
    fn seats_max(&self) -> u32 {
        let allowed = if self.has_settings { self.core.peer().streams_max } else { None };
        allowed.unwrap_or(STREAMS_MAX).min(STREAMS_MAX)
    }

    pub(super) fn find(&self, id: StreamId) -> Result<usize, usize> {
        self.slots.binary_search_by_key(&id, |slot| slot.id)
    }

    pub(super) fn slot(&mut self, id: StreamId) -> Option<&mut Slot> {
        let at = self.find(id).ok()?;
        self.slots.get_mut(at)
    }

    /// Lets the driver send what commands have written. It runs behind the present task.
    pub(super) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    pub(super) fn set_driver(&mut self, context: &Context<'_>) {
        match &mut self.driver {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
    }

    /// Ends all streams that are not complete, and returns the wakers of all tasks that wait.
    pub(super) fn end_all(&mut self, why: &StreamEnd, wakers: &mut Vec<Waker>) {
        for slot in &mut self.slots {
            slot.end(why.clone());
            wakers.extend(slot.take_waker());
        }
        wakers.append(&mut self.waiting);
        wakers.append(&mut self.senders);
    }

    /// Returns the wakers of all tasks that wait for room or a window.
    pub(super) fn wake_all(&mut self, wakers: &mut Vec<Waker>) {
        wakers.append(&mut self.senders);
        wakers.extend(self.slots.iter_mut().filter_map(Slot::take_waker));
    }
}
