//! Relays between sockets.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::client::ByteStream;
use tidegate_rt::clock;
use tidegate_rt::net::Stream;

use super::{Direction, EndCondition, RelayEnd, RelayOptions, relay};
use crate::Io;

/// A client without TLS.
struct Plain(Stream);

impl ByteStream for Plain {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_read_append(context, buffer)
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes)
    }

    fn poll_flush(&self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&self, _context: &mut Context<'_>) -> Poll<()> {
        let _ = self.0.shutdown_write();
        Poll::Ready(())
    }
}

/// The bytes received at each side of a relay: the client's peer and the origin act as scripted.
struct RelayResult {
    end: RelayEnd,
    at_client: Vec<u8>,
    at_origin: Vec<u8>,
    up: u64,
    down: u64,
}

async fn read_all(stream: &Stream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        all.reserve(4096);
        match stream.read_append(&mut all).await {
            Ok(count) if count > 0 => {}
            _ => return all,
        }
    }
}

/// Both sides send and end their direction; `client_first` ends before the origin sends anything.
fn run(
    closing: EndCondition,
    from_client: &[u8],
    from_origin: &[u8],
    client_first: bool,
) -> RelayResult {
    let work = async {
        let (client, near) = Stream::pair().unwrap();
        let (far, origin) = Stream::pair().unwrap();
        let near = Plain(near);
        let far = Io::Plain(Rc::new(far));
        let options = RelayOptions { buffer_bytes: 1000, idle: Duration::from_secs(30), closing };
        let now = clock::now();
        let (mut up, mut down) =
            (Direction::new(b"first ".to_vec(), 0, now), Direction::new(Vec::new(), 0, now));
        let relaying = async {
            let end = relay(&near, &far, &mut up, &mut down, options).await;
            drop((near, far));
            end
        };
        let client_side = async {
            client.write_all(from_client).await.unwrap();
            if client_first {
                client.shutdown_write().unwrap();
            }
            read_all(&client).await
        };
        let origin_side = async {
            let mut got = Vec::new();
            if client_first {
                got = read_all(&origin).await;
            }
            let _ = origin.write_all(from_origin).await;
            let _ = origin.shutdown_write();
            got.extend(read_all(&origin).await);
            got
        };
        let (end, at_client, at_origin) =
            tidegate_rt::sync::join!(relaying, client_side, origin_side);
        RelayResult { end, at_client, at_origin, up: up.moved, down: down.moved }
    };
    tidegate_rt::block_on(work).unwrap()
}

#[test]
fn each_direction_ends_on_its_own_where_that_is_wanted() {
    let (up, down) = (vec![b'u'; 100_000], vec![b'd'; 70_000]);
    for closing in [EndCondition::Both, EndCondition::Origin] {
        let ends = run(closing, &up, &down, true);
        assert_eq!(ends.at_client, down, "{closing:?}");
        assert_eq!(ends.at_origin, [&b"first "[..], &up].concat(), "{closing:?}");
        assert_eq!((ends.up, ends.down), (100_006, 70_000));
        assert!(matches!(ends.end, RelayEnd::Done { .. }));
    }
}

#[test]
fn either_end_is_the_end_when_all_is_delivered() {
    let up = vec![b'u'; 100_000];
    let ends = run(EndCondition::Either, &up, b"too late", true);
    assert_eq!(ends.at_origin, [&b"first "[..], &up].concat());
    assert_eq!(ends.at_client, b"");
    assert!(matches!(ends.end, RelayEnd::Done { client: true }));
    let ends = run(EndCondition::Either, b"", &up, false);
    assert_eq!((ends.at_client, ends.down), (up, 100_000));
    assert!(matches!(ends.end, RelayEnd::Done { client: false }));
}

/// The bytes that a side sent before it closed are delivered, although writing to it fails.
#[test]
fn received_bytes_are_delivered_after_their_sender_has_closed() {
    for client_leaves in [false, true] {
        for closing in [EndCondition::Either, EndCondition::Origin, EndCondition::Both] {
            let sent = vec![b's'; 5_000];
            let work = async {
                let (client, near) = Stream::pair().unwrap();
                let (far, origin) = Stream::pair().unwrap();
                let (leaving, staying) = match client_leaves {
                    true => (client, origin),
                    false => (origin, client),
                };
                leaving.write_all(&sent).await.unwrap();
                drop(leaving);
                let near = Plain(near);
                let far = Io::Plain(Rc::new(far));
                let idle = Duration::from_secs(30);
                let options = RelayOptions { buffer_bytes: 1000, idle, closing };
                // A side that has gone does not read these.
                let pending = |gone: bool| if gone { b"lost".to_vec() } else { Vec::new() };
                let mut up = Direction::new(pending(!client_leaves), 0, clock::now());
                let mut down = Direction::new(pending(client_leaves), 0, clock::now());
                let relaying = async {
                    let end = relay(&near, &far, &mut up, &mut down, options).await;
                    drop((near, far));
                    end
                };
                tidegate_rt::sync::join!(relaying, read_all(&staying))
            };
            let (end, arrived) = tidegate_rt::block_on(work).unwrap();
            assert_eq!(arrived.len(), sent.len(), "{client_leaves} {closing:?} {end:?}");
            let failed = matches!(end, RelayEnd::Failed { client, reading: false, .. } if client == client_leaves);
            assert!(failed, "{client_leaves} {closing:?} {end:?}");
        }
    }
}
