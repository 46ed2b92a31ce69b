//! One request and its answer, above every protocol: what handlers, filters and variables work on.

mod recycle;
#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_http::request::{Method, RequestHead, TargetForm, Version};
use tidegate_http::{Headers, Known};
use tidegate_rt::sync::oneshot;

use crate::client::{Address, Client, ClientAddress, Connection};
use crate::error_log::Level;
use crate::plan::{Location, LocationId, Plan, Server, ServerId};
use crate::request_body::RequestBody;
use crate::session::Session;
use crate::settings::Settings;
use crate::subrequest::Lineage;
use crate::variables::VariableId;

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

/// The client's request as the phases see and change it.
#[derive(Default)]
pub struct Request {
    /// As received, with header fields.
    pub head: RequestHead,
    /// May differ from the received one after an internal redirect for an error page.
    pub method: Method,
    /// Decoded and normalised path: `$uri`.
    pub path: Vec<u8>,
    /// Query without `?`: `$args`.
    pub args: Vec<u8>,
    /// Lower-cased host without port, from the target or the `Host` field; empty if neither is there.
    pub host: Vec<u8>,
    /// The path is the received target's path, byte for byte (nothing decoded, merged or rewritten).
    pub path_is_raw: bool,
    /// Path and args are those of the received target, as decoded: nothing was rewritten or redirected.
    pub target_is_current: bool,
    pub body: RequestBody,
    pub keep_alive: bool,
    pub upgrade: bool,
    /// The client waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
}

impl Request {
    /// One header field's first value.
    pub fn header(&self, known: Known) -> Option<&[u8]> {
        self.head.headers.first(known)
    }

    pub fn version(&self) -> Version {
        self.head.version
    }

    /// `$request_uri`: the target as received, without the authority of an absolute one.
    pub fn target(&self) -> &[u8] {
        match self.head.form {
            TargetForm::Absolute => self.head.path_and_args(),
            // A tunnel has no path (RFC 9112 section 3.2.3); nginx shows this one.
            TargetForm::Authority => b"/",
            _ => self.head.target(),
        }
    }
}

/// The answer's head as handlers and filters build it. Length, connection and date are the driver's.
#[derive(Default)]
pub struct Response {
    pub status: u16,
    /// Reason phrase of an origin, when it is not the standard one.
    pub reason: Option<Bytes>,
    pub headers: Headers,
    /// Length to announce for a body that is not sent or not known (HEAD of an origin); else the body tells.
    pub content_length: Option<u64>,
    /// Seconds since 1970 of `Last-Modified`, for conditions and `expires modified`.
    pub last_modified: Option<i64>,
    /// Byte ranges may be served from this response.
    pub allow_ranges: bool,
    /// The body is one whose ranges were already cut (206 of an origin).
    pub single_range: bool,
    /// Charset that the origin asks for (`X-Accel-Charset`), for the charset module.
    pub charset: Option<Bytes>,
    /// `Date` is the origin's affair, even when it sends none (`proxy_pass_header Date`).
    pub omit_date: bool,
    /// The same for `Server`.
    pub omit_server: bool,
    /// The body's source does its work to the end although the client has left
    /// (`proxy_ignore_client_abort`).
    pub outlives_client: bool,
    /// Trailer fields may follow.
    pub expects_trailers: bool,
    /// Trailer fields as sent, known at the body's end: `$sent_trailer_*`.
    pub trailers: Headers,
    /// The client's conditions were the origin's to judge: they are not looked at again.
    pub conditions_judged: bool,
    /// The head leaves with the body's first bytes; if these do not come there is no answer.
    pub waits_for_body: bool,
    /// The body comes in pieces as others write them: small ones may wait a moment for more, so that they leave
    /// together (`*_buffering`).
    pub gathers: bool,
}

impl Response {
    /// Empties the head for another answer and keeps the memory.
    pub fn clear(&mut self) {
        recycle::Buffer::empty(self);
    }
}

/// Groups of the last matching regular expression: `$1` to `$9` and beyond.
#[derive(Clone, Default)]
pub struct Captures {
    pub subject: Vec<u8>,
    pub ranges: Vec<Option<(usize, usize)>>,
}

