//! The fill that has replaced another one, whose origin is silent: it takes over the readers if it fetches the same
//! representation.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_cache::{Fill, FillReader, FillWriter, Head};

use crate::cache::fill::origin::Resume;

/// The state of a fill's successor.
pub(crate) enum Successor {
    Unknown,
    /// Its head has not arrived yet.
    Pending(FillReader),
    /// It has another representation.
    Mismatch,
}

impl Successor {
    /// Is ready with a fill that has the bytes missing in this one.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        writer: &FillWriter,
        resume: &Resume,
    ) -> Poll<Arc<Fill>> {
        if let Successor::Unknown = self {
            let successor = ready!(writer.poll_successor(context));
            *self = Successor::Pending(successor.reader(writer.fill().watermark()));
        }
        let Successor::Pending(reader) = self else { return Poll::Pending };
        match ready!(reader.poll_head(context)) {
            Head::Ready(head) if resume.is_same(&head) => Poll::Ready(reader.fill().clone()),
            _ => {
                *self = Successor::Mismatch;
                Poll::Pending
            }
        }
    }

    /// Waits for the successor's head and returns the successor if it has the same representation. A successor that
    /// has not been noticed yet is not waited for.
    pub(crate) async fn with_the_same(&mut self, resume: &Resume) -> Option<Arc<Fill>> {
        let Successor::Pending(reader) = self else { return None };
        let Head::Ready(head) = reader.head().await else { return None };
        resume.is_same(&head).then(|| reader.fill().clone())
    }
}
