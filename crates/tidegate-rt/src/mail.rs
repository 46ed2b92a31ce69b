//! Bounded mail between threads: senders never wait, and handle a full mailbox themselves.

use std::task::{Context, Poll};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The receiving end, owned by one task.
pub struct Mailbox<T> {
    receiver: mpsc::Receiver<T>,
}

/// The sending end; usable from any thread, wakes the event loop of the receiver.
pub struct MailSender<T> {
    sender: mpsc::Sender<T>,
}

/// Why a message was not delivered; it contains the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailError<T> {
    /// The mailbox is full.
    Full(T),
    /// The receiver was dropped.
    Closed(T),
}

/// Makes a mailbox for at most `capacity` waiting messages (at least one).
pub fn mailbox<T>(capacity: usize) -> (MailSender<T>, Mailbox<T>) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (MailSender { sender }, Mailbox { receiver })
}

impl<T> MailSender<T> {
    /// Puts a message into the mailbox.
    ///
    /// # Errors
    /// The mailbox is full, or its receiver was dropped.
    pub fn send(&self, message: T) -> Result<(), MailError<T>> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) => MailError::Full(message),
            TrySendError::Closed(message) => MailError::Closed(message),
        })
    }

    /// Puts a message into the mailbox, and blocks the thread while it is full: for threads of pools.
    ///
    /// # Errors
    /// The receiver was dropped, before or meanwhile.
    pub fn send_blocking(&self, message: T) -> Result<(), MailError<T>> {
        self.sender.blocking_send(message).map_err(|error| MailError::Closed(error.0))
    }

    /// Whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl<T> Clone for MailSender<T> {
    fn clone(&self) -> Self {
        MailSender { sender: self.sender.clone() }
    }
}

impl<T> Mailbox<T> {
    /// Returns the next message; `None` when the mailbox is empty and all senders were dropped. Dropped at its await it
    /// has taken none.
    pub async fn receive(&mut self) -> Option<T> {
        self.receiver.recv().await
    }

    /// As [`Mailbox::receive`], for hand-written futures.
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.receiver.poll_recv(context)
    }

    /// Returns the next message, if there is one.
    pub fn try_receive(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> std::fmt::Display for MailError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MailError::Full(_) => "the mailbox is full",
            MailError::Closed(_) => "the receiver of the mailbox is gone",
        })
    }
}

impl<T: std::fmt::Debug> std::error::Error for MailError<T> {}

impl<T> std::fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &self.receiver.len()).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for MailSender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MailSender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
