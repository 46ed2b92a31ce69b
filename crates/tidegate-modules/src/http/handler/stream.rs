//! A body that a handler writes while the client reads: chunks through a short queue, so that the handler's thread
//! waits for a slow client.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::timeline::{Cause, waits_for};
use tidegate_core::{Chunk, Exchange, Level};
use tidegate_handler::server::{self, Sink};
use tidegate_rt::mail::{MailSender, Mailbox, mailbox};
use tidegate_rt::timer::Deadline;
use tidegate_upstream::LogContext;

use super::serve::{AbandonGuard, HandlerTarget};

/// Chunks in the queue, of at most 64 kB each.
const PIECES_MAX: usize = 4;

/// The event loop's end of the queue.
pub(super) type BodyPieces = Mailbox<BodyPiece>;

pub(super) enum BodyPiece {
    Chunk(Chunk),
    End,
    /// The handler's function failed, with this error.
    Failed(String),
}

/// The handler's end of the queue.
pub(super) struct PieceSink(MailSender<BodyPiece>);

pub(super) fn pipe() -> (PieceSink, BodyPieces) {
    let (sender, pieces) = mailbox(PIECES_MAX);
    (PieceSink(sender), pieces)
}

type Write = Box<dyn FnOnce(&mut tidegate_handler::Writer<'_>) -> io::Result<()> + Send>;

impl PieceSink {
    /// Runs the function that writes the body.
    pub(super) fn run(mut self, write: Write) {
        let last = match server::run(write, &mut self) {
            Ok(()) => BodyPiece::End,
            Err(error) => BodyPiece::Failed(error.to_string()),
        };
        // Fails when the receiver is gone.
        let _ = self.0.send_blocking(last);
    }

    fn pass(&self, chunk: Chunk) -> io::Result<()> {
        let sent = self.0.send_blocking(BodyPiece::Chunk(chunk));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Sink for PieceSink {
    fn send(&mut self, piece: Bytes) -> io::Result<()> {
        self.pass(Chunk::Bytes(piece))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(Chunk::Flush)
    }
}

/// The body that the client gets.
pub(super) struct Streamed {
    pieces: BodyPieces,
    title: String,
    log: LogContext,
    timeout: Duration,
    /// Deadline of the next chunk; set while the client waits for it.
    deadline: Deadline,
    _waiting: AbandonGuard,
}

impl Streamed {
    pub(super) fn new(
        x: &Exchange,
        target: &HandlerTarget,
        pieces: BodyPieces,
        waiting: AbandonGuard,
    ) -> Streamed {
        Streamed {
            pieces,
            title: target.title.clone(),
            log: LogContext::of(x),
            timeout: target.timeout,
            deadline: Deadline::new(),
            _waiting: waiting,
        }
    }

    fn broken(&self, problem: &str) -> Option<Result<Chunk, BodyError>> {
        let message = format!("{} {problem} in the middle of its response", self.title);
        self.log.write(Level::Error, &message, "sending to client", "");
        Some(Err(BodyError::Incomplete))
    }
}

impl BodyStream for Streamed {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let Poll::Ready(piece) = self.pieces.poll_receive(context) else {
            if self.deadline.at().is_none() {
                self.deadline.set_after(self.timeout);
            }
            let late = self.deadline.poll_elapsed(context);
            waits_for(Cause::Handler);
            return late.map(|()| self.broken("is too slow"));
        };
        self.deadline.clear();
        Poll::Ready(match piece {
            Some(BodyPiece::Chunk(chunk)) => Some(Ok(chunk)),
            Some(BodyPiece::End) => None,
            Some(BodyPiece::Failed(error)) => self.broken(&format!("failed ({error})")),
            // The sender was dropped without a final message.
            None => self.broken("panicked"),
        })
    }
}
