//! A connection's next request in the memory of the one before.
//!
//! Invariant: nothing of one request is seen in the next. Each part of an exchange names all of its fields, those that
//! are emptied and keep their memory apart from those that get their default again; a field that is added and not named
//! does not compile. A fresh exchange has the defaults of its parts, so a recycled one is a fresh one.
//!
//! Fields are set where they are: an exchange has about a kilobyte, and to build another one beside it costs a
//! request a tenth of its instructions.

use std::rc::Rc;

use tidegate_codec::Headers;
use tidegate_codec::request::RequestHead;

/// Memory that can be emptied and used again.
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

/// A type of which some fields keep their memory; the others get their default again.
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
