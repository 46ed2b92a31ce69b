//! Subrequests: exchanges without a socket that pass the same phases as a client's; the caller gets the response
//! (`auth_request`, `mirror`, SSI includes, …).
//!
//! ```ignore
//! let subrequest = x.subrequest(b"/part".to_vec(), Vec::new(), SubrequestOptions::default())?;
//! let reply = subrequest.run().await;
//! if reply.status() == 200 { body_parts.push(reply.into_body()) }
//! ```
//! A subrequest has its parent's connection, fields and variables, passes the phases from the server's rewrites on,
//! and skips access checks, which its parent has passed. The caller owns it: dropping it ends it.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known};

use crate::body::{Body, BodyError, BodyStream, Chunk};
use crate::byte_body::{ByteBody, Piece};
use crate::client::{Client, Socketless};
use crate::error_log::Level;
use crate::exchange::{DeliveryHints, Exchange, ExchangeKind, Outcome};
pub use crate::exchange::{Inherited, Lineage};
use crate::future::LocalFuture;
use crate::phases::{self, PhaseResult};
use crate::request_body::{RequestBody, StoredBody};

/// Deepest nesting of subrequests: nginx's limit of 50 below the first.
pub const DEPTH_MAX: u8 = 51;
/// Most subrequests of one request, about the number that nginx can have at a time: it ends pages that include
/// themselves several times.
pub const COUNT_MAX: u32 = 64_535;

/// Method and body of a subrequest; by default `GET` without a body.
#[derive(Clone, Default)]
pub struct SubrequestOptions {
    /// The method.
    pub method: Method,
    /// The request body.
    pub body: SubrequestBody,
}

/// The request body of a subrequest.
#[derive(Clone, Default)]
pub enum SubrequestBody {
    /// No body.
    #[default]
    None,
    /// The parent's body, if it has been read by [`RequestBody::store`].
    Shared,
    /// This body.
    Stored(Arc<StoredBody>),
}

/// The error of a subrequest beyond [`DEPTH_MAX`] or [`COUNT_MAX`], which is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Exchange {
    /// Creates another exchange of the same request in its current state: for bodies that need variables and
    /// subrequests after the head is sent. It has none of the modules' state. Every field is listed, so that a new one
    /// does not compile until it is decided here.
    pub fn fork(&mut self) -> Exchange {
        // `$request_id` is made at its first use, and must be the same for all.
        let _ = self.request.made_id();
        Exchange {
            plan: self.plan.clone(),
            connection: self.connection.clone(),
            client: self.client.clone(),
            ordinal: self.ordinal,
            routing: self.routing.fork(),
            request: self.request.fork(),
            response: self.response.fork(),
            delivery: DeliveryHints::default(),
            disposition: self.disposition.fork(),
            modules: self.modules.fork(),
            progress: self.progress.fork(),
            outcome: Outcome::default(),
            preserved_headers: Headers::new(),
            limit_rate: self.limit_rate,
            lineage: self.lineage.fork(),
            processing: None,
            timeline: None,
        }
    }

    /// Returns the name of the request's method: the client's, or GET where an error page is requested. A request with an
    /// invalid method has none until then. In a subrequest it is that of the request.
    pub fn method_name(&self) -> &[u8] {
        if let Some(method) = self.lineage.method.as_deref().filter(|_| self.is_subrequest()) {
            return method;
        }
        let head = &self.request.head;
        let asked = !head.method_bytes().is_empty() || !self.routing.is_internal();
        match self.request.method == head.method && asked {
            true => head.method_bytes(),
            false => self.request.method.name().as_bytes(),
        }
    }

    /// Creates a subrequest for a decoded path and arguments.
    ///
    /// # Errors
    /// When [`DEPTH_MAX`] or [`COUNT_MAX`] is reached.
    pub fn subrequest(
        &mut self,
        path: Vec<u8>,
        args: Vec<u8>,
        options: SubrequestOptions,
    ) -> Result<Subrequest, TooMany> {
        let made = self.lineage.made.get_or_insert_default();
        if self.lineage.depth >= DEPTH_MAX || made.get() >= COUNT_MAX {
            let shown = String::from_utf8_lossy(&path);
            self.log(Level::Error, format_args!("subrequests cycle while processing \"{shown}\""));
            return Err(TooMany);
        }
        made.set(made.get() + 1);
        let mut x = self.fork();
        if !self.is_subrequest() {
            let page_type = self.response.headers.first(Known::ContentType);
            x.lineage.page_type = page_type.map(Rc::from);
            x.lineage.method = Some(Rc::from(self.method_name()));
        }
        x.lineage.depth += 1;
        x.client = Rc::new(SubrequestClient(self.client.clone()));
        x.clear_response();
        x.modules.captures.clear();
        x.set_path(path, Some(args));
        x.request.method = options.method;
        x.request.expects_continue = false;
        match options.body {
            SubrequestBody::None => x.request.body = RequestBody::default(),
            SubrequestBody::Shared => {}
            SubrequestBody::Stored(body) => x.request.body.set_stored(body),
        }
        x.routing.location = x.server().location;
        x.routing.make_internal();
        x.routing.kind = ExchangeKind::Subrequest;
        x.progress.action = "";
        Ok(Subrequest { x: Box::new(x), scope: Scope::Phases })
    }

    /// Creates a repetition of the request from this location's content handler on, for responses that are assembled
    /// of several parts. Its response passes no filters and gets no `error_page`: the caller evaluates the status.
    /// The caller also limits the number, which does not count for [`COUNT_MAX`].
    pub fn repetition(&mut self) -> Subrequest {
        let mut x = self.fork();
        x.client = Rc::new(SubrequestClient(self.client.clone()));
        x.clear_response();
        x.routing.path = self.routing.path;
        x.routing.kind = ExchangeKind::Subrequest;
        x.progress.action = "";
        Subrequest { x: Box::new(x), scope: Scope::Content }
    }

    /// Copies the variables that a subrequest has changed.
    pub fn take_variables(&mut self, reply: &SubrequestResponse) {
        let changes =
            reply.before.iter().zip(&reply.x.0.modules.slots).zip(&mut self.modules.slots);
        for ((before, after), own) in changes {
            let same = match (before, after) {
                (Some(before), Some(after)) => Rc::ptr_eq(before, after),
                (before, after) => before.is_none() && after.is_none(),
            };
            if !same {
                own.clone_from(after);
            }
        }
    }
}

