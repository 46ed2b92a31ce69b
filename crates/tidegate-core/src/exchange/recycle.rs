//! Reuse of an exchange's memory for the connection's next request.
//!
//! Invariant: nothing of one request is visible in the next. Each part of an exchange lists all of its fields: those
//! that are emptied and keep their memory, and those that get their default again. A new field that is not listed does
//! not compile. A new exchange has the defaults of its parts, so a recycled one equals a new one.
//!
//! Fields are reset in place: an exchange has about a kilobyte, and building another one costs a request a tenth of
//! its instructions.

use std::rc::Rc;

use tidegate_codec::Headers;
use tidegate_codec::request::RequestHead;

/// A value that can be emptied and used again.
pub(super) trait Buffer {
    /// Removes all content; the capacity stays.
    fn empty(&mut self);
}

macro_rules! buffers {
    ($($type:ty),+) => {
        $(impl $crate::exchange::recycle::Buffer for $type {
            #[inline]
            fn empty(&mut self) {
                self.clear();
            }
        })+
    };
}

buffers!(RequestHead, Vec<u8>, Vec<Option<Rc<[u8]>>>, Headers, String);

/// Implements [`Buffer`] for a struct: the first fields keep their memory, the others get their default again.
macro_rules! recycled {
    ($type:ident: keeps { $($buffer:ident),* $(,)? } renews { $($field:ident),* $(,)? }) => {
        impl $crate::exchange::recycle::Buffer for $type {
            #[inline]
            fn empty(&mut self) {
                let $type { $($buffer,)* $($field,)* } = self;
                $($crate::exchange::recycle::Buffer::empty($buffer);)*
                $(*$field = Default::default();)*
            }
        }
    };
}

pub(super) use {buffers, recycled};
