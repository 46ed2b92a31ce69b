//! A tunnel behind a 101 response: bytes both ways until both sides have ended or are silent.

use tidegate_core::body::Tunnel;
use tidegate_core::client::ClientIo;
use tidegate_core::error_log::Level;
use tidegate_rt::clock;

use crate::h1::body::Upgraded;
use crate::log::TIMED_OUT;
use crate::relay::{Direction, EndCondition, RelayEnd, RelayOptions, relay};

/// Bytes of each direction's buffer.
const BUFFER_BYTES: usize = 16 * 1024;

/// Connects a client with an upgraded connection.
pub fn tunnel(upgraded: Upgraded) -> Tunnel {
    Box::new(move |client: ClientIo| Box::pin(run(upgraded, client)))
}

async fn run(upgraded: Upgraded, client: ClientIo) {
    let Upgraded { connection, prefetched, settings, report, log, upstream, lease } = upgraded;
    let begun = clock::exact_now();
    let mut up = Direction::new(client.prefetched.to_vec(), 0, begun);
    let mut down = Direction::new(prefetched.to_vec(), 0, begun);
    let options = RelayOptions {
        buffer_bytes: BUFFER_BYTES,
        idle: settings.read_timeout,
        closing: EndCondition::Origin,
    };
    let end = relay(&*client.io, &connection.io, &mut up, &mut down, options).await;
    if let RelayEnd::TimedOut = end {
        log.write(Level::Error, TIMED_OUT, "proxying upgraded connection", &upstream);
    }
    if let Some(attempt) = report.borrow_mut().last() {
        attempt.bytes_received += down.moved;
        attempt.bytes_sent += up.moved;
        attempt.response_length = down.moved;
        attempt.finished(clock::now());
    }
    drop(lease);
}
