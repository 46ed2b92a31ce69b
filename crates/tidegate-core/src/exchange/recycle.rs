//! A connection's next request in the memory of the one before.
//!
//! Invariant: nothing of one request is seen in the next. Each part of an exchange names all of its fields, those that
//! are emptied and keep their memory apart from those that get their default again; a field that is added and not named
//! does not compile. A fresh exchange has the defaults of its parts, so a recycled one is a fresh one.
//!
//! Fields are set where they are: an exchange has about a kilobyte, and to build another one beside it costs a
//! request a tenth of its instructions.

use std::rc::Rc;

use tidegate_http::Headers;
use tidegate_http::request::RequestHead;

use super::{Captures, Exchange, Extensions, PlanRef};
use crate::client::{Client, Connection};

/// Memory that can be emptied and used again.
pub(super) trait Buffer {
    /// Removes all content; the capacity stays.
    fn empty(&mut self);
}

macro_rules! buffers {
    ($($type:ty),+) => {
        $(impl Buffer for $type {
            #[inline]
            fn empty(&mut self) {
                self.clear();
            }
        })+
    };
}

buffers!(RequestHead, Vec<u8>, Vec<Option<Rc<[u8]>>>, Headers, Captures, Extensions, String);

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

pub(super) use recycled;

impl Exchange {
    /// A fresh exchange on a connection.
    pub fn new(plan: PlanRef, connection: Rc<Connection>, client: Rc<dyn Client>) -> Exchange {
        let mut x = Exchange {
            plan,
            connection,
            client,
            ordinal: 0,
            routing: Default::default(),
            request: Default::default(),
            response: Default::default(),
            delivery: Default::default(),
            disposition: Default::default(),
            modules: Default::default(),
            progress: Default::default(),
            outcome: Default::default(),
            preserved_headers: Default::default(),
            limit_rate: Default::default(),
            lineage: Default::default(),
        };
        x.modules.slots.resize(x.plan.slot_count, None);
        x
    }

    /// Makes it a fresh exchange of the same connection; the memory of its buffers is kept.
    pub fn reset(&mut self, fresh_plan: PlanRef) {
        let Exchange {
            plan,
            connection: _,
            client: _,
            ordinal,
            routing,
            request,
            response,
            delivery,
            disposition,
            modules,
            progress,
            outcome,
            preserved_headers,
            limit_rate,
            lineage,
        } = self;
        *plan = fresh_plan;
        *ordinal = 0;
        routing.empty();
        request.empty();
        response.empty();
        delivery.empty();
        disposition.empty();
        modules.empty();
        progress.empty();
        outcome.empty();
        preserved_headers.empty();
        *limit_rate = None;
        *lineage = Default::default();
        modules.slots.resize(plan.slot_count, None);
    }

    /// Drops the response made so far, and makes room for another.
    pub fn clear_response(&mut self) {
        self.response.empty();
        self.delivery.empty();
        self.disposition.set_status(0);
    }
}
