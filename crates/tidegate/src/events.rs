//! Events of a process other than requests, as one queue for its main thread.
//!
//! Signals that come faster than they are handled are joined: a signal is in the queue once.

#[cfg(all(test, unix))]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use tidegate_os::held_signals;
use tidegate_rt::signal::{ProcessSignal, Signals};

/// A signal in the queue.
#[derive(Debug)]
pub(crate) struct QueuedSignal {
    signal: ProcessSignal,
    is_queued: Arc<AtomicBool>,
}

impl QueuedSignal {
    /// Takes the signal out of the queue, before it is handled: from here on another one is queued.
    pub(crate) fn take(self) -> ProcessSignal {
        self.is_queued.store(false, Ordering::Release);
        self.signal
    }
}

/// Starts the thread that waits for signals; returns once they are caught, with those that were held back until now.
///
/// # Errors
/// No thread, or the system refuses a handler.
pub(crate) fn watch_signals<Event: From<QueuedSignal> + Send + 'static>(
    events: Sender<Event>,
) -> io::Result<()> {
    find_descriptors()?;
    held_signals::prepare_handlers();
    let (ready_sender, ready) = sync_channel(1);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let ready_again = ready_sender.clone();
        let ended = tidegate_rt::block_on(async move {
            let mut signals = match Signals::new() {
                Ok(signals) => signals,
                Err(error) => return drop(ready_sender.send(Err(error))),
            };
            let _ = ready_sender.send(Ok(()));
            let mut queued: HashMap<ProcessSignal, Arc<AtomicBool>> = HashMap::new();
            loop {
                let signal = signals.next().await;
                let is_queued = queued.entry(signal).or_default().clone();
                if is_queued.swap(true, Ordering::AcqRel) {
                    continue;
                }
                if events.send(QueuedSignal { signal, is_queued }.into()).is_err() {
                    return;
                }
            }
        });
        if let Err(error) = ended {
            let _ = ready_again.send(Err(error));
        }
    })?;
    ready.recv().unwrap_or_else(|_| Err(io::Error::other("the signal thread ended")))?;
    held_signals::release();
    Ok(())
}

/// Whether the thread will get the descriptors that it needs: the library ends the thread where one is missing.
fn find_descriptors() -> io::Result<()> {
    let pipes: io::Result<Vec<_>> = (0..PIPES).map(|_| io::pipe()).collect();
    pipes.map(drop)
}

/// As many descriptors as an event loop and its signals have.
const PIPES: usize = 4;

/// Makes a queue of events.
pub(crate) fn queue<Event>() -> (Sender<Event>, Receiver<Event>) {
    channel()
}
