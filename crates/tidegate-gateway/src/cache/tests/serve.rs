//! The delivery of a fill's bytes to its readers.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use tidegate_cache::fake::MemoryDisk;
use tidegate_cache::{Key, Options, Store, Times};
use tidegate_core::BodyStream;
use tidegate_rt::worker::block_on;
use tidegate_rt::yield_now;

use crate::cache::fill::wakeups::MANY_READERS;
use crate::cache::serve::fill_body::FillBody;

/// Far more than the first piece of any reader.
const BODY_BYTES: u64 = 300_000;

/// Returns the bytes of the next piece, if it is ready.
async fn next_now(body: &mut FillBody) -> Option<u64> {
    poll_fn(|context| match body.poll_chunk(context) {
        Poll::Ready(Some(Ok(chunk))) => Poll::Ready(Some(chunk.length())),
        Poll::Ready(other) => panic!("no piece: {other:?}"),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Returns the first piece of each of `count` readers, and the piece that is ready behind it.
async fn pieces(count: usize) -> Vec<[Option<u64>; 2]> {
    let store = Store::open(Options::new("/cache"), Arc::new(MemoryDisk::default())).expect("open");
    while !store.load_step(0, 9).done {}
    let key = Key::new(&b"/a"[..]);
    store.lookup(&key, 1);
    let writer = store.begin_fill(&key, 1).expect("no other fill");
    let times = Times { created: 1, valid_until: 100, updating_until: 100, error_until: 100 };
    writer.publish_head(Bytes::new(), times, Some(BODY_BYTES), 1);
    let reader = |_| FillBody::new(writer.fill().reader(0), false, None);
    let mut bodies: Vec<FillBody> = (0..count).map(reader).collect();
    writer.append(Bytes::from(vec![b'b'; BODY_BYTES as usize]), 1);
    let mut pieces = Vec::new();
    for body in &mut bodies {
        pieces.push([next_now(body).await, next_now(body).await]);
    }
    yield_now().await;
    for (body, piece) in bodies.iter_mut().zip(&pieces) {
        let all: u64 = piece.iter().flatten().sum();
        if all < BODY_BYTES {
            assert_eq!(next_now(body).await, Some(BODY_BYTES - all), "when the others have run");
        }
    }
    pieces
}

#[test]
fn each_of_many_readers_gets_its_first_bytes_before_any_gets_more() {
    block_on(async {
        for piece in pieces(MANY_READERS).await {
            assert_eq!(piece, [Some(16 << 10), None]);
        }
        for piece in pieces(MANY_READERS - 1).await {
            assert_eq!(piece, [Some(128 << 10), Some(BODY_BYTES - (128 << 10))]);
        }
    })
    .expect("a loop");
}
