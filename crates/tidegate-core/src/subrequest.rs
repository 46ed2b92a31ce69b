//! Subrequests: exchanges without a socket that go the same way as a client's, and whose answers their
//! maker gets (`auth_request`, `mirror`, SSI includes, …).
//!
//! ```ignore
//! let subrequest = x.subrequest(b"/part".to_vec(), Vec::new(), Options::default())?;
//! let reply = subrequest.run().await;
//! if reply.status() == 200 { body_parts.push(reply.into_body()) }
//! ```
//! A subrequest has its parent's connection, header fields and variables, passes the phases from the
//! server's rewrites on, and is let in without access checks, which its parent has passed. It is owned by
//! whoever made it: dropping it ends it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known};

use crate::body::{Body, BodyError, BodyStream, Chunk};
use crate::byte_body::{ByteBody, Piece};
use crate::client::{CancelCode, Client};
use crate::error_log::Level;
use crate::exchange::{DeliveryHints, Exchange, Kind, Outcome};
pub use crate::exchange::{Inherited, Lineage};
use crate::future::LocalFuture;
use crate::phases::{self, Answer};
use crate::request_body::{RequestBody, StoredBody};

/// How deep subrequests may make subrequests: nginx's limit of 50 below the first.
pub const DEPTH_MAX: u8 = 51;
/// Subrequests that one request may cause in all, about as many as nginx can have at a time: it ends
/// pages that include themselves several times.
pub const COUNT_MAX: u32 = 64_535;

/// What differs from a plain `GET` without a body.
#[derive(Clone, Default)]
pub struct Options {
    pub method: Method,
    pub body: SubrequestBody,
}

/// The request body of a subrequest.
#[derive(Clone, Default)]
pub enum SubrequestBody {
    #[default]
    None,
    /// The parent's, as far as it has been read by [`RequestBody::store`].
    Shared,
    Stored(Arc<StoredBody>),
}

/// A subrequest would lead too deep, or there were too many; it has been logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Exchange {
    /// Another exchange of the same request as it is now: for bodies that need variables and
    /// subrequests after the head has left. It has none of the modules' state. Every field is named, so that a new
    /// one is decided upon.
    pub fn fork(&mut self) -> Exchange {
        // It is made when it is first asked for, and must be the same for all.
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
        }
    }

    /// A subrequest for a decoded path and arguments.
    ///
    /// # Errors
    /// When [`DEPTH_MAX`] or [`COUNT_MAX`] is reached.
    pub fn subrequest(
        &mut self,
        path: Vec<u8>,
        args: Vec<u8>,
        options: Options,
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
        }
        x.lineage.depth += 1;
        x.client = Rc::new(PartOf(self.client.clone()));
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
        x.routing.kind = Kind::Subrequest;
        x.progress.action = "";
        Ok(Subrequest { x: Box::new(x), scope: Scope::Phases })
    }

    /// The same request once more, from this location's content handler on, for answers that are put
    /// together of several parts. Filters do not see its answer, and no `error_page` comes in its place:
    /// its maker looks at the status. Its maker also bounds the number, which does not count here.
    pub fn repetition(&mut self) -> Subrequest {
        let mut x = self.fork();
        x.client = Rc::new(PartOf(self.client.clone()));
        x.clear_response();
        x.routing.path = self.routing.path;
        x.routing.kind = Kind::Subrequest;
        x.progress.action = "";
        Subrequest { x: Box::new(x), scope: Scope::Content }
    }

    /// Takes over the variables that a subrequest changed.
    pub fn take_variables(&mut self, reply: &Reply) {
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

/// A subrequest that has not begun.
pub struct Subrequest {
    x: Box<Exchange>,
    scope: Scope,
}

/// What a subrequest goes through.
#[derive(Clone, Copy)]
enum Scope {
    Phases,
    Content,
}

impl Subrequest {
    /// Its exchange, to be changed before it begins.
    pub fn exchange(&mut self) -> &mut Exchange {
        &mut self.x
    }

    /// Goes its way; ready when the answer's head is.
    pub fn run(self) -> LocalFuture<'static, Reply> {
        let Subrequest { mut x, scope } = self;
        Box::pin(async move {
            let before = x.modules.slots.clone();
            let answer = match scope {
                Scope::Phases => phases::run(&mut x).await,
                Scope::Content => phases::content_alone(&mut x).await,
            };
            let (body, closed) = match answer {
                Answer::Close => (Body::Empty, true),
                Answer::Send(Body::Tunnel(_)) => (Body::Empty, false),
                Answer::Send(body) => (body, false),
            };
            Reply { x: Logged(x), body, closed, before }
        })
    }
}

/// A subrequest's answer.
pub struct Reply {
    x: Logged,
    body: Body,
    closed: bool,
    /// Variables as they were when it began.
    before: Vec<Option<Rc<[u8]>>>,
}

impl Reply {
    /// The answer's status; 0 when there is none (`return 444`, time-outs).
    pub fn status(&self) -> u16 {
        if self.closed { 0 } else { self.x.0.disposition.status() }
    }

    /// The status that was to be answered before `error_page` or the built-in page came in its place;
    /// `None` where a handler made the answer itself.
    pub fn refused_with(&self) -> Option<u16> {
        self.x.0.disposition.refused_with()
    }

    /// Its exchange, for variables (`$upstream_http_*`) and header fields.
    pub fn exchange(&mut self) -> &mut Exchange {
        &mut self.x.0
    }

    /// The answer's body. The subrequest ends, and is logged if it is to be, when that is over or dropped.
    pub fn into_body(self) -> Body {
        Body::Stream(Box::new(ReplyBody { body: self.body, x: self.x }))
    }

    /// Reads the body into memory.
    ///
    /// # Errors
    /// When it is longer than `bytes_max`, which is logged, or breaks off.
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

    /// Waits for the body's end without looking at it.
    pub async fn discard(self) {
        let mut body = self.into_body();
        while let Some(Ok(_)) = body.next().await {}
    }
}

/// Runs the loggers when it goes.
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

/// The client of a part: it can go, but nothing can be told to it.
struct PartOf(Rc<dyn Client>);

impl Client for PartOf {
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_gone(context)
    }

    /// A part cannot give up the whole.
    fn cancel(&self, _code: CancelCode) {}

    fn send_interim<'a>(
        &'a self,
        _status: u16,
        _headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        self.0.tcp_info()
    }
}
