//! Threads for the messages of a worker, of which some cannot be started.

use std::cell::Cell;

use tidegate_os::socket::socketpair;

use super::*;
use crate::events;

/// Starts threads for one end of a socket pair, where the thread of this number fails; checks that the other end sees
/// the socket closed.
fn check_failure(failing: usize) {
    let (ours, theirs) = socketpair().unwrap();
    let (sender, _events) = events::queue();
    let started = Cell::new(0);
    let result = MessageThreads::start(ours, sender, &|name, job| {
        started.set(started.get() + 1);
        match started.get() == failing {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => spawn(name, job),
        }
    });
    assert_eq!(result.err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    assert_eq!(started.get(), failing);
    assert!(matches!(ToWorker::receive(&theirs), Ok(None)));
}

#[test]
fn a_thread_that_cannot_start_leaves_neither_thread_nor_socket() {
    check_failure(1);
    check_failure(2);
}

#[test]
fn a_process_that_cannot_start_leaves_neither_thread_nor_socket() {
    let (ours, theirs) = socketpair().unwrap();
    let (sender, _events) = events::queue();
    drop(MessageThreads::start(ours, sender, &spawn).unwrap());
    assert!(matches!(ToWorker::receive(&theirs), Ok(None)));
}

#[test]
fn a_message_that_cannot_be_sent_is_reported() {
    let (ours, theirs) = socketpair().unwrap();
    let (sender, events) = events::queue();
    let messages = MessageThreads::start(ours, sender, &spawn).unwrap().begin(1);
    // No master sends this one.
    messages.send(ToWorker::Lost(None)).unwrap();
    let reported = events.recv().unwrap();
    assert!(matches!(reported, MasterEvent::Unsent { pid: 1, serves: false, .. }));
    assert!(matches!(ToWorker::receive(&theirs), Ok(None)));
}

#[test]
fn messages_are_sent_once_the_process_has_begun() {
    let (ours, theirs) = socketpair().unwrap();
    let (sender, _events) = events::queue();
    let messages = MessageThreads::start(ours, sender, &spawn).unwrap().begin(1);
    messages.send(ToWorker::Quit).unwrap();
    assert!(matches!(ToWorker::receive(&theirs), Ok(Some(ToWorker::Quit))));
}
