//! What has been received, event by event.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::error_log::Level;
use tidegate_h3::{ConnectionError, ErrorCode, Event as CoreEvent, Fault, HeadFault};
use tidegate_quic::{
    Closed, ClosedBy, Connection, Direction, Event, Read, Served, StreamEnded, StreamId,
};
use tidegate_rt::{clock, share};

use super::closing::REASON;
use super::connection::{Ending, QuicLink};
use super::exchange;
use super::head;
use super::held::is_behind;
use super::stream::Stream;
use crate::tls::quic::HandshakeFailure;

/// Bytes that are read from a stream at once.
const READ_BYTES: usize = 16 * 1024;

impl Served for QuicLink {
    fn event(&self, quic: &Rc<Connection>, event: Event) {
        match event {
            Event::Handshake => self.handshake(),
            Event::Connected => {
                self.handshaking.take();
                self.handshake();
                if let Some(names) = self.names() {
                    names.count(&self.info());
                }
                self.send_own();
            }
            Event::Opened(direction) => {
                while let Some(StreamId(id)) = quic.accept(direction) {
                    if id & 2 == 0 {
                        self.incomplete.borrow_mut().push((id, clock::now()));
                    }
                    self.read(id);
                    // Of one-way streams a client may have few.
                    if share::is_used_up() && direction == Direction::Both {
                        quic.accept_later();
                        break;
                    }
                }
            }
            Event::Available(_) => self.send_own(),
            Event::Readable(StreamId(id)) => self.read(id),
            Event::Writable(StreamId(id)) => match self.stream(id) {
                Some(stream) => {
                    if let Some(place) = stream.place() {
                        stream.pump(&place);
                    }
                }
                None => self.send_own(),
            },
            Event::Stopped(StreamId(id), code) => {
                self.acknowledged(id);
                let now = self.age();
                let event = self.with_core(|core| core.stop_received(id, ErrorCode(code), now));
                self.core_event(event);
                if self.stream(id).is_none() {
                    // Nothing of it is sent any more: it ends with a reset (RFC 9000 section 3.5), and makes room for another.
                    self.quic.reset(StreamId(id), code);
                }
            }
            Event::Finished(StreamId(id)) => {
                self.acknowledged(id);
                self.rest();
            }
            Event::Closed(closed) => self.closed(&closed),
        }
    }
}

impl QuicLink {
    /// Returns the time since the connection began, from which the protocol's budgets count.
    fn age(&self) -> Duration {
        clock::now().saturating_duration_since(self.accepted)
    }

    fn acknowledged(&self, id: u64) {
        self.unacknowledged.borrow_mut().retain(|known| *known != id);
    }

    /// Reads a stream as far as there is room for what has arrived. A stream that is to be read because of what is read here
    /// comes behind it.
    pub(super) fn read(&self, id: u64) {
        if self.is_reading.replace(true) {
            let mut to_read = self.to_read.borrow_mut();
            if !to_read.contains(&id) {
                to_read.push(id);
            }
            return;
        }
        self.read_stream(id);
        loop {
            let next = self.to_read.borrow_mut().pop();
            match next {
                Some(id) => self.read_stream(id),
                None => break,
            }
        }
        self.is_reading.set(false);
        self.send_own();
    }

    fn read_stream(&self, id: u64) {
        match self.is_hq.get() {
            true => self.read_line(id),
            false => self.read_frames(id),
        }
    }

    fn read_frames(&self, id: u64) {
        while self.core.get().is_some() && self.ending.get() != Ending::Gone && self.may_read(id) {
            match self.quic.read(StreamId(id), READ_BYTES) {
                Ok(Read::Bytes(bytes)) => self.receive(id, bytes, false),
                Ok(Read::Last(bytes)) => return self.receive(id, bytes, true),
                Ok(Read::End) => return self.receive(id, Bytes::new(), true),
                Ok(Read::Blocked) | Err(StreamEnded::Closed) => return,
                Err(StreamEnded::ByPeer(code)) => {
                    let now = self.age();
                    let event =
                        self.with_core(|core| core.reset_received(id, ErrorCode(code), now));
                    return self.core_event(event);
                }
            }
        }
    }

    /// Whether there is room for more of a stream.
    fn may_read(&self, id: u64) -> bool {
        let is_held = self.held.borrow().iter().any(|(held, ..)| *held == id);
        !is_held && self.stream(id).is_none_or(|stream| stream.has_room())
    }

    /// Handles bytes of a stream; `end` where nothing follows them.
    fn receive(&self, id: u64, bytes: Bytes, end: bool) {
        if is_behind(&mut self.held.borrow_mut(), id, &bytes, end) {
            return;
        }
        let (mut rest, now) = (&bytes[..], self.age());
        loop {
            let received = self.with_core(|core| core.receive(id, &mut rest, end, now));
            match received {
                Some(Ok(Some(event))) => self.handle(event),
                Some(Ok(None)) | None => break,
                Some(Err(error)) => return self.fail(error),
            }
        }
        if self.with_core(|core| core.is_blocked(id)) == Some(true) {
            let rest = bytes.slice_ref(rest);
            self.held.borrow_mut().push((id, rest, end));
        }
    }

