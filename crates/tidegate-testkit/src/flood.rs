//! A peer that never waits: it writes the same bytes repeatedly, and discards received bytes.
//!
//! Cases check that other clients are served meanwhile, so it does not end by itself.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bell::Failure;
use crate::wire::{Stream, Wire};

/// Bytes written before the next statement of the script: enough to keep a peer busy for some time.
const FIRST_BYTES: u64 = 256 * 1024;
/// The same, of datagrams.
const FIRST_DATAGRAMS: u64 = 1000;
/// Longest time until a thread detects the end of the flood, where a shutdown does not.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A flood that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Flood {
    stream: Stream,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    /// The peer ended it.
    ended: AtomicBool,
    written: AtomicU64,
}

impl Flood {
    /// Starts, and waits until a part was written.
    pub(crate) fn begin(wire: &Wire, bytes: &[u8]) -> Result<Flood, Failure> {
        let flood = Flood::start(wire, bytes)?;
        let is_datagrams = matches!(flood.stream, Stream::Udp(_));
        let first = if is_datagrams { FIRST_DATAGRAMS } else { FIRST_BYTES };
        while flood.shared.written.load(Ordering::Relaxed) < first {
            wire.time_left()?;
            flood.still()?;
            std::thread::yield_now();
        }
        Ok(flood)
    }

    /// Starts, and continues until the peer ends it.
    pub(crate) fn last(wire: &Wire, bytes: &[u8]) -> Result<(), Failure> {
        let mut flood = Flood::start(wire, bytes)?;
        flood.threads.drain(..).for_each(|thread| drop(thread.join()));
        Ok(())
    }

    fn start(wire: &Wire, bytes: &[u8]) -> Result<Flood, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("flood: {error}"));
        let (stream, mut from, mut to) = (
            wire.twin().map_err(failed)?,
            wire.twin().map_err(failed)?,
            wire.twin().map_err(failed)?,
        );
        let is_datagrams = matches!(stream, Stream::Udp(_));
        stream.limit(if is_datagrams { LOOK_EVERY } else { wire.time_left()? }).map_err(failed)?;
        let (shared, bytes) = (Arc::new(Shared::default()), bytes.to_vec());
        let (reads, writes) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || reads.until_over(is_datagrams, || from.discard())),
            std::thread::spawn(move || {
                writes.until_over(is_datagrams, || {
                    to.write_all(&bytes)?;
                    let much = if is_datagrams { 1 } else { bytes.len() as u64 };
                    writes.written.fetch_add(much, Ordering::Relaxed);
                    Ok(1)
                });
            }),
        ];
        Ok(Flood { stream, shared, threads })
    }

    /// Fails when the peer has ended it.
    pub(crate) fn still(&self) -> Result<(), Failure> {
        match self.shared.ended.load(Ordering::Relaxed) {
            true => Err(Failure::new("the server has ended the flood")),
            false => Ok(()),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Both);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    /// Runs `step` until it fails or returns 0. Datagrams may be lost.
    fn until_over(&self, may_fail: bool, mut step: impl FnMut() -> std::io::Result<usize>) {
        while !self.over.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed) {
            match step() {
                Ok(1..) => {}
                Err(error) if may_fail || error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.ended.store(true, Ordering::Relaxed),
            }
        }
    }
}
