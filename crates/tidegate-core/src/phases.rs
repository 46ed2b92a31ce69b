//! The processing of a request, as one table and one loop.
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
//! | PostAccess | the result of `satisfy any` | Precontent |
//! | Precontent | `try_files`, `mirror` | Content |
//! | Content | the location's own handler, or index, autoindex, static | response |
//!
//! The response then passes the location's filters in the order of the module list.

use std::rc::Rc;

use tidegate_codec::{Headers, Known};

use crate::body::Body;
use crate::client::NoClient;
use crate::error_log::Level;
use crate::error_page::{self, StatusResult};
use crate::exchange::{Exchange, Filtering};
use crate::figures::Zone;
pub use crate::handler::{
    EnteringHandler, Filter, Logger, Phase, PhaseHandler, PhaseHandlers, Trailer,
};
use crate::location;
use crate::log_context::choose_tags;
use crate::phase_cursor::{NextAction, PhaseCursor, count_redirect};
use crate::plan::Plan;
use crate::refused::Refused;
use crate::step::{Jump, Step};
use crate::timeline::{self, Cause};

/// What the driver does after the phases.
pub enum PhaseResult {
    /// Sends `x.response` and this body.
    Send(Body),
    /// Sends nothing and closes the connection.
    Close,
}

/// Takes a request, whose server is chosen, through all phases and filters. Inlined, as the future would be copied.
#[inline(always)]
pub fn run(x: &mut Exchange) -> impl Future<Output = PhaseResult> {
    // From here on, the watchdog's time is the request's.
    tidegate_rt::iteration::mark(|what| describe(x, what));
    let mut first = Phase::ServerRewrite;
    if !x.is_subrequest() {
        first = Phase::PostRead;
        if let Some(zone) = x.location_ref().zone {
            count_in(x, zone);
        }
    }
    drive(x, first, None)
}

/// Counts a request as in progress.
#[inline(never)]
fn count_in(x: &mut Exchange, zone: &'static Zone) {
    x.processing = zone.begin();
}

/// Describes the request for the report of a long event-loop iteration (`loop_watchdog`).
fn describe(x: &Exchange, what: &mut Vec<u8>) {
    what.extend_from_slice(format!("connection *{}, request \"", x.connection.number).as_bytes());
    let line = x.request.head.line();
    what.extend_from_slice(&line[..line.len().min(LINE_SHOWN)]);
    what.push(b'"');
}

/// Most bytes of a request line in such a report.
const LINE_SHOWN: usize = 200;

/// Runs the content phase alone: no filters, no `error_page`. A bare status gets no body.
pub(crate) async fn content_alone(x: &mut Exchange) -> PhaseResult {
    // Held as in `drive`.
    let plan = x.plan.clone();
    match walk(x, &plan, Phase::Content).await {
        Step::Respond(body) => {
            if x.disposition.status() == 0 {
                x.disposition.set_status(200);
            }
            PhaseResult::Send(body)
        }
        Step::Status(status) => {
            x.disposition.set_status(status);
            PhaseResult::Send(Body::Empty)
        }
        _ => PhaseResult::Close,
    }
}

/// Runs the loggers of the request's location.
pub fn log(x: &mut Exchange) {
    if let Some(timeline) = x.timeline.as_ref().filter(|_| !x.is_subrequest()) {
        timeline::slow::count(timeline);
    }
    for logger in &x.location_ref().loggers {
        logger(x);
    }
}

/// Returns the trailer fields of a response whose body has ended: the body's own, then the location's.
pub fn trailers<'x>(x: &'x mut Exchange, body: &mut Body) -> &'x Headers {
    if let Some(trailers) = body.trailers() {
        x.response.trailers = trailers;
    }
    for trailer in &x.location_ref().trailers {
        trailer(x);
    }
    &x.response.trailers
}

/// Makes a response with `status` to a request that cannot pass the phases (bad head, timeout).
pub async fn refuse(x: &mut Exchange, status: u16) -> PhaseResult {
    for handler in &x.plan.clone().entering {
        drop(handler(x));
    }
    let timeline = x.timeline.clone();
    timeline::around(timeline.as_deref(), drive(x, Phase::PostRead, Some(status))).await
}

/// Runs `post_action` after a response was sent: an internal request whose response is discarded. It continues when the
/// client closes the connection, as clients may with their response.
pub async fn post_action(x: &mut Exchange) {
    let location = x.location_ref();
    let Some(target) = location.settings.post_action.as_ref() else { return };
    let target = target.value(x);
    let jump = match target.first() {
        Some(b'@') => Jump::Named(target),
        _ => {
            let (path, args) = error_page::split_args(target);
            Jump::Path { path, args }
        }
    };
    let (status, headers) = (x.disposition.status(), std::mem::take(&mut x.response.headers));
    x.request.body.forget_spent();
    let client = std::mem::replace(&mut x.client, Rc::new(NoClient));
    if let Ok(phase) = enter(x, jump) {
        let timeline = x.timeline.clone();
        timeline::around(timeline.as_deref(), discarded(x, phase)).await;
    }
    x.client = client;
    x.disposition.set_status(status);
    x.response.headers = headers;
}

