//! One request and its response, independent of the protocol: handlers, filters and variables work on it.

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

use tidegate_codec::{Headers, Known};

use crate::client::{Address, Client, Connection};
use crate::figures::Processing;
use crate::ids::LocationId;
use crate::plan::{Location, Plan, Server};
use crate::settings::Settings;
use crate::timeline::Timeline;
use crate::variables::VariableId;

pub use disposition::Disposition;
pub use lineage::{Inherited, Lineage};
pub use modules::{Captures, Extensions, ModuleState};
pub(crate) use progress::Evaluating;
pub use progress::{Outcome, Progress};
use recycle::Buffer;
pub use request::{PathSource, Request};
pub use response::{
    ClientAbort, Conditions, DeliveryHints, FieldOwner, Filtering, HeadSending, PieceSending,
    RangeSupport, Response,
};
pub(crate) use routing::PathState;
pub use routing::{ExchangeKind, REDIRECTS_MAX, Routing};

/// A thread's reference to a generation's plan: cloning it costs no atomic operation.
#[derive(Clone)]
pub struct PlanRef(Rc<SharedPlan>);

/// The thread's single count of the plan that all threads share; the `Rc` around it counts within the thread.
struct SharedPlan {
    plan: Arc<Plan>,
}

impl PlanRef {
    /// Creates a thread's reference to a plan.
    pub fn new(plan: Arc<Plan>) -> PlanRef {
        PlanRef(Rc::new(SharedPlan { plan }))
    }

    /// Returns the plan's shared reference, for values that cross threads.
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

/// A reference to one location that keeps the location's plan.
pub struct LocationRef {
    plan: PlanRef,
    location: LocationId,
}

impl LocationRef {
    /// Creates a reference to a location of `plan`.
    pub fn new(plan: PlanRef, location: LocationId) -> LocationRef {
        LocationRef { plan, location }
    }
}

impl Deref for LocationRef {
    type Target = Location;

