//! Bodies made by an asynchronous function that yields chunks one by one and continues when a chunk has been taken.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_codec::Headers;

use crate::body::{Body, BodyError, BodyStream, Chunk};
use crate::future::LocalFuture;

/// The output of the function.
pub struct Yielder(Rc<RefCell<Slot>>);

#[derive(Default)]
struct Slot {
    chunk: Option<Chunk>,
    trailers: Option<Headers>,
}

impl Yielder {
    /// Yields a chunk; becomes ready when the chunk has been taken.
    pub async fn put(&self, chunk: Chunk) {
        self.0.borrow_mut().chunk = Some(chunk);
        // The stream polls the function only when the slot is empty, so no wake-up is needed.
        poll_fn(|_| if self.0.borrow().chunk.is_none() { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }

    /// Sets the trailer fields for the body's end.
    pub fn set_trailers(&self, trailers: Option<Headers>) {
        self.0.borrow_mut().trailers = trailers;
    }
}

/// Creates a body of the chunks that `make` yields.
pub fn generate<F>(make: impl FnOnce(Yielder) -> F) -> Body
where
    F: Future<Output = Result<(), BodyError>> + 'static,
{
    let slot = Rc::<RefCell<Slot>>::default();
    let future: LocalFuture<'static, _> = Box::pin(make(Yielder(slot.clone())));
    Body::Stream(Box::new(Generated { slot, future: Some(future) }))
}

struct Generated {
    slot: Rc<RefCell<Slot>>,
    future: Option<LocalFuture<'static, Result<(), BodyError>>>,
}

impl BodyStream for Generated {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let ended = future.as_mut().poll(context);
        if let Poll::Ready(result) = ended {
            self.future = None;
            return Poll::Ready(result.err().map(Err));
        }
        match self.slot.borrow_mut().chunk.take() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk))),
            None => Poll::Pending,
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.slot.borrow_mut().trailers.take()
    }
}
