//! A connection's next request in the memory of the one before.
//!
//! Invariant: nothing of one request is seen in the next. Each type here names all of its fields, those that are
//! emptied and keep their memory apart from those that get their first value again; a field that is added to the type
//! and not named here does not compile. The first values stand once, for new exchanges and for recycled ones.
//!
//! Fields are set where they are: an exchange has about a kilobyte, and to build another one beside it costs a
//! request a tenth of its instructions.

use std::rc::Rc;

use tidegate_http::Headers;
use tidegate_http::request::RequestHead;

use super::{Captures, Exchange, Extensions, PlanRef, REDIRECTS_MAX, Request, Response};
use crate::client::{Client, Connection};
use crate::plan::{LocationId, ServerId};

/// Memory that can be emptied and used again.
pub(super) trait Buffer {
    /// Removes all content; the capacity stays.
    fn empty(&mut self);
}

macro_rules! buffers {
    ($($type:ty),+) => {
        $(impl Buffer for $type {
            fn empty(&mut self) {
                self.clear();
            }
        })+
    };
}

buffers!(RequestHead, Vec<u8>, Headers, Captures, Extensions, String);

/// A type of which some fields keep their memory; the others get their default again.
macro_rules! recycled {
    ($type:ident: keeps { $($buffer:ident),+ $(,)? } renews { $($field:ident),+ $(,)? }) => {
        impl Buffer for $type {
            #[inline]
            fn empty(&mut self) {
                let $type { $($buffer,)+ $($field,)+ } = self;
                $($buffer.empty();)+
                $(*$field = Default::default();)+
            }
        }
    };
}

recycled!(Request:
    keeps { head, path, args, host }
    renews {
        method, path_is_raw, target_is_current, body, keep_alive, upgrade, expects_continue,
    }
);

recycled!(Response:
    keeps { headers, trailers }
    renews {
        status, reason, content_length, last_modified, allow_ranges, single_range, charset, omit_date, omit_server,
        outlives_client, expects_trailers, conditions_judged, waits_for_body, gathers,
    }
);

/// The same for exchanges, whose first values are given.
macro_rules! exchanges {
    (keeps { $($buffer:ident),+ $(,)? } renews { $($field:ident: $value:expr),+ $(,)? }) => {
        impl Exchange {
            /// A fresh exchange on a connection.
            pub fn new(
                plan: PlanRef,
                connection: Rc<Connection>,
                client: Rc<dyn Client>,
            ) -> Exchange {
                let slots = vec![None; plan.slot_count];
                Exchange {
                    plan,
                    connection,
                    client,
                    slots,
                    // A recycled one gets it exactly when the next request's first byte is there.
                    started: tidegate_rt::clock::exact_now(),
                    $($buffer: Default::default(),)+
                    $($field: $value,)+
                }
            }

            /// Makes it a fresh exchange of the same connection; the memory of its buffers is kept.
            pub fn reset(&mut self, plan: PlanRef) {
                self.slots.clear();
                self.slots.resize(plan.slot_count, None);
                self.plan = plan;
                self.started = tidegate_rt::clock::now();
                let Exchange {
                    plan: _,
                    connection: _,
                    client: _,
                    slots: _,
                    started: _,
                    $($buffer,)+
                    $($field,)+
                } = self;
                $($buffer.empty();)+
                $(*$field = $value;)+
            }
        }
    };
}

exchanges!(
    keeps { request, response, captures, extensions, preserved_headers, upstream_text }
    renews {
        server: ServerId(0),
        location: LocationId(0),
        ordinal: 0,
        real_client_address: None,
        outcome: Default::default(),
        internal: false,
        redirects_left: REDIRECTS_MAX,
        path_changed: false,
        path_replaced: false,
        alias_takes_path: false,
        answer_instead: None,
        error_page_active: false,
        status_override: None,
        error_status: 0,
        keep_alive: false,
        limit_rate: None,
        action: "reading client request line",
        is_subrequest: false,
        lineage: Default::default(),
        refused_with: None,
        request_id: None,
    }
);
