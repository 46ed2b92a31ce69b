//! Signals by named events and by the console.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tidegate_os::process::{Signal, SignalEvents};
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

use super::ProcessSignal;
use crate::mail::{Mailbox, mailbox};

/// Signals that may wait: equal ones count once before they are queued here.
const QUEUE: usize = 16;

/// Takes over the events and the console's signals for the rest of the process's life.
#[derive(Debug)]
pub struct Signals {
    orders: Mailbox<ProcessSignal>,
    interrupt: CtrlC,
    interrupt_again: CtrlBreak,
    close: CtrlClose,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// Makes the events and starts the thread that waits for them.
    ///
    /// # Errors
    /// The system refuses an event, or the thread.
    pub fn new() -> io::Result<Signals> {
        let events = SignalEvents::create()?;
        let (sender, orders) = mailbox(QUEUE);
        std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
            while let Ok(signal) = events.wait() {
                let order = match signal {
                    Signal::Terminate => ProcessSignal::Terminate,
                    Signal::Quit => ProcessSignal::Quit,
                    Signal::Hangup => ProcessSignal::Hangup,
                    Signal::User1 => ProcessSignal::User1,
                };
                // A full queue holds the same signal already, or ones that are as urgent.
                let _ = sender.send(order);
            }
        })?;
        Ok(Signals {
            orders,
            interrupt: ctrl_c()?,
            interrupt_again: ctrl_break()?,
            close: ctrl_close()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Returns the next signal. Dropped at its await it has taken none.
    pub async fn next(&mut self) -> ProcessSignal {
        poll_fn(|context| {
            if self.interrupt.poll_recv(context).is_ready()
                || self.interrupt_again.poll_recv(context).is_ready()
            {
                return Poll::Ready(ProcessSignal::Interrupt);
            }
            if self.close.poll_recv(context).is_ready()
                || self.shutdown.poll_recv(context).is_ready()
            {
                return Poll::Ready(ProcessSignal::Terminate);
            }
            match self.orders.poll_receive(context) {
                Poll::Ready(Some(order)) => Poll::Ready(order),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}
