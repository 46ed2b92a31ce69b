//! The driver of a connection: it reads, runs the streams that were woken, and sends.

use std::io;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tidegate_h2::{ErrorCode, StreamId};
use tidegate_rt::{clock, share};

use super::connection::Multiplexer;
use super::stream::{Piece, Stream};
use super::table::{Request, Table};
use crate::action::ConnectionAction;
use crate::front::Front;
use crate::link::Link;
use crate::task;

/// Bytes read from the socket at once.
const READ_BYTES: usize = 16 * 1024;

/// Whether the connection can go on.
///
/// ```text
///   Open ── the client closed, the socket broke, send_timeout ──▶ Gone
///     └──── an error of the protocol, GOAWAY is in the output ──▶ Failed ──▶ Gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Open,
    /// The output is sent, and the connection ends with the last stream.
    Failed,
    /// Nothing can be sent: the connection ends with the last stream, as the action says.
    Gone(ConnectionAction),
}

/// The requests in progress on a connection, and its socket.
pub(super) struct Driver {
    pub(super) front: Rc<Front>,
    pub(super) link: Rc<Link>,
    pub(super) multiplexer: Rc<Multiplexer>,
    pub(super) table: Table,
    pub(super) condition: Condition,
    /// The graceful end was announced.
    pub(super) is_announced: bool,
    /// Since when the socket takes no output.
    pub(super) blocked_since: Option<Instant>,
    /// The head that is incomplete has taken too long: its stream was reset.
    pub(super) gave_up_head: bool,
    /// Since when a head, or the client's preface, is incomplete.
    pub(super) incomplete_since: Option<Instant>,
    /// Until when nothing is read: the client is suspect.
    pub(super) slow_until: Option<Instant>,
    /// The connection ends because of a flood.
    pub(super) is_flooded: bool,
    /// Slots that were woken; kept for its memory.
    woken: Vec<u32>,
}

/// Serves a connection until it is idle or ends.
///
/// Dropped at its await, it drops the requests in progress unlogged, and the connection closes.
pub(crate) async fn serve(front: Rc<Front>, link: Rc<Link>) -> ConnectionAction {
    let Some(multiplexer) = link.multiplexer().cloned() else { return ConnectionAction::Close };
    link.set_serving();
    multiplexer.lend(front.h2_buffers());
    let mut driver = Driver {
        front,
        link,
        multiplexer,
        table: Table::default(),
        condition: Condition::Open,
        is_announced: false,
        gave_up_head: false,
        blocked_since: None,
        incomplete_since: None,
        slow_until: None,
        is_flooded: false,
        woken: Vec::new(),
    };
    driver.configure();
    let action = std::future::poll_fn(|context| driver.run(context)).await;
    driver.multiplexer.wakes.pause();
    driver.front.give_back_input(driver.link.received.take());
    if let Some(buffers) = driver.multiplexer.take_back() {
        driver.front.give_back_h2_buffers(buffers);
    }
    if action == ConnectionAction::Idle {
        driver.link.set_idle(clock::now());
    }
    action
}

impl Driver {
    /// Runs until nothing is left to do now.
    ///
    /// Invariant: when it returns pending, the socket has the task's waker for what it waits for, each waiting stream
    /// has its own, and no stream is in the list of woken ones.
    fn run(&mut self, context: &mut Context<'_>) -> Poll<ConnectionAction> {
        self.multiplexer.wakes.begin(context);
        loop {
            self.obey();
            self.run_woken();
            let mut moved = self.read(context);
            moved |= self.pump();
            moved |= self.flush(context);
            let before = self.condition;
            if let Some(action) = self.conclude() {
                return Poll::Ready(action);
            }
            if moved || before != self.condition {
                if share::poll(context).is_pending() {
                    self.multiplexer.wakes.pause();
                    return Poll::Pending;
                }
            } else if self.multiplexer.wakes.end() {
                self.give_back_input();
                if !self.wait(context) {
                    return Poll::Pending;
                }
                self.multiplexer.wakes.begin(context);
            }
        }
    }

    fn give_back_input(&self) {
        let mut received = self.link.received.borrow_mut();
        if received.is_empty() && received.capacity() > 0 {
            self.front.give_back_input(std::mem::take(&mut received));
        }
    }

