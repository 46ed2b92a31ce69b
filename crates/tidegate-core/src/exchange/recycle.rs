//! A connection's next request in the memory of the one before.
//!
//! What is kept is named ([`Memory`]) and empty; everything else is made anew, so that a field which is added later
//! cannot carry one client's request into another's.

use std::rc::Rc;

use tidegate_http::Headers;
use tidegate_http::request::RequestHead;

use super::{Captures, Exchange, Extensions, Outcome, PlanRef, REDIRECTS_MAX, Request, Response};
use crate::client::{Client, Connection};
use crate::plan::{LocationId, ServerId};
use crate::subrequest::Lineage;

impl Exchange {
    /// A fresh exchange on a connection.
    pub fn new(plan: PlanRef, connection: Rc<Connection>, client: Rc<dyn Client>) -> Exchange {
        let mut x = Exchange::within(Memory::default(), plan, connection, client);
        x.started = tidegate_rt::clock::exact_now();
        x
    }

    /// Makes it a fresh exchange of the same connection; the memory of its buffers is kept.
    pub fn reset(&mut self, plan: PlanRef) {
        let memory = Memory::of(self);
        let (connection, client) = (self.connection.clone(), self.client.clone());
        *self = Exchange::within(memory, plan, connection, client);
    }

    /// The one place where an exchange begins: a new field gets its first value here.
    fn within(
        mut memory: Memory,
        plan: PlanRef,
        connection: Rc<Connection>,
        client: Rc<dyn Client>,
    ) -> Exchange {
        memory.slots.resize(plan.slot_count, None);
        Exchange {
            plan,
            server: ServerId(0),
            location: LocationId(0),
            connection,
            client,
            told_address: None,
            request: Request {
                head: memory.head,
                path: memory.path,
                args: memory.args,
                host: memory.host,
                ..Request::default()
            },
            response: Response { headers: memory.response_headers, ..Response::default() },
            captures: memory.captures,
            extensions: memory.extensions,
            outcome: Outcome::default(),
            slots: memory.slots,
            internal: false,
            redirects_left: REDIRECTS_MAX,
            path_changed: false,
            path_replaced: false,
            carried: memory.carried,
            alias_takes_path: false,
            answer_instead: None,
            error_page_active: false,
            status_override: None,
            error_status: 0,
            keep_alive: false,
            limit_rate: None,
            action: "reading client request line",
            upstream_text: memory.upstream_text,
            // Set exactly when the next request's first byte is there.
            started: tidegate_rt::clock::now(),
            is_subrequest: false,
            lineage: Lineage::default(),
            refused_with: None,
            request_id: None,
        }
    }
}

/// What a request leaves to the next: buffers with room and without content.
#[derive(Default)]
struct Memory {
    head: RequestHead,
    path: Vec<u8>,
    args: Vec<u8>,
    host: Vec<u8>,
    response_headers: Headers,
    captures: Captures,
    extensions: Extensions,
    slots: Vec<Option<Rc<[u8]>>>,
    carried: Headers,
    upstream_text: String,
}

impl Memory {
    fn of(x: &mut Exchange) -> Memory {
        let request = &mut x.request;
        Memory {
            head: emptied(&mut request.head),
            path: emptied(&mut request.path),
            args: emptied(&mut request.args),
            host: emptied(&mut request.host),
            response_headers: emptied(&mut x.response.headers),
            captures: emptied(&mut x.captures),
            extensions: emptied(&mut x.extensions),
            slots: emptied(&mut x.slots),
            carried: emptied(&mut x.carried),
            upstream_text: emptied(&mut x.upstream_text),
        }
    }
}

/// Takes a buffer and empties it.
#[inline]
pub(super) fn emptied<T: Buffer>(buffer: &mut T) -> T {
    let mut buffer = std::mem::take(buffer);
    buffer.empty();
    buffer
}

/// Memory that can be emptied and used again.
pub(super) trait Buffer: Default {
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

buffers!(RequestHead, Vec<u8>, Headers, Captures, Extensions, Vec<Option<Rc<[u8]>>>, String);
