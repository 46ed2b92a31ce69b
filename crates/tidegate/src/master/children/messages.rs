//! The two threads of the master that carry a worker's messages: one receives, one sends.
//!
//! ```text
//! let threads = MessageThreads::start(socket, events, &spawn)?;  // both run, or neither is left
//! let pid = …;                                                    // the process starts
//! let messages = threads.begin(pid);                              // cannot fail
//! ```

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::super::{EventSender, MasterEvent};
use crate::handover::{ToMaster, ToWorker};

/// The work of a thread.
type Job = Box<dyn FnOnce() + Send>;

/// Both threads, which wait for their worker. Dropped, they end and close their socket.
pub(super) struct MessageThreads {
    /// The sending thread: a worker that does not read must not block the master.
    to_worker: Sender<ToWorker>,
    /// The process id, for both.
    pid: [Sender<u32>; 2],
}

impl MessageThreads {
    /// Starts both threads by `spawn`, a function that starts one.
    ///
    /// # Errors
    /// One of them cannot be started. The other one ends, and the socket is closed.
    pub(super) fn start(
        socket: OwnedFd,
        events: EventSender,
        spawn: &dyn Fn(&str, Job) -> io::Result<()>,
    ) -> io::Result<MessageThreads> {
        let socket = Arc::new(socket);
        let (to_receiver, announced) = channel();
        let (to_sender, announced_too) = channel();
        let (to_worker, to_send) = channel();
        let (receiving, reports) = (socket.clone(), events.clone());
        spawn("from worker", Box::new(move || receive(&announced, &receiving, &events)))?;
        spawn("to worker", Box::new(move || send(&announced_too, &to_send, &socket, &reports)))?;
        Ok(MessageThreads { to_worker, pid: [to_receiver, to_sender] })
    }

    /// Announces the started process. Returns the queue of messages to it.
    pub(super) fn begin(self, pid: u32) -> Sender<ToWorker> {
        // cannot fail: both threads wait for it.
        for thread in &self.pid {
            let _ = thread.send(pid);
        }
        self.to_worker
    }
}

/// Starts a named thread.
pub(super) fn spawn(name: &str, job: Job) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(job)?;
    Ok(())
}

/// Passes on the messages of a worker until its end.
fn receive(announced: &Receiver<u32>, socket: &OwnedFd, events: &EventSender) {
    let Ok(pid) = announced.recv() else { return };
    while let Ok(Some(message)) = ToMaster::receive(socket) {
        if events.send(MasterEvent::FromWorker(pid, message)).is_err() {
            return;
        }
    }
}

/// Sends messages to a worker until its end, or until nothing can be queued any more. One that cannot be sent is reported. If a
/// part of it was, the worker understands nothing behind it: it sees the master's end, and ends.
fn send(
    announced: &Receiver<u32>,
    messages: &Receiver<ToWorker>,
    socket: &OwnedFd,
    events: &EventSender,
) {
    let Ok(pid) = announced.recv() else { return };
    for message in messages {
        let Err(error) = message.send(socket) else { continue };
        let is_whole = error.kind() == io::ErrorKind::InvalidInput;
        let serves = matches!(message, ToWorker::Serve(_));
        let _ = events.send(MasterEvent::Unsent { pid, serves, error });
        if !is_whole {
            let _ = tidegate_os::socket::shutdown_write(socket);
            return;
        }
    }
}