    /// Reads what has arrived, as long as there is room for what it may cause. Returns whether something was received.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        loop {
            if self.condition != Condition::Open
                || self.multiplexer.is_full()
                || self.slow_until.is_some()
            {
                return moved;
            }
            if !self.link.received.borrow().is_empty() {
                moved = true;
                self.receive();
                if self.slow_until.is_some() || self.condition != Condition::Open {
                    return moved;
                }
                if share::poll(context).is_pending() || !self.link.received.borrow().is_empty() {
                    return moved;
                }
            }
            match self.fill(context) {
                Poll::Pending => return moved,
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.client_left(ConnectionAction::Close);
                    return true;
                }
                Poll::Ready(Ok(_)) => moved = true,
            }
            // What a read did not fill has emptied the socket: it is asked again once all of that is handled.
            if !self.link.unread.get() {
                self.receive();
                return true;
            }
        }
    }

    fn fill(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut input = self.link.received.borrow_mut();
        if input.capacity() == 0 {
            *input = self.front.input();
        }
        input.reserve(READ_BYTES);
        let room = input.capacity() - input.len();
        let read = self.link.io.poll_read_append(context, &mut input);
        if let Poll::Ready(Ok(count)) = &read {
            self.link.unread.set(self.link.io.may_have_more(*count == room));
        }
        read
    }

    /// Polls the requests whose streams were woken.
    pub(super) fn run_woken(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        self.multiplexer.wakes.take(&mut woken);
        for slot in woken.drain(..) {
            let Some((id, mut request, waker)) = self.table.take(slot) else { continue };
            match self.poll(id, &mut request, &waker) {
                Poll::Ready(()) => self.table.remove(slot),
                Poll::Pending => self.table.put(slot, request),
            }
            share::spend(0);
        }
        self.woken = woken;
    }

    /// Polls a request whose head was just received: it gets a place in the table only if it waits.
    pub(super) fn start(&mut self, id: StreamId, stream: Rc<Stream>, mut request: Request) {
        if self.poll(id, &mut request, Waker::noop()).is_pending() {
            self.table.add(id, stream, request, &self.multiplexer.wakes);
        }
        share::spend(0);
    }

    /// Polls a request. A panic ends its stream alone.
    fn poll(&self, id: StreamId, request: &mut Request, waker: &Waker) -> Poll<()> {
        let mut context = Context::from_waker(waker);
        let poll = || request.as_mut().poll(&mut context);
        match std::panic::catch_unwind(AssertUnwindSafe(poll)) {
            Ok(polled) => polled,
            Err(panic) => {
                task::log_panic(&self.front, &self.link, &*panic);
                self.multiplexer.close(id, ErrorCode::INTERNAL_ERROR);
                Poll::Ready(())
            }
        }
    }

    /// Moves bodies into the output, in the order of priorities, as long as windows and output have room. A stream whose
    /// piece has left is run at once: what it sends next comes before what is less urgent.
    fn pump(&mut self) -> bool {
        let mut moved = false;
        while !self.multiplexer.is_full() {
            let Some(id) = self.multiplexer.core().next_to_send() else { break };
            moved = true;
            if self.send_piece(id) {
                self.run_woken();
            }
        }
        moved
    }

    /// Moves one frame of a stream into the output. Returns whether the stream was woken: it has nothing more to send
    /// now.
    fn send_piece(&self, id: StreamId) -> bool {
        let multiplexer = &self.multiplexer;
        let Some(stream) = self.table.stream(id) else {
            multiplexer.core().want(id, false);
            return false;
        };
        let mut outbox = stream.outbox.borrow_mut();
        let chunk = outbox.chunk_bytes;
        let sent = match &mut outbox.piece {
            Piece::None | Piece::Hungry => None,
            Piece::Bytes(bytes, ends) => {
                let most = multiplexer.core().sendable(id).min(chunk) as usize;
                let piece = bytes.split_to(bytes.len().min(most));
                let (count, is_last) = (piece.len() as u64, bytes.is_empty());
                let sent = multiplexer.send_data(id, piece, *ends && is_last);
                sent.ok().filter(|()| most > 0).map(|()| (count, is_last))
            }
        };
        if let Some((count, _)) = sent {
            outbox.count(count);
        }
        outbox.progress = Some(clock::now());
        let is_over = sent.is_none_or(|(_, is_last)| is_last);
        if is_over {
            outbox.piece = Piece::None;
            multiplexer.core().want(id, false);
            if let Some(sender) = outbox.sender.take() {
                sender.wake();
            }
        }
        is_over
    }

    /// Sends the output. Returns whether something was sent.
    fn flush(&mut self, context: &mut Context<'_>) -> bool {
        if matches!(self.condition, Condition::Gone(_)) {
            return false;
        }
        let mut moved = false;
        loop {
            match self.multiplexer.poll_send(&self.link.io, context) {
                Poll::Ready(Ok(count)) => {
                    self.blocked_since = None;
                    if count == 0 {
                        return moved;
                    }
                    moved = true;
                }
                Poll::Ready(Err(_)) => {
                    self.client_left(ConnectionAction::Close);
                    return true;
                }
                Poll::Pending => {
                    self.blocked_since.get_or_insert_with(clock::now);
                    return moved;
                }
            }
        }
    }
}
