//! An engine as its users see it: a bounded queue of commands in front of one connection, and figures.
//!
//! Any thread may send commands. One task, [`run`](crate::run()), has the connection: it sends what is queued without
//! waiting for replies, which come in the same order.
//!
//! ```text
//!                   connected, logged in
//!   Connecting ──────────────────────────→ Ready
//!    ↑  │                                    │ lost, late reply, other bytes
//!    │  └── refused, too late ──→ Broken ←───┘
//!    └───────── a pause ────────────┘
//! ```
//!
//! While it is `Broken`, and in the attempts that follow, commands fail at once: there is no waiting for an engine that
//! is not there. In the first attempt they wait, up to their time limit. A connection that ends while no reply is awaited (the
//! engine closes idle ones) leads to `Connecting`.
//!
//! Invariant: each command gets one result. Dropped in the queue or on the connection, it gets [`CallError::Lost`]: it may
//! have been carried out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};
use std::{error, fmt};

use tidegate_rt::sync::oneshot;
use tidegate_rt::{clock, random, timer};
use tidegate_tls::TlsSettings;

use crate::address::Address;
use crate::command::Command;
use crate::resp::Value;

/// Commands that may wait for the connection. Users send a few in each interval, and the API one for each request.
pub const QUEUE_MAX: usize = 1024;
/// Bytes of the commands that may wait.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Bytes of the longest reason that is kept: engines may send long ones.
const REASON_BYTES_MAX: usize = 200;

/// What a configuration says about an engine.
#[derive(Clone)]
pub struct EngineSettings {
    /// Where it is.
    pub address: Address,
    /// The time limit of a command, from its call to its reply.
    pub timeout: Duration,
    /// TLS, with `rediss`.
    pub tls: Option<Arc<TlsSettings>>,
}

/// An engine, with the commands that wait for it.
pub struct Engine {
    pub(crate) settings: EngineSettings,
    /// A number by which other servers know this one, of 16 hexadecimal digits.
    node: String,
    queue: Mutex<Queue>,
    pub(crate) counters: Counters,
}

/// The reason why a command has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The engine cannot be reached, and it is not time for the next attempt: nothing was sent.
    Unavailable(Arc<str>),
    /// Too many commands wait: nothing was sent.
    Full,
    /// No reply within the time limit. The command may have been carried out.
    TimedOut,
    /// The connection has ended. The command may have been carried out.
    Lost(Arc<str>),
    /// The engine refuses the command, by a text that begins with a code (`OOM`, `LOADING`, `READONLY`).
    Refused(Arc<str>),
}

/// A reply on its way.
pub struct Reply {
    receiver: oneshot::Receiver<Result<Value, CallError>>,
    until: Instant,
}

/// Whether commands can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The first attempt, or one after an idle connection has ended.
    Connecting,
    /// Commands are sent.
    Ready,
    /// The last attempt has failed, for this reason, since this time.
    Broken(Arc<str>, Instant),
}

/// What an engine has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Commands that were sent.
    pub commands: u64,
    /// Replies that have arrived.
    pub replies: u64,
    /// Commands that the engine has refused.
    pub refused: u64,
    /// Commands without a reply within their time.
    pub timed_out: u64,
    /// Commands that failed at once, as the engine was not there or the queue was full.
    pub failed_at_once: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Times that the engine became unavailable.
    pub failures: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commands: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) failed_at_once: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// A command, and the way back for its reply.
pub(crate) struct Call {
    pub(crate) command: Command,
    /// Whether a script is sent as its text: the engine does not have it.
    pub(crate) full: bool,
    pub(crate) until: Instant,
    pub(crate) reply: oneshot::Sender<Result<Value, CallError>>,
}

struct Queue {
    calls: VecDeque<Call>,
    bytes: usize,
    state: State,
    /// Of the task that has the connection.
    waker: Option<Waker>,
}

impl Engine {
    /// Makes an engine; nothing is sent before [`run`](crate::run()) runs.
    pub fn new(settings: EngineSettings) -> Engine {
        let (calls, state) = (VecDeque::new(), State::Connecting);
        Engine {
            settings,
            node: format!("{:016x}", random::next_u64()),
            queue: Mutex::new(Queue { calls, bytes: 0, state, waker: None }),
            counters: Counters::default(),
        }
    }

    /// Makes another connection to the same engine, with a queue and a time limit of its own: for commands that the engine
    /// holds back, behind which no others should wait.
    pub fn beside(&self, timeout: Duration) -> Engine {
        Engine::new(EngineSettings { timeout, ..self.settings.clone() })
    }

    /// Returns the name of this server among those that share the engine.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns where the engine is.
    pub fn address(&self) -> &Address {
        &self.settings.address
    }

