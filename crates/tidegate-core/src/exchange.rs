//! One request and its answer, above every protocol: what handlers, filters and variables work on.

mod disposition;
mod lineage;
pub(crate) mod modules;
mod progress;
mod recycle;
mod request;
mod response;
mod routing;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_codec::Headers;

use crate::client::{Address, Client, Connection};
use crate::ids::LocationId;
use crate::plan::{Location, Plan, Server};
use crate::settings::Settings;
use crate::variables::VariableId;

pub use disposition::Disposition;
pub use lineage::{Inherited, Lineage};
pub use modules::{Captures, Extensions, ModuleState};
pub use progress::{Outcome, Progress};
use recycle::Buffer;
pub use request::{PathSource, Request};
pub use response::{
    ClientAbort, Conditions, DeliveryHints, FieldOwner, HeadSending, PieceSending, RangeSupport,
    Response,
};
pub(crate) use routing::PathState;
pub use routing::{Kind, REDIRECTS_MAX, Routing};

/// A thread's hold on a generation's plan: cloning it costs no atomic operation.
#[derive(Clone)]
pub struct PlanRef(Rc<Held>);

/// Behind the thread's own count, one count of the plan that all threads share.
struct Held {
    plan: Arc<Plan>,
}

impl PlanRef {
    pub fn new(plan: Arc<Plan>) -> PlanRef {
        PlanRef(Rc::new(Held { plan }))
    }

    /// The plan itself, for what must cross threads.
    pub fn shared(&self) -> &Arc<Plan> {
        &self.0.plan
    }
}

impl Deref for PlanRef {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0.plan
    }
}

/// A hold on one location of a plan.
pub struct LocationRef {
    plan: PlanRef,
    location: LocationId,
}

impl Deref for LocationRef {
    type Target = Location;

    fn deref(&self) -> &Location {
        self.plan.location(self.location)
    }
}

/// One request and its response. A fresh one has the defaults of all parts; so has a recycled one.
pub struct Exchange {
    pub plan: PlanRef,
    pub connection: Rc<Connection>,
    pub client: Rc<dyn Client>,
    /// Which request of its connection this is, from 1 on: `$connection_requests`. Streams share a connection, which
    /// may have begun others since.
    pub ordinal: u64,
    pub routing: Routing,
    pub request: Request,
    pub response: Response,
    pub delivery: DeliveryHints,
    pub disposition: Disposition,
    pub modules: ModuleState,
    pub progress: Progress,
    pub outcome: Outcome,
    /// Fields that the next response gets whoever makes it, beside its own: they survive an internal redirect
    /// (`X-Accel-Redirect`, an intercepted 401). A `Content-Type` is for those that have none but by their name.
    pub preserved_headers: Headers,
    /// `$limit_rate` set by a variable or `X-Accel-Limit-Rate`, bytes a second. It survives an internal redirect.
    pub limit_rate: Option<u64>,
    /// What it has in common with its parent and its subrequests.
    pub lineage: Lineage,
}

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

    pub fn server(&self) -> &Server {
        self.plan.server(self.routing.server)
    }

    pub fn location(&self) -> &Location {
        self.plan.location(self.routing.location)
    }

    /// The client's address: the connection's, or the one that a trusted proxy told.
    pub fn client_address(&self) -> &Address {
        match &self.request.real_client_address {
            Some(real) => &real.address,
            None => &self.connection.peer,
        }
    }

    /// The text of [`Exchange::client_address`]: `$remote_addr`.
    pub fn client_text(&self) -> &str {
        match &self.request.real_client_address {
            Some(real) => &real.text,
            None => self.connection.peer_text(),
        }
    }

    /// The present location, held beside the exchange: for handlers and templates of its own, which take the whole
    /// exchange.
    pub fn hold_location(&self) -> LocationRef {
        LocationRef { plan: self.plan.clone(), location: self.routing.location }
    }

    /// Settings of the core module in the present location.
    pub fn settings(&self) -> &Settings {
        &self.plan.location(self.routing.location).settings
    }

    /// Writes a variable's value; `false` when it has none.
    pub fn variable(&mut self, id: VariableId, out: &mut Vec<u8>) -> bool {
        crate::variables::evaluate(self, id, out)
    }

    /// Writes the value of the variable of this name in lower case, whether the configuration uses it or
    /// not; `false` when it has none. For names that come with an answer (SSI).
    pub fn variable_named(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        crate::variables::evaluate_named(self, name, out)
    }

    /// Value of a `set` variable or named capture.
    pub fn slot(&self, slot: usize) -> Option<&[u8]> {
        self.modules.slots.get(slot)?.as_deref()
    }

    pub fn set_slot(&mut self, slot: usize, value: Option<&[u8]>) {
        if let Some(place) = self.modules.slots.get_mut(slot) {
            *place = value.map(Rc::from);
        }
    }

    /// Replaces path and, if given, args, so that after the rewrite phase a location is looked up anew.
    pub fn rewrite_to(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.set_path(path, args);
        self.routing.path = PathState::Changed;
    }

    /// Replaces path and args and stays in the location (`rewrite … break`).
    pub fn rewrite_in_place(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.set_path(path, args);
        self.routing.path = PathState::Replaced;
    }

    /// Replaces path and, if given, args without a new lookup.
    pub fn set_path(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.request.set_path(path, args);
    }

    pub fn is_subrequest(&self) -> bool {
        self.routing.is_subrequest()
    }

    /// `$host`: from the request, or the server's first name.
    pub fn host(&self) -> &[u8] {
        if self.request.host.is_empty() {
            self.server().name.as_bytes()
        } else {
            &self.request.host
        }
    }
}
