//! A request's body from a scripted source: read, stored, refused, broken, discarded.

use std::collections::VecDeque;

use proptest::prelude::*;
use tidegate_codec::Headers;

use super::*;
use crate::tests::wait;

/// One action of a source.
#[derive(Clone, Debug)]
enum Event {
    Bytes(&'static str),
    End,
    /// Nothing has arrived yet.
    Pause,
    Fail(u16),
}
use Event::{Bytes as Give, End, Fail, Pause};

struct Script {
    events: VecDeque<Event>,
    trailers: bool,
}

fn error(status: u16) -> RequestBodyError {
    match status {
        408 => RequestBodyError::Timeout,
        413 => RequestBodyError::TooLarge,
        400 => RequestBodyError::Malformed("bad chunk"),
        499 => RequestBodyError::Closed,
        _ => RequestBodyError::Io(io::Error::other("disk")),
    }
}

impl BodySource for Script {
    fn set_timeout(&mut self, _: std::time::Duration) {}

    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>> {
        Poll::Ready(match self.events.pop_front().expect("read behind the end") {
            Give(text) => Ok(Some(Bytes::from_static(text.as_bytes()))),
            End => Ok(None),
            Fail(status) => Err(error(status)),
            Pause => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        })
    }

    fn take_received(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        match self.events.front() {
            None | Some(Pause) => return Ok(None),
            Some(_) => {}
        }
        match self.events.pop_front() {
            Some(Give(text)) => Ok(Some(Some(Bytes::from_static(text.as_bytes())))),
            Some(Fail(status)) => Err(error(status)),
            _ => Ok(Some(None)),
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        let mut headers = Headers::new();
        headers.push(b"T", b"1");
        self.trailers.then_some(headers)
    }
}

fn body(length: Option<u64>, events: &[Event]) -> RequestBody {
    let source = Script { events: events.iter().cloned().collect(), trailers: length.is_none() };
    RequestBody::new(length, length.is_none(), Box::new(source))
}

/// Reads a body: its pieces, then `.` for the end or the status of the error.
async fn read(body: &mut RequestBody) -> String {
    let mut text = String::new();
    loop {
        match body.next().await {
            Ok(Some(bytes)) => text.push_str(&format!("{} ", String::from_utf8_lossy(&bytes))),
            Ok(None) => return format!("{text}."),
            Err(error) => return format!("{text}{}", error.status()),
        }
    }
}

/// Checks the reading of a body of this length (`None`: in chunks) under this limit; it is finished then.
fn check(length: Option<u64>, limit: Option<u64>, events: &[Event], expected: &str) {
    let mut body = body(length, events);
    body.set_limit(limit);
    assert!(body.is_present() == (length != Some(0)) && !body.is_finished() && !body.is_broken());
    let text = wait(read(&mut body));
    assert_eq!(text, expected, "{length:?} {limit:?} {events:?}");
    let is_whole = expected.ends_with('.');
    assert_eq!((body.is_finished(), body.is_broken()), (true, !is_whole), "{events:?}");
    // A broken body yields nothing more.
    assert_eq!(
        (body.is_present(), wait(read(&mut body))),
        (is_whole && length != Some(0), ".".to_owned())
    );
}

#[test]
fn bodies_end_with_their_length_or_their_last_chunk() {
    // With a length, the source is not polled for the end.
    check(Some(3), None, &[Give("ab"), Give("c")], "ab c .");
    check(Some(3), None, &[Pause, Give("ab"), Pause, Pause, Give("c")], "ab c .");
    check(None, None, &[Give("ab"), Pause, Give("c"), Pause, End], "ab c .");
    check(None, None, &[End], ".");
    check(Some(0), None, &[End], ".");
}

#[test]
fn errors_of_bodies_have_a_status() {
    for (status, shown) in [(408, "408"), (413, "413"), (400, "400"), (499, "400"), (500, "500")] {
        check(Some(9), None, &[Give("ab"), Fail(status)], &format!("ab {shown}"));
        check(None, None, &[Pause, Fail(status)], shown);
    }
}

#[test]
fn bodies_have_a_limit() {
    for (limit, events, expected) in [
        (Some(3), &[Give("ab"), Give("c"), End][..], "ab c ."),
        (Some(2), &[Give("ab"), Give("c")], "ab 413"),
        (Some(0), &[End], "."),
        (Some(0), &[Give("a")], "413"),
        (None, &[Give("abcdefghi"), End], "abcdefghi ."),
    ] {
        check(None, limit, events, expected);
    }
    // A further limit applies where it is lower.
    for (first, further, expected) in
        [(Some(2), 5, "413"), (Some(5), 2, "413"), (None, 2, "413"), (Some(5), 3, "abc .")]
    {
        let mut body = body(None, &[Give("abc"), End]);
        body.set_limit(first);
        body.lower_limit(further);
        assert_eq!(wait(read(&mut body)), expected, "{first:?} {further}");
    }
}

#[test]
fn received_bytes_and_trailers_are_known_after_the_end() {
    let mut body = body(None, &[Give("ab"), Pause, Give("c"), End]);
    assert_eq!((body.received(), body.trailers().is_none()), (0, true));
    assert_eq!(wait(read(&mut body)), "ab c .");
    assert_eq!(body.received(), 3);
    assert_eq!(body.trailers().and_then(|trailers| trailers.first_named(b"t")), Some(&b"1"[..]));
    let empty = RequestBody::default();
    assert!(!empty.is_present() && empty.is_finished() && !empty.is_broken());
}

/// The received part of an unread body is dropped; a malformed one is still an error.
#[test]
fn received_bytes_are_discarded() {
    for (events, expected) in [
        (&[Pause, Give("a")][..], (None, 0, false)),
        (&[Give("a"), Give("b"), Pause], (None, 2, false)),
        (&[Give("a"), End], (None, 1, true)),
        (&[End], (None, 0, true)),
        (&[Give("a"), Fail(400)], (Some(400), 1, true)),
    ] {
        let mut body = body(None, events);
        let error = body.discard_received().err().map(|error| error.status());
        assert_eq!((error, body.received(), body.is_finished()), expected, "{events:?}");
        assert_eq!(body.is_broken(), error.is_some());
    }
    assert!(RequestBody::default().discard_received().is_ok());
    let mut abandoned = body(Some(5), &[Give("a")]);
    abandoned.abandon();
    assert!(abandoned.is_broken() && abandoned.is_finished() && !abandoned.is_present());
}

fn options(memory_bytes_max: usize, in_file_only: bool, clean: bool, dir: &Path) -> StoreOptions {
    let temp_path = dir.join("temp");
    StoreOptions { memory_bytes_max, temp_path, levels: vec![1, 2], in_file_only, clean }
}

/// Returns the whole stored body.
fn content(stored: &StoredBody) -> String {
    let mut text = Vec::new();
    for chunk in stored.chunks() {
        match chunk {
            Chunk::Bytes(bytes) => text.extend_from_slice(&bytes),
            Chunk::File(range) => {
                let mut bytes = vec![0; range.length as usize];
                let count =
                    tidegate_os::file::pread(&range.file, &mut bytes, range.offset).unwrap();
                text.extend_from_slice(&bytes[..count]);
            }
            Chunk::Flush => {}
        }
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_body_is_stored_in_memory_and_then_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for (pieces, memory, in_file_only, in_file) in [
        (&["ab", "cd"][..], 4, false, false),
        (&["ab", "cd"], 3, false, true),
        (&["abcd"], 3, false, true),
        (&["a", "b", "c", "d", "e"], 2, false, true),
        (&["ab"], 100, true, true),
        (&[], 0, false, false),
        (&[], 0, true, true),
    ] {
        let events: Vec<Event> = pieces.iter().map(|text| Give(text)).chain([End]).collect();
        let mut body = body(None, &events);
        let options = options(memory, in_file_only, false, dir.path());
        let stored = wait(body.store(&options)).unwrap();
        assert_eq!(
            (content(&stored), stored.length),
            (pieces.concat(), pieces.concat().len() as u64)
        );
        let is_named = stored.path.as_ref().is_some_and(|path| path.exists());
        assert_eq!(
            (stored.file.is_some(), is_named),
            (in_file, in_file_only),
            "{pieces:?} {memory}"
        );
        // It is read once.
        let again = wait(body.store(&options)).unwrap();
        assert!(Arc::ptr_eq(&stored, &again) && Arc::ptr_eq(body.stored().unwrap(), &again));
    }
    // No body, no file.
    let stored = wait(RequestBody::default().store(&options(0, true, false, dir.path()))).unwrap();
    assert!(stored.file.is_none() && stored.length == 0 && content(&stored).is_empty());
}

#[test]
fn a_file_is_deleted_with_the_request_under_clean() {
    let dir = tempfile::tempdir().unwrap();
    for clean in [true, false] {
        let mut body = body(None, &[Give("abc"), End]);
        let stored = wait(body.store(&options(0, true, clean, dir.path()))).unwrap();
        let path = stored.path.as_ref().unwrap().to_path_buf();
        // Two levels of directories, by the last digits of the name.
        let below =
            path.strip_prefix(dir.path().join("temp")).unwrap().to_str().unwrap().to_owned();
        let name = below.rsplit('/').next().unwrap();
        assert_eq!(below, format!("{}/{}/{name}", &name[9..], &name[7..9]));
        drop((stored, body));
        while clean && path.exists() {
            // The pool that deletes it may do other work first.
            wait(blocking::run(|| Ok(()))).unwrap();
        }
        assert_eq!(path.exists(), !clean);
    }
}

#[test]
fn a_body_that_cannot_be_stored_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("temp"), "a file where a directory should be").unwrap();
    let mut whole = body(None, &[Give("abc"), End]);
    let error = wait(whole.store(&options(0, false, false, dir.path()))).unwrap_err();
    assert!(matches!(error, RequestBodyError::Io(_)) && error.status() == 500);
    assert!(whole.stored().is_none());
    let mut torn = body(None, &[Give("abc"), Fail(408)]);
    let error = wait(torn.store(&options(9, false, false, dir.path()))).unwrap_err();
    assert_eq!((error.status(), torn.stored().is_none()), (408, true));
}

#[test]
fn a_stored_body_replaces_the_clients() {
    let mut body = RequestBody::default();
    let stored = StoredBody { memory: vec!["abc".into()], length: 3, ..StoredBody::default() };
    body.set_stored(Arc::new(stored));
    assert_eq!((body.length, body.is_present(), body.is_finished()), (Some(3), true, true));
    assert_eq!(content(body.stored().unwrap()), "abc");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A stored body has the received bytes, in any pieces and in memory or a file.
    #[test]
    fn a_kept_body_is_what_was_sent(
        pieces in prop::collection::vec(prop::sample::select(vec!["", "a", "bc", "defghijk"]), 0..20),
        pauses in prop::collection::vec(any::<bool>(), 20),
        memory in 0..40_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut events = Vec::new();
        for (piece, pause) in pieces.iter().zip(pauses) {
            events.extend(pause.then_some(Pause));
            events.push(Give(piece));
        }
        events.push(End);
        let mut body = body(None, &events);
        let stored = wait(body.store(&options(memory, false, false, dir.path()))).unwrap();
        let whole = pieces.concat();
        prop_assert_eq!(content(&stored), whole.clone());
        prop_assert_eq!(stored.file.is_some(), whole.len() > memory);
    }
}