    fn deref(&self) -> &Location {
        self.plan.location(self.location)
    }
}

/// Variables that are evaluated one for the other, at most. Each takes a part of the thread's stack.
const EVALUATING_MAX: u8 = 100;

/// One request and its response. A new exchange has the defaults of all parts; so has a recycled one.
pub struct Exchange {
    /// The configuration that the request is served by.
    pub plan: PlanRef,
    /// The client's connection, shared with its other requests.
    pub connection: Rc<Connection>,
    /// The driver's side of the request.
    pub client: Rc<dyn Client>,
    /// The request's number on its connection, counted from 1: `$connection_requests`. Streams share a connection,
    /// where further requests may have begun since.
    pub ordinal: u64,
    /// Server and location.
    pub routing: Routing,
    /// The client's request.
    pub request: Request,
    /// The response's head.
    pub response: Response,
    /// How the response is to be sent.
    pub delivery: DeliveryHints,
    /// The response's status, and whether the connection stays open.
    pub disposition: Disposition,
    /// State of modules, captures and variables.
    pub modules: ModuleState,
    /// What is being done, for log lines.
    pub progress: Progress,
    /// What was received and sent, for logs.
    pub outcome: Outcome,
    /// Fields that are added to the next response, however it is made: they survive an internal redirect
    /// (`X-Accel-Redirect`, an intercepted 401). A `Content-Type` among them is only for responses whose type comes
    /// from the file's name.
    pub preserved_headers: Headers,
    /// `$limit_rate` in bytes a second, set by a variable or by `X-Accel-Limit-Rate`. It survives an internal redirect.
    pub limit_rate: Option<u64>,
    /// State shared with its parent and its subrequests.
    pub lineage: Lineage,
    /// Counts it as in progress in the status zone of its server.
    pub processing: Option<Processing>,
    /// Where its time goes: on if the plan asks for it. A subrequest has none: it is part of its parent's.
    pub timeline: Option<Rc<Timeline>>,
}

impl Exchange {
    /// Creates an exchange on a connection.
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
            processing: None,
            timeline: None,
        };
        x.modules.slots.resize(x.plan.slot_count, None);
        x
    }

    /// Makes it a new exchange on the same connection; the memory of its buffers is kept.
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
            processing,
            timeline,
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
        *processing = None;
        if let Some(timeline) = timeline {
            timeline.end();
        }
        modules.slots.resize(plan.slot_count, None);
    }

    /// Drops the response made so far.
    pub fn clear_response(&mut self) {
        self.response.empty();
        self.delivery.empty();
        self.disposition.set_status(0);
    }

    /// Returns the server block that serves the request.
    pub fn server(&self) -> &Server {
        self.plan.server(self.routing.server)
    }

    /// Returns the current location.
    pub fn location(&self) -> &Location {
        self.plan.location(self.routing.location)
    }

    /// Returns whether the client came by TLS, to this server or to the one that has passed the request on: `$scheme`.
    pub fn is_https(&self) -> bool {
        self.connection.tls.is_some() || self.request.came_by_tls
    }

    /// Returns the client's address: the connection's, or the one that a trusted proxy reported.
    pub fn client_address(&self) -> &Address {
        match &self.request.real_client_address {
            Some(real) => &real.address,
            None => &self.connection.peer,
        }
    }

    /// Returns the text of [`Exchange::client_address`]: `$remote_addr`.
    pub fn client_text(&self) -> &str {
        match &self.request.real_client_address {
            Some(real) => &real.text,
            None => self.connection.peer_text(),
        }
    }

    /// Returns a reference to the current location that does not borrow the exchange: the location's handlers and
    /// templates take the whole exchange.
    pub fn location_ref(&self) -> LocationRef {
        LocationRef { plan: self.plan.clone(), location: self.routing.location }
    }

    /// Returns the core module's settings in the current location.
    pub fn settings(&self) -> &Settings {
        &self.plan.location(self.routing.location).settings
    }

    /// Sets the response's `Content-Type` to the media type of the request's path, unless that is empty.
    pub fn set_media_type(&mut self) {
        let settings = &self.plan.location(self.routing.location).settings;
        let media_type = settings.media_type(&self.request.path);
        if !media_type.is_empty() {
            self.response.headers.set_known(Known::ContentType, media_type);
        }
    }

    /// Appends a variable's value; returns `false` when it has none, or when it is the hundredth that is evaluated for another
    /// one: then they most likely are a circle (nginx: "cycle while evaluating variable").
    pub fn variable(&mut self, id: VariableId, out: &mut Vec<u8>) -> bool {
        let depth = match self.progress.evaluating {
            Evaluating::Circle => return false,
            Evaluating::Depth(depth) if depth >= EVALUATING_MAX => {
                crate::variables::report_circle(self, id);
                self.progress.evaluating = Evaluating::Circle;
                return false;
            }
            Evaluating::Depth(depth) => depth,
        };
        self.progress.evaluating = Evaluating::Depth(depth + 1);
        let found = crate::variables::evaluate(self, id, out);
        if depth == 0 || self.progress.evaluating != Evaluating::Circle {
            self.progress.evaluating = Evaluating::Depth(depth);
        }
        found
    }

    /// Appends the value of the variable of this name in lower case, whether the configuration uses it or
    /// not; returns `false` when it has none. For names in a response (SSI).
    pub fn variable_named(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        crate::variables::evaluate_named(self, name, out)
    }

    /// Gives a variable whose values live outside of requests another value ([`Changeable::Stored`]).
    ///
    /// [`Changeable::Stored`]: crate::variables::Changeable::Stored
    pub fn store_variable(&mut self, id: VariableId, value: &[u8]) {
        crate::variables::store(self, id, value);
    }

    /// Returns the value of a `set` variable or named capture.
    pub fn slot(&self, slot: usize) -> Option<&[u8]> {
        self.modules.slots.get(slot)?.as_deref()
    }

    /// Sets or removes the value of a `set` variable or named capture.
    pub fn set_slot(&mut self, slot: usize, value: Option<&[u8]>) {
        if let Some(place) = self.modules.slots.get_mut(slot) {
            *place = value.map(Rc::from);
        }
    }

    /// Runs `look`, and forgets the values that variables got in it: they are computed anew where they are needed again.
    pub fn without_keeping<R>(&mut self, look: impl FnOnce(&mut Exchange) -> R) -> R {
        let slots = self.modules.slots.clone();
        let found = look(self);
        self.modules.slots = slots;
        found
    }

    /// Replaces path and, if given, args; the location is looked up again after the rewrite phase.
    pub fn rewrite_to(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.set_path(path, args);
        self.routing.path = PathState::Changed;
    }

    /// Replaces path and, if given, args and stays in the location (`rewrite … break`).
    pub fn rewrite_in_place(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.set_path(path, args);
        self.routing.path = PathState::Replaced;
    }

    /// Replaces path and, if given, args without a new lookup.
    pub fn set_path(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.request.set_path(path, args);
    }

    /// Returns whether another exchange made this one.
    pub fn is_subrequest(&self) -> bool {
        self.routing.is_subrequest()
    }

    /// Returns `$host`: the request's host, or the server's first name.
    pub fn host(&self) -> &[u8] {
        if self.request.host.is_empty() {
            self.server().name.as_bytes()
        } else {
            &self.request.host
        }
    }
}
