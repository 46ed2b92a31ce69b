//! Bodies from files.

use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::blocking;
use tidegate_core::request_body::StoredBody;
use tidegate_os::Nowait;
use tidegate_os::file::{self, Advice};
use tidegate_rt::net::Stream;

use super::begin;
use crate::Io;
use crate::request::RequestPayload;
use crate::wire::{FastCgiRules, Wire};

const LENGTH: usize = 300_000;

/// Returns the bytes that an origin receives for a body in a file.
fn received(file: &Arc<File>, wire: &Wire) -> Vec<u8> {
    let body =
        StoredBody { file: Some(file.clone()), length: LENGTH as u64, ..StoredBody::default() };
    let mut payload = RequestPayload::Stored(Arc::new(body));
    tidegate_rt::block_on(async move {
        let (near, far) = Stream::pair().expect("a pair");
        let io = Io::Plain(Rc::new(near));
        let limit = Duration::from_secs(60);
        let upload = begin(&io, (b"head ", &mut payload), wire, limit, &mut 0);
        let upload = upload.expect("begun").expect("a body that does not fit");
        let send = async {
            upload.await.result.expect("sent");
            poll_fn(|context| io.poll_shutdown(context)).await;
        };
        let receive = async {
            let mut bytes = Vec::with_capacity(2 * LENGTH);
            while poll_fn(|context| far.poll_read_append(context, &mut bytes)).await.expect("read")
                > 0
            {}
            bytes
        };
        tidegate_rt::sync::join!(send, receive).1
    })
    .expect("a loop")
}

#[test]
fn parts_of_a_body_outside_of_the_page_cache_are_read_by_a_pool() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&[7; LENGTH]).expect("written");
    let file = Arc::new(file);
    let finished = || blocking::figures().iter().map(|(_, pool)| pool.finished).sum::<u64>();
    let drop_pages = || {
        file.sync_all().expect("on the disk");
        file::fadvise(&file, 0, 0, Advice::DontNeed);
    };
    drop_pages();
    // A file system in memory drops nothing.
    let cold = file::pread_nowait(&file, &mut [0], 0).expect("read") == Nowait::WouldBlock;
    for wire in [Wire::Http, Wire::FastCgi(FastCgiRules::default())] {
        let before = finished();
        // `pread_nowait` may start a read-ahead that ends before the pool is used: several attempts may be needed.
        for _ in 0..if cold { 100 } else { 1 } {
            drop_pages();
            let bytes = received(&file, &wire);
            assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), LENGTH, "{wire:?}");
            if finished() > before {
                break;
            }
        }
        assert!(!cold || finished() > before, "{wire:?}");
    }
}
