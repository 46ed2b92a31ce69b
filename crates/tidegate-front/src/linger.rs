//! Reading on before a close, so that a reset does not take the response from the client (RFC 9112 section 9.6).

use std::future::poll_fn;

use tidegate_rt::timer::timeout;

use crate::action::Linger;
use crate::link::Link;

/// Bytes read and dropped at once.
const READ_BYTES: usize = 4096;

/// Shuts down the sending side, and reads until the client closes as well. Of a client that floods nothing is read:
/// its connection is held for a while, and then reset by what it has sent.
///
/// Bounded by `lingering_time` as a whole and `lingering_timeout` for each read. Dropped at its awaits, the socket
/// closes sooner, and further bytes of the client reset the connection.
pub(crate) async fn close(link: &Link, limits: Linger) {
    if limits.is_deaf {
        let _ = timeout(limits.time, link.io.stream().peer_closed()).await;
        return;
    }
    link.io.shutdown().await;
    let drain = async {
        let mut sink = Vec::with_capacity(READ_BYTES);
        loop {
            sink.clear();
            let read = poll_fn(|context| link.io.poll_read_append(context, &mut sink));
            match timeout(limits.wait, read).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    };
    let _ = timeout(limits.time, drain).await;
}
