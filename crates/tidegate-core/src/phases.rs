//! The way of a request, as one table and one loop.
//!
//! | step | what happens | then |
//! |---|---|---|
//! | PostRead | `realip` and the like | ServerRewrite |
//! | ServerRewrite | `rewrite`, `set`, `return` of the server block | FindConfig |
//! | FindConfig | the location is chosen; `internal`, size limit, redirect to `…/` | Rewrite |
//! | Rewrite | `rewrite`, `if`, `set`, `return` of the location | PostRewrite |
//! | PostRewrite | path changed: FindConfig again, at most ten times | Preaccess |
//! | Preaccess | limits | Access |
//! | Access | `allow`, `deny`, `auth_*`; `satisfy` | PostAccess |
//! | PostAccess | the verdict of `satisfy any` | Precontent |
//! | Precontent | `try_files`, `mirror` | Content |
//! | Content | the location's own handler, or index, autoindex, static | answer |
//!
//! The answer then passes the location's filters in the order of the module list.

use tidegate_codec::{Headers, Known};

use crate::body::Body;
use crate::error_log::Level;
use crate::error_page::{self, Resolved};
use crate::exchange::Exchange;
pub use crate::handler::{Filter, Handler, Logger, PHASE_COUNT, Phase, Trailer};
use crate::phase_cursor::{Next, PhaseCursor, count_redirect};
use crate::plan::Plan;
use crate::refused::Refused;
use crate::step::{Jump, Step};

/// What the driver has to send.
pub enum Answer {
    /// `x.response` and this body.
    Send(Body),
    /// Nothing: close the connection.
    Close,
}

/// Takes a request with its server chosen through all phases and filters.
pub async fn run(x: &mut Exchange) -> Answer {
    // What comes before belongs to the connection and is done.
    tidegate_rt::turn::mark(|what| describe(x, what));
    let first = if x.is_subrequest() { Phase::ServerRewrite } else { Phase::PostRead };
    drive(x, first, None).await
}

/// What a turn of the loop is taken up with, for `loop_watchdog`.
fn describe(x: &Exchange, what: &mut Vec<u8>) {
    what.extend_from_slice(format!("connection *{}, request \"", x.connection.number).as_bytes());
    let line = x.request.head.line();
    what.extend_from_slice(&line[..line.len().min(LINE_SHOWN)]);
    what.push(b'"');
}

/// Bytes of a request line that are shown of a long turn.
const LINE_SHOWN: usize = 200;

/// The content phase and nothing else: no filters, no `error_page`. What is not an answer of the content
/// handler's own has no body.
pub(crate) async fn content_alone(x: &mut Exchange) -> Answer {
    let plan = x.plan.clone();
    match walk(x, &plan, Phase::Content).await {
        Step::Respond(body) => {
            if x.disposition.status() == 0 {
                x.disposition.set_status(200);
            }
            Answer::Send(body)
        }
        Step::Status(status) => {
            x.disposition.set_status(status);
            Answer::Send(Body::Empty)
        }
        _ => Answer::Close,
    }
}

/// What follows a response: the loggers of its location.
pub fn log(x: &mut Exchange) {
    for logger in &x.hold_location().loggers {
        logger(x);
    }
}

/// The trailer fields of an answer whose body has ended: those that came with it, then the location's.
pub fn trailers<'x>(x: &'x mut Exchange, body: &mut Body) -> &'x Headers {
    if let Some(trailers) = body.trailers() {
        x.response.trailers = trailers;
    }
    for trailer in &x.hold_location().trailers {
        trailer(x);
    }
    &x.response.trailers
}

/// Answers a request that cannot be taken through the phases (bad head, timeout) with `status`.
pub async fn refuse(x: &mut Exchange, status: u16) -> Answer {
    drive(x, Phase::PostRead, Some(status)).await
}

/// Runs `post_action` after an answer was sent: a request of its own whose answer nobody gets.
pub async fn post_action(x: &mut Exchange) {
    let plan = x.plan.clone();
    let settings = &plan.location(x.routing.location).settings;
    let Some(target) = settings.post_action.as_ref().map(|target| target.value(x)) else { return };
    let jump = match target.first() {
        Some(b'@') => Jump::Named(target),
        _ => {
            let (path, args) = error_page::split_args(target);
            Jump::Path { path, args }
        }
    };
    let (status, headers) = (x.disposition.status(), std::mem::take(&mut x.response.headers));
    x.request.method = tidegate_codec::request::Method::Get;
    if let Ok(phase) = enter(x, &plan, jump)
        && let Answer::Send(mut body) = drive(x, phase, None).await
    {
        while let Some(Ok(_)) = body.next().await {}
    }
    x.disposition.set_status(status);
    x.response.headers = headers;
}

async fn drive(x: &mut Exchange, mut phase: Phase, mut status: Option<u16>) -> Answer {
    // Handlers and filters take the whole exchange: what they are in is held beside it.
    let plan = x.plan.clone();
    loop {
        let step = match status.take() {
            Some(status) => Step::Status(status),
            None => walk(x, &plan, phase).await,
        };
        let step = match step {
            Step::Respond(body) => match x.request.body.discard_received() {
                Ok(()) => filtered(x, &plan, body),
                Err(error) => refused(x, &plan, error.status()),
            },
            Step::Close => Resolved::Close,
            Step::Jump(jump) => Resolved::Jump(jump),
            Step::Status(status) => refused(x, &plan, status),
            Step::Decline | Step::Next | Step::Wait(_) => Resolved::Close,
        };
        let jump = match step {
            Resolved::Send(body) => return Answer::Send(body),
            Resolved::Close => return Answer::Close,
            Resolved::Jump(jump) => jump,
        };
        match enter(x, &plan, jump) {
            Ok(next) => phase = next,
            Err(refused) => status = Some(refused.status()),
        }
        x.progress.action = "";
    }
}