/// A subrequest that has not started.
pub struct Subrequest {
    x: Box<Exchange>,
    scope: Scope,
}

/// The phases that a subrequest passes.
#[derive(Clone, Copy)]
enum Scope {
    Phases,
    Content,
}

impl Subrequest {
    /// Returns its exchange, for changes before the start.
    pub fn exchange(&mut self) -> &mut Exchange {
        &mut self.x
    }

    /// Runs the subrequest; becomes ready with the response's head.
    pub fn run(self) -> LocalFuture<'static, SubrequestResponse> {
        let Subrequest { mut x, scope } = self;
        Box::pin(async move {
            let before = x.modules.slots.clone();
            let response = match scope {
                Scope::Phases => phases::run(&mut x).await,
                Scope::Content => phases::content_alone(&mut x).await,
            };
            let (body, closed) = match response {
                PhaseResult::Close => (Body::Empty, true),
                PhaseResult::Send(Body::Tunnel(_)) => (Body::Empty, false),
                PhaseResult::Send(body) => (body, false),
            };
            SubrequestResponse { x: Logged(x), body, closed, before }
        })
    }
}

/// The response of a subrequest.
pub struct SubrequestResponse {
    x: Logged,
    body: Body,
    closed: bool,
    /// The variables at its start.
    before: Vec<Option<Rc<[u8]>>>,
}

impl SubrequestResponse {
    /// Returns the response's status; 0 where there is no response (`return 444`, time-outs).
    pub fn status(&self) -> u16 {
        if self.closed { 0 } else { self.x.0.disposition.status() }
    }

    /// Returns the status for which `error_page` or the built-in page was used; `None` where a handler made the
    /// response itself.
    pub fn refused_with(&self) -> Option<u16> {
        self.x.0.disposition.refused_with()
    }

    /// Returns its exchange, for variables (`$upstream_http_*`) and fields.
    pub fn exchange(&mut self) -> &mut Exchange {
        &mut self.x.0
    }

    /// Returns the response's body. The subrequest ends, and is logged with `log_subrequest`, when the body is dropped.
    pub fn into_body(self) -> Body {
        Body::Stream(Box::new(ReplyBody { body: self.body, x: self.x }))
    }

    /// Reads the body into memory.
    ///
    /// # Errors
    /// When it is longer than `bytes_max`, which is logged, or ends early.
    pub async fn read(mut self, bytes_max: usize) -> Result<Bytes, BodyError> {
        let mut body = ByteBody::new(std::mem::take(&mut self.body));
        let mut out = BytesMut::new();
        while let Some(piece) = body.next().await {
            let Piece::Bytes(bytes) = piece? else { continue };
            if out.len() + bytes.len() > bytes_max {
                let message =
                    format_args!("too big subrequest response: {bytes_max} bytes are allowed");
                self.x.0.log(Level::Error, message);
                return Err(BodyError::Incomplete);
            }
            out.extend_from_slice(&bytes);
        }
        Ok(out.freeze())
    }

    /// Reads the body to its end and drops it.
    pub async fn discard(self) {
        let mut body = self.into_body();
        while let Some(Ok(_)) = body.next().await {}
    }
}

/// An exchange whose loggers run when it is dropped.
struct Logged(Box<Exchange>);

impl Drop for Logged {
    fn drop(&mut self) {
        phases::log(&mut self.0);
    }
}

struct ReplyBody {
    body: Body,
    x: Logged,
}

impl BodyStream for ReplyBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let next = std::task::ready!(self.body.poll_chunk(context));
        let outcome = &mut self.x.0.outcome;
        match &next {
            Some(Ok(chunk)) => {
                outcome.body_bytes_sent += chunk.length();
                outcome.bytes_sent += chunk.length();
            }
            Some(Err(_)) => {}
            None => outcome.complete = true,
        }
        Poll::Ready(next)
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.body.trailers()
    }
}

/// The client of a subrequest: its closing is visible, but nothing is sent to it, and a subrequest cannot cancel the
/// client's request.
struct SubrequestClient(Rc<dyn Client>);

impl Socketless for SubrequestClient {
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_closed(context)
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        self.0.tcp_info()
    }
}
