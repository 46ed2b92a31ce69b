//! The fill that has taken the place of another one, whose origin is silent: it gets the readers if it brings the same.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_cache::{Fill, FillReader, FillWriter, Head};

use crate::cache::fill::origin::Resume;

/// What is known of a fill's successor.
pub(crate) enum Successor {
    Unknown,
    /// Its head has not come yet.
    Pending(FillReader),
    /// It brings something else.
    Mismatch,
}

impl Successor {
    /// Ready with a fill that brings what is missing in this one.
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

    /// The successor that brings the same, as soon as its head tells. One that nobody has noticed yet is not waited for.
    pub(crate) async fn with_the_same(&mut self, resume: &Resume) -> Option<Arc<Fill>> {
        let Successor::Pending(reader) = self else { return None };
        let Head::Ready(head) = reader.head().await else { return None };
        resume.is_same(&head).then(|| reader.fill().clone())
    }
}