impl Captures {
    /// Group `index`; 0 is the whole match.
    pub fn group(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = (*self.ranges.get(index)?)?;
        self.subject.get(start..end)
    }

    pub fn clear(&mut self) {
        self.subject.clear();
        self.ranges.clear();
    }
}

/// State of modules for one request, by type. Few entries, so a list.
#[derive(Default)]
pub struct Extensions(Vec<(TypeId, Box<dyn Any>)>);

impl Extensions {
    pub fn of<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_ref()
    }

    pub fn of_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_mut()
    }

    pub fn insert<T: 'static>(&mut self, value: T) {
        self.remove::<T>();
        self.0.push((TypeId::of::<T>(), Box::new(value)));
    }

    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let place = self.0.iter().position(|(id, _)| *id == TypeId::of::<T>())?;
        self.0.swap_remove(place).1.downcast().ok().map(|boxed| *boxed)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What decides how the driver goes on after the answer, and what the log tells of it.
#[derive(Default)]
pub struct Outcome {
    /// Bytes sent including the head: `$bytes_sent`.
    pub bytes_sent: u64,
    /// `$body_bytes_sent`.
    pub body_bytes_sent: u64,
    /// Bytes of this request's head.
    pub request_length: u64,
    /// The answer was sent whole: `$request_completion` is `OK`.
    pub complete: bool,
    /// It had arrived, at least in part, before the answer to the one before was sent: `$pipe`.
    pub pipelined: bool,
    /// The answer's body was sent in chunks: `$sent_http_transfer_encoding`.
    pub chunked: bool,
    /// Ends when a log line that a pool's thread was given is written: the connection is closed behind that.
    pub logging: Option<oneshot::Receiver<()>>,
}

/// One request and its answer.
pub struct Exchange {
    pub plan: PlanRef,
    pub server: ServerId,
    pub location: LocationId,
    pub connection: Rc<Connection>,
    pub client: Rc<dyn Client>,
    /// Which request of its connection this is, from 1 on: `$connection_requests`. Streams share a connection, which
    /// may have begun others since.
    pub ordinal: u64,
    /// The client's address where it is not the connection's (`realip`), see [`Exchange::client_address`].
    pub real_client_address: Option<Rc<ClientAddress>>,
    pub request: Request,
    pub response: Response,
    pub captures: Captures,
    pub extensions: Extensions,
    pub outcome: Outcome,
    /// Values of `set` variables, named captures and cached computed variables.
    pub(crate) slots: Vec<Option<Rc<[u8]>>>,
    /// After an internal redirect: `internal` locations may be entered.
    pub internal: bool,
    /// Rewrites and internal redirects left before 500 (nginx's limit of ten).
    pub(crate) redirects_left: u8,
    pub(crate) path_changed: bool,
    /// The path was replaced after the location had been chosen by it: `alias` has nothing to cut off.
    pub(crate) path_replaced: bool,
    /// Fields that the next response gets whoever makes it, beside its own: they survive an internal redirect
    /// (`X-Accel-Redirect`, an intercepted 401). A `Content-Type` is for those that have none but by their name.
    pub preserved_headers: Headers,
    /// `try_files` in a regular-expression location with `alias`: the path is appended to the alias.
    pub alias_takes_path: bool,
    /// Status that a filter answers with instead of the response it was given.
    pub(crate) answer_instead: Option<u16>,
    /// An `error_page` is being served.
    pub(crate) error_page_active: bool,
    /// Status that `error_page … =code` forces on the next answer.
    pub(crate) status_override: Option<u16>,
    /// Status for the log when no answer was sent (400 before a head, 499).
    pub error_status: u16,
    /// The client may go on after this response: HTTP/1 leaves the connection open, if the protocol allows. HTTP/2 and
    /// HTTP/3, whose connections have streams of their own, do not ask.
    pub keep_alive: bool,
    /// `$limit_rate` set by a variable or `X-Accel-Limit-Rate`, bytes a second.
    pub limit_rate: Option<u64>,
    /// What is being done, for error log lines: "while …".
    pub action: &'static str,
    /// Origin in use, for error log lines.
    pub upstream_text: String,
    /// When the request's first byte came.
    pub started: std::time::Instant,
    /// A subrequest's parent gets the answer; nothing is logged unless `log_subrequest`.
    pub is_subrequest: bool,
    /// What it has in common with its parent and its subrequests.
    pub lineage: Lineage,
    /// First status that was to be answered by `error_page` or a built-in page.
    pub refused_with: Option<u16>,
    pub request_id: Option<Box<str>>,
}

