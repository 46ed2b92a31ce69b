//! The data of a request for its logs: the action in progress, its start, and the bytes sent.

use std::rc::Rc;
use std::time::Instant;

use tidegate_rt::clock;
use tidegate_rt::sync::oneshot;

use crate::error_log::LogTags;

use super::recycle::{Buffer, recycled};

/// The action in progress for a request.
pub struct Progress {
    /// The action for error log lines: "while …"; empty for none.
    pub action: &'static str,
    /// The origin in use, for error log lines; empty for none.
    pub upstream: String,
    /// When the request's first byte arrived.
    pub started: Instant,
    /// The tags of the location for error log lines.
    pub tags: Option<Rc<LogTags>>,
    pub(crate) evaluating: Evaluating,
}

/// The variables that are being evaluated, each for the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluating {
    /// How many they are.
    Depth(u8),
    /// They were a circle: no further one has a value until the first of them is done. Otherwise two references to a variable
    /// in its own value would be followed at each depth.
    Circle,
}

impl Default for Evaluating {
    fn default() -> Evaluating {
        Evaluating::Depth(0)
    }
}

impl Default for Progress {
    fn default() -> Progress {
        let started = clock::exact_now();
        Progress {
            action: FIRST_ACTION,
            upstream: String::new(),
            started,
            tags: None,
            evaluating: Evaluating::default(),
        }
    }
}

impl Buffer for Progress {
    fn empty(&mut self) {
        let Progress { action, upstream, started, tags, evaluating } = self;
        *evaluating = Evaluating::default();
        *action = FIRST_ACTION;
        *tags = None;
        upstream.clear();
        // The exact time is set when the next request's first byte arrives.
        *started = clock::now();
    }
}

impl Progress {
    /// Copies action and start for another exchange of the same request.
    pub(crate) fn fork(&self) -> Progress {
        let Progress { action, upstream: _, started, tags: _, evaluating: _ } = *self;
        Progress { action, started, ..Progress::default() }
    }
}

/// The action of a new request.
pub(super) const FIRST_ACTION: &str = "reading client request line";

/// What was received and sent, as logs show it.
#[derive(Default)]
pub struct Outcome {
    /// Bytes sent including the head: `$bytes_sent`.
    pub bytes_sent: u64,
    /// `$body_bytes_sent`.
    pub body_bytes_sent: u64,
    /// Bytes of the request's head.
    pub request_length: u64,
    /// Whether the response was sent completely: then `$request_completion` is `OK`. A boolean, as the variable is.
    pub complete: bool,
    /// Whether the request had arrived, at least in part, before the previous response was sent: `$pipe`. A boolean, as
    /// the variable is.
    pub pipelined: bool,
    /// Whether the response's body was sent in chunks: `$sent_http_transfer_encoding`. A boolean, as the variable is.
    pub chunked: bool,
    /// Completes when a pool thread has written the request's log line: the connection is closed after that.
    pub logging: Option<oneshot::Receiver<()>>,
}

recycled!(Outcome:
    keeps { }
    renews { bytes_sent, body_bytes_sent, request_length, complete, pipelined, chunked, logging }
);
