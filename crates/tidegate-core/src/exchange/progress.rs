//! What logs tell of a request: what is being done, since when, and what has been sent.

use std::time::Instant;

use tidegate_rt::clock;
use tidegate_rt::sync::oneshot;

use super::recycle::{Buffer, recycled};

/// What is being done for a request.
pub struct Progress {
    /// For error log lines: "while …".
    pub action: &'static str,
    /// Origin in use, for error log lines.
    pub upstream: String,
    /// When the request's first byte came.
    pub started: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { action: FIRST_ACTION, upstream: String::new(), started: clock::exact_now() }
    }
}

impl Buffer for Progress {
    fn empty(&mut self) {
        let Progress { action, upstream, started } = self;
        *action = FIRST_ACTION;
        upstream.clear();
        // The exact time is set when the next request's first byte is there.
        *started = clock::now();
    }
}

impl Progress {
    /// The same, for another exchange of the same request.
    pub(crate) fn fork(&self) -> Progress {
        let Progress { action, upstream: _, started } = *self;
        Progress { action, upstream: String::new(), started }
    }
}

/// What every request begins with.
pub(super) const FIRST_ACTION: &str = "reading client request line";

/// What was received and sent, as the log tells it.
#[derive(Default)]
pub struct Outcome {
    /// Bytes sent including the head: `$bytes_sent`.
    pub bytes_sent: u64,
    /// `$body_bytes_sent`.
    pub body_bytes_sent: u64,
    /// Bytes of this request's head.
    pub request_length: u64,
    /// The response was sent whole: `$request_completion` is `OK`. A boolean, as the variable is.
    pub complete: bool,
    /// The request had arrived, at least in part, before the response to the one before was sent: `$pipe`. A boolean,
    /// as the variable is.
    pub pipelined: bool,
    /// The response's body was sent in chunks: `$sent_http_transfer_encoding`. A boolean, as the variable is.
    pub chunked: bool,
    /// Ends when a log line that a pool's thread was given is written: the connection is closed behind that.
    pub logging: Option<oneshot::Receiver<()>>,
}

recycled!(Outcome:
    keeps { }
    renews { bytes_sent, body_bytes_sent, request_length, complete, pipelined, chunked, logging }
);
