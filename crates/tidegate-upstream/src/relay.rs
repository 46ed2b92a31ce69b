//! Bytes both ways between a client and an origin: tunnels behind a 101 response, and TCP sessions.
//!
//! Each direction has one buffer: nothing more is read from one side until the other has taken the buffered bytes. So
//! a slow side slows down the fast one, and the memory used is limited to the two buffers.
//!
//! A write fails when its receiver has reset the connection, which it does when it closes without having read
//! everything. The bytes that the receiver sent before are delivered first: the relay waits for their end, which the
//! kernel reports at once.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tidegate_core::client::ByteStream;
use tidegate_core::pace::{GrantInterval, Rate};
use tidegate_rt::share;
use tidegate_rt::timer::Deadline;

use crate::Io;

/// The condition that ends a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCondition {
    /// The origin's end; the client's is passed on.
    Origin,
    /// The end of either side, when its bytes have been delivered.
    Either,
    /// The ends of both sides; each is passed on (`proxy_half_close on`).
    Both,
}

/// The end of a side that has reset its connection is known at once; this is the longest wait for it where a write
/// failed for another reason.
const LAST_READ: Duration = Duration::from_secs(1);

/// The options of a relay.
#[derive(Clone, Copy, Debug)]
pub struct RelayOptions {
    /// Bytes of each direction's buffer.
    pub buffer_bytes: usize,
    /// Longest time without a byte in either direction.
    pub idle: Duration,
    /// The condition that ends it.
    pub closing: EndCondition,
}

/// The reason why a relay ended.
#[derive(Debug)]
pub enum RelayEnd {
    /// The client or the origin has ended.
    Done {
        /// It was the client.
        client: bool,
    },
    /// No byte moved within the idle time.
    TimedOut,
    /// Reading or writing failed.
    Failed {
        /// It was on the client's side.
        client: bool,
        /// It was reading, not writing.
        reading: bool,
        /// The operating system's error.
        error: io::Error,
    },
}

/// One direction.
pub struct Direction {
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
    closed: bool,
    /// Bytes read from its source, without those pending at the start.
    pub read: u64,
    /// Bytes delivered.
    pub moved: u64,
    /// Called when the first byte is read.
    pub on_first: Option<Box<dyn FnOnce()>>,
    rate: Option<Rate>,
    /// The rate limit delays the next read.
    held: bool,
}

impl Direction {
    /// Makes a direction with bytes pending for delivery. `rate`: most bytes a second from `now` on, 0 for no limit;
    /// `now` is exact.
    pub fn new(pending: Vec<u8>, rate: u64, now: Instant) -> Direction {
        Direction {
            buffer: pending,
            start: 0,
            ended: false,
            closed: false,
            read: 0,
            moved: 0,
            on_first: None,
            rate: Rate::new(rate, GrantInterval::Seconds, now),
            held: false,
        }
    }

    fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Returns whether bytes are pending, or the rate limit delays reading.
    fn waits(&self) -> bool {
        self.held || !self.pending().is_empty()
    }

    fn taken(&mut self, count: usize) {
        self.start += count;
        self.moved += count as u64;
        if self.start >= self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
    }

    /// Returns how many bytes may be read now; pending while the rate limit delays reading.
    fn poll_allowance(&self, context: &mut Context<'_>, room: usize) -> Poll<usize> {
        let Some(rate) = &self.rate else { return Poll::Ready(room) };
        let allowed = ready!(rate.poll_allowance(context, self.read));
        Poll::Ready(room.min(usize::try_from(allowed).unwrap_or(room)))
    }

    /// Reads if nothing is pending; returns whether bytes (or the end) arrived.
    fn fill(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        read: impl FnOnce(&mut Context<'_>, &mut Vec<u8>) -> Poll<io::Result<usize>>,
    ) -> io::Result<bool> {
        if self.ended || !self.pending().is_empty() {
            return Ok(false);
        }
        let allowance = self.poll_allowance(context, room);
        self.held = allowance.is_pending();
        let Poll::Ready(room) = allowance else { return Ok(false) };
        if self.buffer.capacity() == 0 {
            self.buffer = SPARE.take();
        }
        self.buffer.clear();
        if self.buffer.capacity() > room {
            // A read fills all capacity.
            self.buffer.shrink_to(room);
        }
        self.buffer.reserve_exact(room);
        let Poll::Ready(count) = read(context, &mut self.buffer) else {
            // An idle direction holds no memory.
            SPARE.set(std::mem::take(&mut self.buffer));
            return Ok(false);
        };
        let count = count?;
        self.ended = count == 0;
        if count > 0
            && let Some(callback) = self.on_first.take()
        {
            callback();
        }
        self.read += count as u64;
        Ok(true)
    }
}

thread_local! {
    /// The buffer for the thread's next read.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Relays until the end condition of the options.
///
/// A direction goes through reading, delivering, `ended` (its source has ended), `closed` (the end was passed on,
/// where it is to be). Each direction has one buffer, which is empty whenever it reads. A failed write ends its
/// direction; the other one continues as `broken` until its sender's last bytes are delivered, then the relay ends
/// with the write's error.
///
/// Dropped at its one await, both sockets remain open with their owner; bytes that were read and not delivered are in
/// `up` and `down`, and lost with them.
pub async fn relay(
    client: &dyn ByteStream,
    origin: &Io,
    up: &mut Direction,
    down: &mut Direction,
    options: RelayOptions,
) -> RelayEnd {
    let idle = Deadline::new();
    idle.set_after(options.idle);
    let mut pair = RelayPair { client, origin, up, down, options, broken: None };
    poll_fn(|context| {
        while share::poll(context).is_ready() {
            match pair.step(context) {
                Err(end) => return Poll::Ready(end),
                // A limit on the rate holds bytes back: that is no silence.
                Ok(false) if pair.up.held || pair.down.held => {
                    idle.set_after(pair.time_left());
                    return Poll::Pending;
                }
                Ok(false) => return idle.poll_elapsed(context).map(|()| pair.broken_or_silent()),
                Ok(true) => idle.set_after(pair.time_left()),
            }
        }
        Poll::Pending
    })
    .await
}

struct RelayPair<'r> {
    client: &'r dyn ByteStream,
    origin: &'r Io,
    up: &'r mut Direction,
    down: &'r mut Direction,
    options: RelayOptions,
    /// A failed write: its direction has ended, and the other one ends with the last bytes of its sender.
    broken: Option<FailedWrite>,
}

/// A failed write.
struct FailedWrite {
    /// It was to the client, not to the origin.
    client: bool,
    error: io::Error,
}

impl RelayPair<'_> {
    /// Moves the bytes that can be moved now; `Ok(false)` when there were none.
    fn step(&mut self, context: &mut Context<'_>) -> Result<bool, RelayEnd> {
        if self.broken.is_some() {
            return self.last_step(context);
        }
        let step = self.both(context);
        let Err(RelayEnd::Failed { client, reading: false, error }) = step else { return step };
        self.broken = Some(FailedWrite { client, error });
        Ok(true)
    }