    fn core_event(&self, event: Option<Result<Option<CoreEvent<'static>>, ConnectionError>>) {
        match event {
            Some(Ok(Some(event))) => self.handle(event),
            Some(Ok(None)) | None => {}
            Some(Err(error)) => self.fail(error),
        }
        if !self.is_reading.get() {
            self.send_own();
        }
    }

    fn handle(&self, event: CoreEvent<'_>) {
        if let CoreEvent::Malformed { .. } | CoreEvent::Reset { .. } | CoreEvent::Refused { .. } =
            event
        {
            self.quic.note_vain();
        }
        match event {
            CoreEvent::Head { stream, end } => self.begin_request(stream, end, None),
            CoreEvent::Malformed { stream, fault } => match self.stream(stream) {
                Some(found) => found.inbox.borrow_mut().received_fault(fault),
                None => self.begin_request(stream, true, Some(fault)),
            },
            CoreEvent::Data { stream, bytes, end } => {
                if let Some(found) = self.stream(stream) {
                    found.received(bytes, end);
                }
            }
            CoreEvent::Trailers { stream } => {
                let trailers = self.with_core(|core| std::mem::take(&mut core.head().headers));
                if let (Some(found), Some(trailers)) = (self.stream(stream), trailers) {
                    found.inbox.borrow_mut().received_trailers(trailers);
                }
            }
            CoreEvent::Reset { stream, code } => match self.stream(stream) {
                Some(found) => found.leave(),
                None => self.close_stream(stream, code),
            },
            CoreEvent::Refused { stream, code } => {
                self.complete_head(stream);
                self.quic.stop(StreamId(stream), code.0);
                self.quic.reset(StreamId(stream), code.0);
                // It may have been the last one.
                self.rest();
            }
            CoreEvent::Stop { stream, code } => self.quic.stop(StreamId(stream), code.0),
            CoreEvent::Unblocked { stream } => self.unblocked(stream),
            CoreEvent::Priority { stream, .. } => self.prioritise(stream),
            CoreEvent::Settings | CoreEvent::GoAway { .. } => {}
        }
    }

    /// The insertions that a stream waited for are here: what was held of it goes on.
    fn unblocked(&self, id: u64) {
        let mut held = self.held.borrow_mut();
        let Some(at) = held.iter().position(|(held, ..)| *held == id) else { return };
        let (_, bytes, end) = held.swap_remove(at);
        drop(held);
        self.receive(id, bytes, end);
        self.read(id);
    }

    /// The head of a stream is no longer waited for.
    pub(super) fn complete_head(&self, id: u64) {
        self.incomplete.borrow_mut().retain(|(stream, _)| *stream != id);
    }

    /// Begins a request. Only one that waits gets a task.
    fn begin_request(&self, id: u64, end: bool, fault: Option<HeadFault>) {
        self.complete_head(id);
        let Some(me) = self.me.upgrade() else { return };
        let begun = head::begin(&self.front, &me, id, end, fault);
        self.start(&me, id, begun);
    }

    /// Polls a request for the first time.
    pub(super) fn start(
        &self,
        me: &Rc<QuicLink>,
        id: u64,
        begun: Option<(Rc<Stream>, exchange::Request)>,
    ) {
        let Some((stream, mut request)) = begun else {
            // The plan no longer has the listener: nothing is served on this connection any more.
            self.close_stream(id, ErrorCode::REQUEST_REJECTED);
            return self.go_away();
        };
        self.set_busy();
        self.prioritise_first(id);
        self.end_if_worn();
        self.send_own();
        let mut context = Context::from_waker(Waker::noop());
        let poll = || request.as_mut().poll(&mut context);
        match std::panic::catch_unwind(AssertUnwindSafe(poll)) {
            Ok(std::task::Poll::Ready(())) => {}
            Ok(std::task::Poll::Pending) => {
                self.add_stream(id, stream);
                tidegate_rt::spawn_local(exchange::in_task(me.clone(), id, request));
            }
            Err(panic) => self.panicked(id, &*panic),
        }
        share::spend(0);
    }

    /// The client has violated the protocol: the connection and all of its streams end.
    fn fail(&self, error: ConnectionError) {
        let text = format!("client sent invalid HTTP/3: {error}");
        self.log(Level::Info, &text);
        match error.0 {
            Fault::Flood(_) => self.hold(error.code()),
            _ => self.close(error.code(), REASON),
        }
    }

    /// Counts a handshake that ended before it was complete.
    fn count_failed(&self, closed: &Closed) {
        if let Some(names) = self.names() {
            names.count_failed(&self.info(), HandshakeFailure::of(closed));
        }
    }

    /// The connection has ended.
    fn closed(&self, closed: &Closed) {
        if self.handshaking.take().is_some() && closed.by != ClosedBy::Us {
            self.count_failed(closed);
        }
        match closed.by {
            ClosedBy::Us => {}
            // An application that ends without an error.
            ClosedBy::Peer(code) if code == ErrorCode::NO_ERROR.0 || code == 0 => {}
            ClosedBy::IdleTimeout => self.log(Level::Info, "quic client timed out"),
            _ => self.log(Level::Info, &format!("quic connection ended: {}", closed.reason)),
        }
        self.gone();
    }
}
