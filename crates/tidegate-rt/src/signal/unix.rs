//! Unix signals to the process, as a stream.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ProcessSignal;

/// Takes over all signals of [`ProcessSignal`] for the rest of the process's life.
#[derive(Debug)]
pub struct Signals {
    streams: [(ProcessSignal, Signal); 8],
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn new() -> io::Result<Signals> {
        let window = SignalKind::window_change();
        Ok(Signals {
            streams: [
                (ProcessSignal::Child, signal(SignalKind::child())?),
                (ProcessSignal::Terminate, signal(SignalKind::terminate())?),
                (ProcessSignal::Interrupt, signal(SignalKind::interrupt())?),
                (ProcessSignal::Quit, signal(SignalKind::quit())?),
                (ProcessSignal::Hangup, signal(SignalKind::hangup())?),
                (ProcessSignal::User1, signal(SignalKind::user_defined1())?),
                (ProcessSignal::User2, signal(SignalKind::user_defined2())?),
                (ProcessSignal::WindowChange, signal(window)?),
            ],
        })
    }

    /// Returns the next signal. Equal ones that arrive before the first is taken count once. Dropped at its await it
    /// has taken none. Of several the order of `streams` decides.
    pub async fn next(&mut self) -> ProcessSignal {
        poll_fn(|context| {
            for (name, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*name);
                }
            }
            Poll::Pending
        })
        .await
    }
}
