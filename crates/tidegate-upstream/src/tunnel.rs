//! A tunnel behind a 101 answer: bytes both ways until both sides are done or silent.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_core::body::Tunnel;
use tidegate_core::client::{ClientIo, Duplex};
use tidegate_core::error_log::Level;
use tidegate_rt::sync::ReadBuf;
use tidegate_rt::timer::Deadline;

use crate::h1::body::Upgraded;
use crate::io::Io;

/// Bytes of each direction that wait for the other side to take them.
const BUFFER_BYTES: usize = 16 * 1024;

/// Connects a client with an upgraded connection.
pub fn tunnel(upgraded: Upgraded) -> Tunnel {
    Box::new(move |client: ClientIo| Box::pin(relay(upgraded, client)))
}

/// One direction.
#[derive(Default)]
struct Flow {
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
    closed: bool,
    moved: u64,
}

impl Flow {
    fn with(bytes: &[u8]) -> Flow {
        Flow { buffer: bytes.to_vec(), ..Flow::default() }
    }

    fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn taken(&mut self, count: usize) {
        self.start += count;
        self.moved += count as u64;
        if self.start >= self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
    }
}

async fn relay(upgraded: Upgraded, client: ClientIo) {
    let Upgraded { connection, prefetched, settings, report, log, upstream, lease } = upgraded;
    let ClientIo { mut io, prefetched: from_client } = client;
    let mut up = Flow::with(&from_client);
    let mut down = Flow::with(&prefetched);
    let idle = Deadline::new();
    idle.set_after(settings.read_timeout);
    let result: io::Result<()> = poll_fn(|context| {
        loop {
            let moved = turn(&connection.io, &mut *io, &mut up, &mut down, context)?;
            if down.closed {
                return Poll::Ready(Ok(()));
            }
            if !moved {
                break;
            }
            idle.set_after(settings.read_timeout);
        }
        idle.poll_elapsed(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    })
    .await;
    if let Err(error) = result
        && error.kind() == io::ErrorKind::TimedOut
    {
        let message = "upstream timed out (110: Connection timed out)";
        log.write(Level::Error, message, "proxying upgraded connection", &upstream);
    }
    if let Some(attempt) = report.borrow_mut().last() {
        attempt.bytes_received += down.moved;
        attempt.bytes_sent += up.moved;
        attempt.response_length = down.moved;
        attempt.finished();
    }
    drop(lease);
}

/// Moves what can be moved now; `Ok(false)` when nothing could.
fn turn(
    origin: &Io,
    client: &mut dyn Duplex,
    up: &mut Flow,
    down: &mut Flow,
    context: &mut Context<'_>,
) -> io::Result<bool> {
    let mut moved = false;
    if !up.ended && up.pending().is_empty() {
        up.buffer.resize(BUFFER_BYTES, 0);
        let mut buffer = ReadBuf::new(&mut up.buffer);
        let read = Pin::new(&mut *client).poll_read(context, &mut buffer);
        let count = buffer.filled().len();
        up.buffer.truncate(count);
        if let Poll::Ready(read) = read {
            read?;
            up.ended = count == 0;
            moved = true;
        }
    }
    if !up.pending().is_empty() {
        if let Poll::Ready(written) = origin.poll_write(context, up.pending()) {
            up.taken(written?);
            moved = true;
        }
    } else if up.ended && !up.closed {
        up.closed = true;
        let _ = origin.poll_shutdown(context);
        moved = true;
    }
    if !down.ended && down.pending().is_empty() {
        down.buffer.clear();
        down.buffer.reserve(BUFFER_BYTES);
        if let Poll::Ready(read) = origin.poll_read_append(context, &mut down.buffer) {
            down.ended = read? == 0;
            moved = true;
        }
    }
    if !down.pending().is_empty() {
        if let Poll::Ready(written) = Pin::new(&mut *client).poll_write(context, down.pending()) {
            down.taken(written?);
            moved = true;
        }
    } else if down.ended && !down.closed {
        down.closed = true;
        moved = true;
    }
    // What does not fit now is tried again at the next turn.
    if let Poll::Ready(flushed) = origin.poll_flush(context) {
        flushed?;
    }
    if moved {
        let _ = Pin::new(&mut *client).poll_flush(context);
    }
    Ok(moved)
}