    /// Moves both directions; returns the end of the relay when its condition is met.
    fn both(&mut self, context: &mut Context<'_>) -> Result<bool, RelayEnd> {
        let up = self.upward(context)?;
        let down = self.downward(context)?;
        let flushed = self.flush(context)?;
        match self.end() {
            Some(end) if flushed => Err(end),
            _ => Ok(up || down),
        }
    }

    /// Moves the bytes that the failed side has sent; returns the error when all of them are delivered, or cannot be.
    fn last_step(&mut self, context: &mut Context<'_>) -> Result<bool, RelayEnd> {
        let from_client = self.broken.as_ref().is_some_and(|broken| broken.client);
        let moved = match from_client {
            true => self.upward(context),
            false => self.downward(context),
        };
        let flow = if from_client { &self.up } else { &self.down };
        // An error ends this direction as well.
        if let Ok(moved) = moved
            && (moved || !flow.ended || !flow.pending().is_empty())
        {
            return Ok(moved);
        }
        let flush = match from_client {
            true => self.origin.poll_flush(context),
            false => self.client.poll_flush(context),
        };
        if flush.is_ready() { Err(self.broken_or_silent()) } else { Ok(false) }
    }

    /// Returns the time left without a byte.
    fn time_left(&self) -> Duration {
        let Some(broken) = &self.broken else { return self.options.idle };
        let flow = if broken.client { &self.up } else { &self.down };
        match flow.waits() {
            true => self.options.idle,
            false => self.options.idle.min(LAST_READ),
        }
    }

    /// Returns why the relay ends now that no byte moves.
    fn broken_or_silent(&mut self) -> RelayEnd {
        match self.broken.take() {
            Some(FailedWrite { client, error }) => failed(client, false, error),
            None => RelayEnd::TimedOut,
        }
    }

    /// Moves bytes from the client to the origin.
    fn upward(&mut self, context: &mut Context<'_>) -> Result<bool, RelayEnd> {
        let room = self.options.buffer_bytes;
        let client = self.client;
        let read = self.up.fill(context, room, |context, into| client.poll_read(context, into));
        let mut moved = read.map_err(|error| failed(true, true, error))?;
        if !self.up.pending().is_empty() {
            if let Poll::Ready(written) = self.origin.poll_write(context, self.up.pending()) {
                self.up.taken(written.map_err(|error| failed(false, false, error))?);
                moved = true;
            }
        } else if self.up.ended && !self.up.closed {
            let passed_on = self.options.closing != EndCondition::Either;
            if !passed_on || self.origin.poll_shutdown(context).is_ready() {
                self.up.closed = true;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Moves bytes from the origin to the client.
    fn downward(&mut self, context: &mut Context<'_>) -> Result<bool, RelayEnd> {
        let room = self.options.buffer_bytes;
        let origin = self.origin;
        let read =
            self.down.fill(context, room, |context, into| origin.poll_read_append(context, into));
        let mut moved = read.map_err(|error| failed(false, true, error))?;
        if !self.down.pending().is_empty() {
            if let Poll::Ready(written) = self.client.poll_write(context, self.down.pending()) {
                self.down.taken(written.map_err(|error| failed(true, false, error))?);
                moved = true;
            }
        } else if self.down.ended && !self.down.closed {
            let passed_on = self.options.closing == EndCondition::Both;
            if !passed_on || self.client.poll_shutdown(context).is_ready() {
                self.down.closed = true;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Flushes written bytes to the kernel; those that do not fit now are tried again later.
    fn flush(&mut self, context: &mut Context<'_>) -> Result<bool, RelayEnd> {
        let flushed = |flush: Poll<io::Result<()>>, client| match flush {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => Err(failed(client, false, error)),
        };
        let origin = flushed(self.origin.poll_flush(context), false)?;
        Ok(flushed(self.client.poll_flush(context), true)? && origin)
    }

    fn end(&self) -> Option<RelayEnd> {
        let (client, origin) = (self.up.closed, self.down.closed);
        let over = match self.options.closing {
            EndCondition::Origin => origin,
            EndCondition::Either => client || origin,
            EndCondition::Both => client && origin,
        };
        over.then_some(RelayEnd::Done { client })
    }
}

fn failed(client: bool, reading: bool, error: io::Error) -> RelayEnd {
    RelayEnd::Failed { client, reading, error }
}
