//! Bodies made by a function: it continues only after each chunk was taken.

use std::cell::Cell;

use super::*;
use crate::tests::wait;

#[test]
fn the_function_continues_only_after_a_chunk_was_taken() {
    let step = Rc::<Cell<u32>>::default();
    let seen = step.clone();
    let mut body = generate(move |out| async move {
        for number in 1..=3_u32 {
            step.set(number);
            // A wait of the function does not hold back chunks.
            tidegate_rt::yield_now().await;
            out.put(Chunk::Bytes(number.to_string().into())).await;
        }
        let mut trailers = Headers::new();
        trailers.push(b"T", b"v");
        out.set_trailers(Some(trailers));
        Ok(())
    });
    assert_eq!((seen.get(), body.known_length()), (0, None));
    for expected in 1..=3_u32 {
        let Some(Ok(Chunk::Bytes(bytes))) = wait(body.next()) else {
            panic!("no piece {expected}")
        };
        assert_eq!((bytes, seen.get()), (expected.to_string().into(), expected));
    }
    assert!(wait(body.next()).is_none() && wait(body.next()).is_none());
    assert_eq!(body.trailers().map(|trailers| trailers.iter().count()), Some(1));
    assert!(body.trailers().is_none());
}

#[test]
fn an_error_ends_the_body() {
    let mut body = generate(|out| async move {
        out.put(Chunk::Flush).await;
        Err(BodyError::Incomplete)
    });
    assert!(matches!(wait(body.next()), Some(Ok(Chunk::Flush))));
    assert!(matches!(wait(body.next()), Some(Err(BodyError::Incomplete))));
    assert!(wait(body.next()).is_none());
}

#[test]
fn dropping_the_body_ends_the_function() {
    struct Guard(Rc<Cell<bool>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let ended = Rc::<Cell<bool>>::default();
    let guard = Guard(ended.clone());
    let mut body = generate(move |out| async move {
        let _guard = guard;
        loop {
            out.put(Chunk::Flush).await;
        }
    });
    for _ in 0..3 {
        assert!(matches!(wait(body.next()), Some(Ok(Chunk::Flush))));
    }
    assert!(!ended.get());
    drop(body);
    assert!(ended.get());
}