/// Walks the phases from `phase` until something ends the request. The only place where a request waits,
/// so that what it keeps meanwhile stays small.
async fn walk(x: &mut Exchange, plan: &Plan, phase: Phase) -> Step<'static> {
    let mut cursor = PhaseCursor::new(x, plan, phase);
    loop {
        let end = match cursor.next(x) {
            Next::Run(handler) => {
                let step = match handler(x) {
                    Step::Wait(future) => future.await,
                    step => step.settled(),
                };
                cursor.after(x, step)
            }
            Next::EndBody => {
                let _ = x.request.body.next().await;
                None
            }
            Next::End(step) => Some(step),
        };
        match end {
            Some(Step::Status(401))
                if cursor.is_at_access() && !x.settings().auth_delay.is_zero() =>
            {
                return Box::pin(delay_unauthorized(x)).await;
            }
            Some(end) => return end,
            None => {}
        }
    }
}

/// `auth_delay`.
async fn delay_unauthorized(x: &mut Exchange) -> Step<'static> {
    x.log(Level::Info, format_args!("delaying unauthorized request"));
    match crate::pause::pause(x, x.settings().auth_delay).await {
        Ok(()) => Step::Status(401),
        Err(gone) => gone,
    }
}

/// A bare status becomes an answer or a jump to the one that stands for it.
fn refused(x: &mut Exchange, plan: &Plan, status: u16) -> Resolved {
    match error_page::resolve(x, status) {
        Resolved::Send(body) => filtered(x, plan, body),
        other => other,
    }
}

/// Adds preserved fields to the response's own; a type and a challenge take the place of others.
fn add_preserved(x: &mut Exchange) {
    let preserved = std::mem::take(&mut x.preserved_headers);
    for known in [Known::ContentType, Known::WwwAuthenticate] {
        if preserved.contains(known) {
            x.response.headers.remove(known);
        }
    }
    for (_, name, value) in preserved.iter() {
        x.response.headers.push(name, value);
    }
}

/// Makes the exchange ready for the target of an internal redirect.
fn enter(x: &mut Exchange, plan: &Plan, jump: Jump) -> Result<Phase, Refused> {
    count_redirect(x, Some(&jump))?;
    if let Jump::Named(name) = &jump
        && x.request.path.is_empty()
    {
        // As in nginx: a request whose line was not understood has no path to serve there.
        let name = String::from_utf8_lossy(name);
        let message = format_args!("empty URI in redirect to named location \"{name}\"");
        x.log(Level::Error, message);
        return Err(Refused::INTERNAL);
    }
    x.routing.make_internal();
    let belonging = status_required_header(x.disposition.status());
    let kept = belonging.and_then(|known| Some((known, x.response.headers.first(known)?.to_vec())));
    x.clear_response();
    if let Some((known, value)) = kept {
        x.response.headers.set_known(known, &value);
    }
    match jump {
        Jump::Path { path, args } => {
            x.set_path(path, Some(args));
            x.routing.location = plan.server(x.routing.server).location;
            Ok(Phase::ServerRewrite)
        }
        Jump::Named(name) => match plan.server(x.routing.server).named(&name) {
            Some(location) => {
                x.routing.location = location;
                Ok(Phase::Rewrite)
            }
            None => {
                let name = String::from_utf8_lossy(&name).into_owned();
                x.log(Level::Error, format_args!("could not find named location \"{name}\""));
                Err(Refused::INTERNAL)
            }
        },
    }
}

/// The field that is part of what a status says, so that its error page has it as well: the size behind
/// 416 (RFC 9110 section 15.5.17), the place of a redirect, the challenge of 401.
fn status_required_header(status: u16) -> Option<Known> {
    match status {
        301 | 302 | 303 | 307 | 308 => Some(Known::Location),
        401 => Some(Known::WwwAuthenticate),
        416 => Some(Known::ContentRange),
        _ => None,
    }
}

/// The part of the response's type that names its charset.
fn named_charset(x: &Exchange) -> Option<Vec<u8>> {
    let media_type = x.response.headers.first(Known::ContentType)?;
    let at = memchr::memmem::find(media_type, b"; charset=")?;
    Some(media_type[at..].to_vec())
}

fn filtered(x: &mut Exchange, plan: &Plan, mut body: Body) -> Resolved {
    if !x.preserved_headers.is_empty() {
        add_preserved(x);
    }
    if x.disposition.status() == 0 {
        x.disposition.set_status(200);
    }
    if let Some(status) = x.disposition.take_forced() {
        x.disposition.set_status(status);
        x.response.reason = None;
        if status == 204 {
            x.response.headers.remove(Known::ContentType);
        }
    }
    for filter in &plan.location(x.routing.location).filters {
        body = filter(x, body);
        let Some(status) = x.disposition.take_replacement() else { continue };
        let charset = named_charset(x);
        body = match error_page::resolve(x, status) {
            Resolved::Send(body) => body,
            other => return other,
        };
        // The filter that names it has run.
        if let (Some(charset), Some(b"text/html")) =
            (charset, x.response.headers.first(Known::ContentType))
        {
            let media_type = [b"text/html", &charset[..]].concat();
            x.response.headers.set_known(Known::ContentType, &media_type);
        }
        if let Some(status) = x.disposition.take_forced() {
            x.disposition.set_status(status);
        }
    }
    Resolved::Send(body)
}
