//! Signals that come faster than they are taken.

use tidegate_os::process::{Signal, kill};

use super::*;

struct Event(QueuedSignal);

impl From<QueuedSignal> for Event {
    fn from(signal: QueuedSignal) -> Event {
        Event(signal)
    }
}

#[test]
fn a_signal_is_in_the_queue_once() {
    let (sender, events) = queue::<Event>();
    watch_signals(sender).unwrap();
    let send = |signal| kill(std::process::id(), signal).unwrap();
    send(Signal::Hangup);
    let first = events.recv().unwrap();
    for _ in 0..10 {
        send(Signal::Hangup);
    }
    send(Signal::User1);
    assert_eq!(events.recv().unwrap().0.take(), ProcessSignal::User1);
    assert_eq!(first.0.take(), ProcessSignal::Hangup);
    send(Signal::Hangup);
    assert_eq!(events.recv().unwrap().0.take(), ProcessSignal::Hangup);
}