/// Runs an internal request whose response is discarded.
async fn discarded(x: &mut Exchange, phase: Phase) {
    if let PhaseResult::Send(mut body) = drive(x, phase, None).await {
        while let Some(Ok(_)) = body.next().await {}
    }
}

async fn drive(x: &mut Exchange, mut phase: Phase, mut status: Option<u16>) -> PhaseResult {
    // Handlers and filters take the whole exchange, so the plan that owns them is held separately.
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
            Step::Close => StatusResult::Close,
            Step::Jump(jump) => StatusResult::Jump(jump),
            Step::Status(status) => refused(x, &plan, status),
            Step::Decline | Step::Next | Step::Wait(_) => StatusResult::Close,
        };
        let jump = match step {
            StatusResult::Send(body) => {
                x.debug(|| format!("response: {}", x.disposition.status()));
                return PhaseResult::Send(body);
            }
            StatusResult::Close => return PhaseResult::Close,
            StatusResult::Jump(jump) => jump,
        };
        match enter(x, jump) {
            Ok(next) => phase = next,
            Err(refused) => status = Some(refused.status()),
        }
        x.progress.action = "";
    }
}

/// Runs the phases from `phase` until a handler ends the request. The only place where a request waits, so that a
/// waiting request's future stays small.
async fn walk(x: &mut Exchange, plan: &Plan, phase: Phase) -> Step<'static> {
    let mut cursor = PhaseCursor::new(x, plan, phase);
    loop {
        let end = match cursor.next(x) {
            NextAction::Run(handler) => {
                let step = match handler(x) {
                    Step::Wait(future) => future.await,
                    step => step.settled(),
                };
                x.debug(|| format!("phase {:?}: {}", cursor.phase(), step.outline()));
                cursor.after(x, step)
            }
            NextAction::EndBody => {
                let _ = x.request.body.next().await;
                None
            }
            NextAction::End(step) => Some(step),
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

/// Delays a 401 by `auth_delay`.
async fn delay_unauthorized(x: &mut Exchange) -> Step<'static> {
    x.log(Level::Info, format_args!("delaying unauthorized request"));
    match crate::pause::pause(x, x.settings().auth_delay, Cause::Auth).await {
        Ok(()) => Step::Status(401),
        Err(gone) => gone,
    }
}

/// Makes a response or an internal redirect of a bare status.
fn refused(x: &mut Exchange, plan: &Plan, status: u16) -> StatusResult {
    match error_page::resolve(x, status) {
        StatusResult::Send(body) => filtered(x, plan, body),
        other => other,
    }
}

/// Adds preserved fields to the response's own; a preserved type and challenge replace the response's.
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

/// Prepares the exchange for the target of an internal redirect and returns the phase to go on with.
fn enter(x: &mut Exchange, jump: Jump) -> Result<Phase, Refused> {
    count_redirect(x, Some(&jump))?;
    if let Jump::Named(name) = &jump
        && x.request.path.is_empty()
    {
        // As in nginx: a request whose line is invalid has no path for the named location.
        let name = String::from_utf8_lossy(name);
        let message = format_args!("empty URI in redirect to named location \"{name}\"");
        x.log(Level::Error, message);
        return Err(Refused::INTERNAL);
    }
    x.routing.make_internal();
    // The response made so far is dropped; only the field that its status requires is kept for the error page.
    let belonging = status_required_header(x.disposition.status());
    let kept = belonging.and_then(|known| Some((known, x.response.headers.first(known)?.to_vec())));
    x.clear_response();
    if let Some((known, value)) = kept {
        x.response.headers.set_known(known, &value);
    }
    match jump {
        Jump::Path { path, args } => {
            x.set_path(path, Some(args));
            x.routing.location = x.server().location;
            Ok(Phase::ServerRewrite)
        }
        Jump::Named(name) => match x.server().named(&name) {
            Some(named) => {
                x.routing.location = named;
                location::set_body_limits(x);
                let plan = x.plan.clone();
                location::enter_limit_except(x, plan.location(named));
                choose_tags(x);
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

/// Returns the field that a status requires, which its error page keeps: the size with 416 (RFC 9110 section
/// 15.5.17), the target of a redirect, the challenge of 401.
fn status_required_header(status: u16) -> Option<Known> {
    match status {
        301 | 302 | 303 | 307 | 308 => Some(Known::Location),
        401 => Some(Known::WwwAuthenticate),
        416 => Some(Known::ContentRange),
        _ => None,
    }
}

/// Returns the `charset` parameter of the response's type, from the semicolon on.
fn named_charset(x: &Exchange) -> Option<Vec<u8>> {
    let media_type = x.response.headers.first(Known::ContentType)?;
    let at = memchr::memmem::find(media_type, b"; charset=")?;
    Some(media_type[at..].to_vec())
}

fn filtered(x: &mut Exchange, plan: &Plan, mut body: Body) -> StatusResult {
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
    if x.delivery.filtering == Filtering::Unchanged {
        return StatusResult::Send(body);
    }
    for filter in &plan.location(x.routing.location).filters {
        body = filter(x, body);
        let Some(status) = x.disposition.take_replacement() else { continue };
        let charset = named_charset(x);
        body = match error_page::resolve(x, status) {
            StatusResult::Send(body) => body,
            other => return other,
        };
        // The charset filter has run already, so the new page gets its parameter here.
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
    StatusResult::Send(body)
}
