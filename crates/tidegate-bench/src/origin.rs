//! The origin of the compared servers: one thread, epoll, prepared responses.
//!
//! - `/bytes?n=1024` responds at once; `&max-age=60` makes it cacheable.
//! - `/slow?ms=3000&bytes=1048576&chunks=100` streams evenly over the time given, the first part
//!   after ms/chunks (with `&eager=1` at once), and records when each byte was sent.
//!
//! Requests are counted by target. Bodies are the target's pattern; other arguments distinguish
//! objects.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::response::decimal;

mod serve;
#[cfg(test)]
pub(crate) use serve::{parse_request, parts_due};

/// A running origin; its thread ends when this is dropped.
pub(crate) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The progress of one slow response: (time, body bytes by then).
pub(crate) type SentBytes = Vec<(Instant, u64)>;

/// A slow response, complete or not.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub target: Vec<u8>,
    /// When its request had arrived.
    pub begun: Instant,
    pub sent: SentBytes,
}

impl Origin {
    /// Starts on a free loopback port. The thread inherits the caller's processor affinity.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub(crate) fn start() -> io::Result<Origin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let mut serving = serve::Serving::new(listener, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("origin".to_owned()).spawn(move || {
            if let Err(error) = serving.run() {
                eprintln!("origin: {error}");
            }
        })?;
        Ok(Origin { address, shared, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of requests for a target.
    pub(crate) fn requests(&self, target: &str) -> u64 {
        let counters = locked(&self.shared.counters);
        counters.get(target.as_bytes()).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// All slow responses since the last call, in the order of their requests.
    pub(crate) fn take_traces(&self) -> Vec<Trace> {
        std::mem::take(&mut *locked(&self.shared.traces))
            .iter()
            .map(|trace| locked(trace).clone())
            .collect()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported by the panic handler.
            let _ = thread.join();
        }
    }
}

/// State of both the thread and the owner.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    counters: Mutex<HashMap<Vec<u8>, Arc<AtomicU64>>>,
    traces: Mutex<Vec<Arc<Mutex<Trace>>>>,
}

/// A panic of one thread does not hide the figures of the other.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The response that a target selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Fixed { bytes: u64, max_age: Option<u64> },
    Slow { bytes: u64, chunks: u64, duration: Duration, eager: bool, max_age: Option<u64> },
    NotFound,
}

/// Parses a target; values out of bounds and unknown paths are not found.
pub(crate) fn parse_target(target: &[u8]) -> ResponseKind {
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &b""[..]),
    };
    let argument = |name: &[u8], maximum: u64| -> Option<u64> {
        let mut pairs = query.split(|byte| *byte == b'&');
        let value = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))?;
        decimal(value).filter(|value| *value <= maximum)
    };
    let max_age = argument(b"max-age", u64::from(u32::MAX));
    match path {
        b"/bytes" => match argument(b"n", BODY_BYTES_MAX) {
            Some(bytes) => ResponseKind::Fixed { bytes, max_age },
            None => ResponseKind::NotFound,
        },
        b"/slow" => {
            let duration = argument(b"ms", SLOW_MILLISECONDS_MAX).map(Duration::from_millis);
            let bytes = argument(b"bytes", BODY_BYTES_MAX);
            let chunks = argument(b"chunks", CHUNKS_MAX).filter(|chunks| *chunks > 0);
            let eager = argument(b"eager", 1) == Some(1);
            match (duration, bytes, chunks) {
                (Some(duration), Some(bytes), Some(chunks)) => {
                    ResponseKind::Slow { bytes, chunks, duration, eager, max_age }
                }
                _ => ResponseKind::NotFound,
            }
        }
        _ => ResponseKind::NotFound,
    }
}

/// The head of a response, with validators and, if wanted, freshness.
pub(crate) fn response_head(kind: &ResponseKind) -> Vec<u8> {
    let (status, bytes, max_age) = match kind {
        ResponseKind::Fixed { bytes, max_age } | ResponseKind::Slow { bytes, max_age, .. } => {
            ("200 OK", *bytes, *max_age)
        }
        ResponseKind::NotFound => ("404 Not Found", 0, None),
    };
    let freshness = max_age.map_or(String::new(), |s| format!("Cache-Control: max-age={s}\r\n"));
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {bytes}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         ETag: \"{bytes:x}\"\r\n{freshness}\r\n"
    )
    .into_bytes()
}

/// Bodies are kept whole in memory.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;
const SLOW_MILLISECONDS_MAX: u64 = 60_000;
const CHUNKS_MAX: u64 = 10_000;
