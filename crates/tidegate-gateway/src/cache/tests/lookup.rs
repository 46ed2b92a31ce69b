//! Which object or fill a request finds, with a store on a disk in memory.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use tidegate_cache::fake::MemoryDisk;
use tidegate_cache::{FillWriter, Key, Options, Store, Times};
use tidegate_codec::Headers;
use tidegate_codec::caching::write_variant;
use tidegate_rt::worker::block_on;

use crate::cache::fill::task::begin_after_placing;
use crate::cache::lookup::{CacheLookup, CountedUses, look, look_now};
use crate::cache::meta::Meta;

fn store() -> Store {
    let store = Store::open(Options::new("/cache"), Arc::new(MemoryDisk::default())).expect("open");
    while !store.load_step(0, 9).done {}
    store
}

fn request(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.push(name.as_bytes(), value.as_bytes()));
    headers
}

/// Begins to fill a key with a response that varies by this field, for this request.
fn begin(store: &Store, key: &Key, vary: &str, asked: &Headers) -> FillWriter {
    store.lookup(key, 1);
    let names = vec![vary.as_bytes().to_vec()];
    let mut variant = Vec::new();
    write_variant(&names, asked, &mut variant);
    let meta = Meta::of(200, b"OK", &Headers::new(), names, variant, None);
    let writer = store.begin_fill(key, 1).expect("no other fill");
    let times = Times { created: 1, valid_until: 100, updating_until: 100, error_until: 100 };
    writer.publish_head(meta.encode(), times, None, 1);
    writer.append(Bytes::from_static(b"body"), 1);
    writer
}

fn looked(store: &Store, main: &Key, request: &Headers) -> CacheLookup {
    look_now(store, main, request, &mut CountedUses::default(), 2).expect("open")
}

#[test]
fn a_fill_that_will_replace_an_object_of_another_variant_is_found() {
    let (store, main) = (store(), Key::new(&b"/a"[..]));
    let by_z = request(&[("x-z", "1")]);
    drop(begin(&store, &main, "x-z", &by_z).commit(1));
    let found = looked(&store, &main, &by_z);
    assert!(found.entry.is_some() && found.fill.is_none());

    let by_y = request(&[("x-y", "1")]);
    let filling = begin(&store, &main, "x-y", &by_y);
    let found = looked(&store, &main, &by_y);
    assert!(found.entry.is_none() && found.fill.is_some() && found.names.is_empty());
    // Another variant of the newer response, which is no variant of the older one.
    let by_other_y = request(&[("x-y", "2")]);
    let other = looked(&store, &main, &by_other_y);
    assert!(other.entry.is_none() && other.fill.is_none());
    assert_eq!(other.names, [b"x-z"]);
    // Requests that the older one suits are served by it until then.
    let found = looked(&store, &main, &by_z);
    assert!(found.entry.is_some());
    finish_beside(&store, &main, &filling, &by_other_y);
}

/// Ends the body of a response that varies by `x-y`: that to another one is stored beside it, not in its place.
fn finish_beside(store: &Store, main: &Key, filling: &FillWriter, by_other_y: &Headers) {
    assert!(filling.finish().is_ok());
    let other = looked(store, main, by_other_y);
    assert!(other.entry.is_none() && other.fill.is_none());
    assert_eq!(other.names, [b"x-y"]);
}

#[test]
fn a_whole_fill_tells_variants_apart_where_the_older_object_does_not() {
    let (store, main) = (store(), Key::new(&b"/a"[..]));
    // Any request suits it, as no request has this field.
    drop(begin(&store, &main, "x-z", &request(&[])).commit(1));
    let filling = begin(&store, &main, "x-y", &request(&[("x-y", "1")]));
    let by_other_y = request(&[("x-y", "2")]);
    assert!(looked(&store, &main, &by_other_y).entry.is_some());
    finish_beside(&store, &main, &filling, &by_other_y);
}

#[test]
fn a_request_counts_itself_once_and_none_that_come_after_it() {
    let (store, main) = (store(), Key::new(&b"/a"[..]));
    let (first, other) = (request(&[("x-z", "1")]), request(&[("x-z", "2")]));
    let mut counted = CountedUses::default();
    let found = look_now(&store, &main, &first, &mut counted, 2).expect("nothing to open");
    assert_eq!(found.uses(), 1);
    assert_eq!(looked(&store, &main, &first).uses(), 2);
    block_on(async {
        let again = look(&store, &main, &first, &mut counted, 3).await;
        assert_eq!(again.uses(), 1);
        // Now there is an object of another variant, and the variant's key has a use of its own.
        drop(begin(&store, &main, "x-z", &other).commit(3));
        for _ in 0..2 {
            let variant = look(&store, &main, &first, &mut counted, 4).await;
            assert_eq!((variant.uses(), variant.names.len()), (1, 1));
        }
        assert_eq!(looked(&store, &main, &first).uses(), 2);
        let again = look(&store, &main, &first, &mut counted, 5).await;
        assert_eq!(again.uses(), 1);
    })
    .expect("a loop");
}

#[test]
fn a_fill_begun_after_placing_is_found_and_an_unshared_one_is_not() {
    let (store, main) = (store(), Key::new(&b"/a"[..]));
    let first = begin(&store, &main, "x-z", &request(&[("x-z", "1")]));
    let present = || store.peek(&main).fill.expect("a fill");
    block_on(async {
        let beside = begin_after_placing(&store, &main, 2).await;
        assert!(Arc::ptr_eq(&present(), first.fill()));
        drop(beside);

        let _ = first.finish();
        let mut waiting = pin!(begin_after_placing(&store, &main, 2));
        let waits = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(waits.await, "the object is not in its place yet");
        drop(first.commit(2));
        let behind = waiting.await;
        assert!(Arc::ptr_eq(&present(), behind.fill()));
    })
    .expect("a loop");
}