    /// Returns the time limit of a command.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Sends a command. Its reply is awaited separately, so that commands can be sent together.
    pub fn begin(&self, command: Command) -> Reply {
        let until = clock::exact_now() + self.settings.timeout;
        let (reply, receiver) = oneshot::channel();
        let mut queue = self.lock();
        let refusal = match &queue.state {
            State::Broken(reason, _) => Some(CallError::Unavailable(reason.clone())),
            _ if queue.calls.len() >= QUEUE_MAX => Some(CallError::Full),
            _ if queue.bytes + command.bytes() > QUEUE_BYTES_MAX => Some(CallError::Full),
            _ => None,
        };
        if let Some(refusal) = refusal {
            count(&self.counters.failed_at_once, 1);
            // The receiver is here, so it is not gone.
            let _ = reply.send(Err(refusal));
        } else {
            queue.bytes += command.bytes();
            queue.calls.push_back(Call { command, full: false, until, reply });
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
        }
        Reply { receiver, until }
    }

    /// Returns whether commands can be sent.
    pub fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Returns the number of commands that wait for the connection.
    pub fn queued(&self) -> usize {
        self.lock().calls.len()
    }

    /// Returns the figures.
    pub fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            commands: read(&self.counters.commands),
            replies: read(&self.counters.replies),
            refused: read(&self.counters.refused),
            timed_out: read(&self.counters.timed_out),
            failed_at_once: read(&self.counters.failed_at_once),
            connections: read(&self.counters.connections),
            failures: read(&self.counters.failures),
            bytes_in: read(&self.counters.bytes_in),
            bytes_out: read(&self.counters.bytes_out),
        }
    }

    /// Takes the next command to send; without one the waker is kept.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Call> {
        let mut queue = self.lock();
        match queue.calls.pop_front() {
            Some(call) => {
                queue.bytes -= call.command.bytes();
                Some(call)
            }
            None => {
                queue.waker = Some(waker.clone());
                None
            }
        }
    }

    /// Puts a command in front of the queue, behind others of its kind, where its script has to be sent as text.
    pub(crate) fn put_back(&self, call: Call) {
        let mut queue = self.lock();
        queue.bytes += call.command.bytes();
        let at = queue.calls.iter().take_while(|call| call.full).count();
        queue.calls.insert(at, call);
    }

    /// Returns whether a command was put back that is not on its way again.
    pub(crate) fn has_put_back(&self) -> bool {
        self.lock().calls.front().is_some_and(|call| call.full)
    }

    /// Notes that an attempt begins after the connection has ended by itself.
    pub(crate) fn set_connecting(&self) {
        self.lock().state = State::Connecting;
    }

    /// Notes that commands can be sent; returns since when they could not.
    pub(crate) fn set_ready(&self) -> Option<Instant> {
        count(&self.counters.connections, 1);
        let mut queue = self.lock();
        match std::mem::replace(&mut queue.state, State::Ready) {
            State::Broken(_, since) => Some(since),
            _ => None,
        }
    }

    /// Notes that the engine is unavailable: what waits fails.
    pub(crate) fn set_broken(&self, reason: Arc<str>, now: Instant) {
        let failed = {
            let mut queue = self.lock();
            let since = match &queue.state {
                State::Broken(_, since) => *since,
                _ => {
                    count(&self.counters.failures, 1);
                    now
                }
            };
            queue.state = State::Broken(reason.clone(), since);
            queue.bytes = 0;
            std::mem::take(&mut queue.calls)
        };
        count(&self.counters.failed_at_once, failed.len());
        for call in failed {
            let _ = call.reply.send(Err(CallError::Unavailable(reason.clone())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reply {
    /// Waits for the reply, up to the time limit of the command.
    ///
    /// Cancelling: dropped, the command is carried out all the same.
    ///
    /// # Errors
    /// There is none.
    pub async fn wait(self) -> Result<Value, CallError> {
        let left = self.until.saturating_duration_since(clock::exact_now());
        match timer::timeout(left, self.receiver).await {
            Err(_) => Err(CallError::TimedOut),
            Ok(Err(_)) => Err(CallError::Lost("the connection was given up".into())),
            Ok(Ok(result)) => result,
        }
    }
}

/// Makes a reason of an engine's text: printable, of bounded length.
pub(crate) fn reason_of(text: &[u8]) -> Arc<str> {
    let text = String::from_utf8_lossy(&text[..text.len().min(REASON_BYTES_MAX)]);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.into()
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Unavailable(reason) | CallError::Lost(reason) => f.write_str(reason),
            CallError::Full => f.write_str("too many commands wait"),
            CallError::TimedOut => f.write_str("no reply in time"),
            CallError::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}

impl error::Error for CallError {}

#[cfg(test)]
mod tests;
