//! Records of handshakes that alternate on one thread.

use std::future::poll_fn;
use std::task::Poll;

use super::{Observed, note, observe};

/// Notes a scheme, lets others run, and notes that it has gone on.
async fn handshake(scheme: u16) {
    note(|observed| observed.own_scheme = scheme);
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    note(|observed| observed.peer_scheme = observed.own_scheme + 1);
}

#[test]
fn each_handshake_has_its_own_record() {
    let records = tidegate_rt::block_on(async {
        let two = async { tidegate_rt::sync::join!(observe(handshake(1)), observe(handshake(5))) };
        let ((_, first), (_, second)) = two.await;
        // The callback of a handshake that is not observed.
        handshake(9).await;
        (first, second)
    });
    let record =
        |own_scheme, peer_scheme| Observed { own_scheme, peer_scheme, ..Observed::default() };
    assert_eq!(records.expect("a loop"), (record(1, 2), record(5, 6)));
}
