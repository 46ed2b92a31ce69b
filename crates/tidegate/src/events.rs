//! Events of a process other than requests, as one queue for its main thread.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use tidegate_rt::signal::{ProcessSignal, Signals};

/// Starts the thread that waits for signals; returns once they are caught.
///
/// # Errors
/// No thread, or the system refuses a handler.
pub(crate) fn watch_signals<Event: From<ProcessSignal> + Send + 'static>(
    events: Sender<Event>,
) -> io::Result<()> {
    let (ready_sender, ready) = sync_channel(1);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let ready_again = ready_sender.clone();
        let ended = tidegate_rt::block_on(async move {
            let mut signals = match Signals::new() {
                Ok(signals) => signals,
                Err(error) => return drop(ready_sender.send(Err(error))),
            };
            let _ = ready_sender.send(Ok(()));
            while events.send(signals.next().await.into()).is_ok() {}
        });
        if let Err(error) = ended {
            let _ = ready_again.send(Err(error));
        }
    })?;
    ready.recv().unwrap_or_else(|_| Err(io::Error::other("the signal thread ended")))
}

/// Makes a queue of events.
pub(crate) fn queue<Event>() -> (Sender<Event>, Receiver<Event>) {
    channel()
}