impl Exchange {
    /// What it has of a session of `stream`, if it is one.
    pub fn session(&self) -> Option<&Session> {
        self.extensions.of()
    }

    pub fn server(&self) -> &Server {
        self.plan.server(self.server)
    }

    pub fn location(&self) -> &Location {
        self.plan.location(self.location)
    }

    /// The client's address: the connection's, or the one that a trusted proxy told.
    pub fn client_address(&self) -> &Address {
        match &self.real_client_address {
            Some(real) => &real.address,
            None => &self.connection.peer,
        }
    }

    /// The text of [`Exchange::client_address`]: `$remote_addr`.
    pub fn client_text(&self) -> &str {
        match &self.real_client_address {
            Some(real) => &real.text,
            None => self.connection.peer_text(),
        }
    }

    /// Settings of the core module in the present location.
    pub fn settings(&self) -> &Settings {
        &self.plan.location(self.location).settings
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
        self.slots.get(slot)?.as_deref()
    }

    pub fn set_slot(&mut self, slot: usize, value: Option<&[u8]>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value.map(Rc::from);
        }
    }

    /// Replaces path and, if given, args, so that after the rewrite phase a location is looked up anew.
    pub fn rewrite_to(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.set_path(path, args);
        self.path_changed = true;
    }

    /// Replaces path and args and stays in the location (`rewrite … break`).
    pub fn rewrite_in_place(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.set_path(path, args);
        self.path_changed = false;
        self.path_replaced = true;
    }

    /// Whether a 200 will be sent as an error, for which it stands in as its page.
    pub fn is_error_page(&self) -> bool {
        self.status_override.is_some_and(|status| !matches!(status, 200 | 206 | 304))
    }

    /// For filters: drops the response and answers with `status` as a handler's `Step::Status` would,
    /// by an `error_page` or the built-in page, which the later filters see.
    pub fn answer_instead(&mut self, status: u16) {
        self.answer_instead = Some(status);
    }

    /// Has the response leave with this status, which is looked at as if it were that of an error page.
    pub fn send_as(&mut self, status: u16) {
        self.status_override = Some(status);
    }

    /// `$status`: the answer's status, or what an error page's answer will be given, or why there was none.
    pub fn status(&self) -> u16 {
        match (self.error_status, self.status_override) {
            (0, None) => self.response.status,
            (0, Some(status)) => status,
            (status, _) => status,
        }
    }

    /// The path was replaced inside the location (`rewrite … break`): its prefix is not the location's name.
    pub fn path_was_replaced(&self) -> bool {
        self.path_replaced
    }

    /// Replaces path and args without a new lookup.
    pub fn set_path(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.request.path = path;
        self.request.path_is_raw = false;
        self.request.target_is_current = false;
        if let Some(args) = args {
            self.request.args = args;
        }
    }

    /// A rewrite was taken back (`break` behind `rewrite … last` of an outer block does not exist; `if` uses it).
    pub fn clear_path_changed(&mut self) {
        // A changed path that stays in its location: the prefix is no longer the location's name.
        self.path_replaced |= self.path_changed;
        self.path_changed = false;
    }

    /// Writes an error log line with this request's context.
    pub fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        let log = &self.settings().error_log;
        if log.enabled(level) {
            log.write(
                level,
                self.connection.number,
                &crate::error_log::with_context(self, message),
            );
        }
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

/// nginx's NGX_HTTP_MAX_URI_CHANGES as documented: "limited to 10".
pub const REDIRECTS_MAX: u8 = 10;
