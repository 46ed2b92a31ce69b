//! Passes a request to an application handler and its response back.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_codec::{Headers, Known, date};
use tidegate_core::body::FileRange;
use tidegate_core::exchange::RangeSupport;
use tidegate_core::pool_choice::PoolChoice;
use tidegate_core::request_body::StoredBody;
use tidegate_core::timeline::{self, Cause};
use tidegate_core::variables::VariableId;
use tidegate_core::{Body, Exchange, Level, Step, blocking};
use tidegate_handler::server::{Abandonment, Parts, Payload, Taken};
use tidegate_handler::{Handler, Request};
use tidegate_rt::blocking::{JobError, JobHandle, Reply, submit_replying};
use tidegate_rt::{clock, timer};

use super::stream::{self, BodyPieces, Streamed};
use tidegate_gateway::read_body;

/// Seconds of `Retry-After` when too many requests wait for a thread.
const RETRY_AFTER: &[u8] = b"1";

/// The handler of a location, with its settings.
pub(crate) struct HandlerTarget {
    /// Name in messages.
    pub title: String,
    pub handler: Arc<dyn Handler>,
    /// Variables that are copied into its requests.
    pub variables: Vec<(Arc<str>, VariableId)>,
    pub pool: PoolChoice,
    pub timeout: Duration,
    pub body_bytes_max: Option<u64>,
}

/// A response on its way from the pool thread to the event loop.
struct HandlerResponse {
    status: u16,
    headers: Headers,
    content_length: Option<u64>,
    content: Content,
}

enum Content {
    Empty,
    Bytes(Bytes),
    File(FileRange),
    Stream(BodyPieces),
}

/// Why a handler returned no response; for the error log.
type FailureText = String;

/// How the wait for a handler ended.
enum WaitOutcome {
    Responded(Result<HandlerResponse, FailureText>),
    Job(JobError),
    Late,
    ClientLeft,
}

/// Notifies the handler, on drop, that its response is no longer wanted.
pub(super) struct AbandonGuard(Arc<Abandonment>);

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        self.0.signal();
    }
}

/// Runs the handler for a request.
///
/// | step | waits for | dropped there |
/// |---|---|---|
/// | body | the client | nothing has begun |
/// | job | the handler, its time limit, the client | a waiting job is not begun; a running one is notified that it is abandoned |
///
/// Invariant: `waiting` lives as long as the response is wanted, a streamed body included, and notifies the handler
/// when it is dropped. Failures become statuses in [`settle`] alone. Source: `handler` with `timeout=` and
/// `max_body=`.
pub(super) async fn serve(x: &mut Exchange, target: Arc<HandlerTarget>) -> Step<'static> {
    if let Some(max) = target.body_bytes_max {
        if x.request.body.length.is_some_and(|length| length > max) {
            return Step::Status(413);
        }
        x.request.body.lower_limit(max);
    }
    if let Err(step) = read_body(x).await {
        return step;
    }
    x.progress.action = "waiting for a handler";
    let Some(pool) = target.pool.pick(x) else { return Step::Status(500) };
    let abandoned = Arc::new(Abandonment::default());
    let waiting = AbandonGuard(abandoned.clone());
    let parts = parts(x, &target, abandoned, clock::exact_now());
    let handler = target.handler.clone();
    let submitted = submit_replying(&*pool, move |reply| run(&*handler, parts.into(), reply));
    let Ok(job) = submitted else {
        let (name, figures) = (pool.name(), pool.figures());
        let queued = figures.queued;
        x.log(
            Level::Error,
            format_args!("thread pool \"{name}\" queue overflow: {queued} jobs waiting"),
        );
        x.response.headers.push(b"Retry-After", RETRY_AFTER);
        return Step::Status(503);
    };
    let outcome = outcome(x, job, target.timeout).await;
    settle(x, &target, outcome, waiting)
}

fn parts(
    x: &mut Exchange,
    target: &HandlerTarget,
    abandoned: Arc<Abandonment>,
    now: Instant,
) -> Parts {
    let variables = target.variables.iter().map(|(name, id)| {
        let mut value = Vec::new();
        let found = x.variable(*id, &mut value);
        (name.clone(), found.then_some(value))
    });
    let variables = variables.collect();
    let (body_memory, body_file) = match x.request.body.stored() {
        Some(stored) => body(stored),
        None => (Vec::new(), None),
    };
    Parts {
        method: x.request.head.method_bytes().to_vec(),
        target: x.request.target().to_vec(),
        path: x.request.path.clone(),
        query: x.request.args.clone(),
        headers: x.request.head.headers.clone(),
        variables,
        client_address: x.client_text().to_owned(),
        body_memory,
        body_file,
        deadline: now.checked_add(target.timeout),
        abandoned,
    }
}

fn body(stored: &StoredBody) -> (Vec<Bytes>, Option<(Arc<std::fs::File>, u64)>) {
    match &stored.file {
        Some(file) => (Vec::new(), Some((file.clone(), stored.length))),
        None => (stored.memory.clone(), None),
    }
}

/// Runs on the pool thread: the handler, and then the function that streams its body.
fn run(
    handler: &dyn Handler,
    request: Request,
    reply: Reply<Result<HandlerResponse, FailureText>>,
) {
    let taken = match handler.handle(request) {
        Ok(response) => {
            Taken::try_from(response).map_err(|problem| format!("returned an invalid {problem}"))
        }
        Err(error) => Err(format!("failed: {error}")),
    };
    let Taken { status, headers, content_length, payload } = match taken {
        Ok(taken) => taken,
        Err(problem) => return reply.send(Err(problem)),
    };
    let response = |content| Ok(HandlerResponse { status, headers, content_length, content });
    match payload {
        Payload::Empty => reply.send(response(Content::Empty)),
        Payload::Bytes(bytes) => reply.send(response(Content::Bytes(bytes))),
        Payload::File(file, length) => {
            reply.send(response(Content::File(FileRange::new(Arc::new(file), 0, length))));
        }
        Payload::Stream(write) => {
            let (sink, pieces) = stream::pipe();
            reply.send(response(Content::Stream(pieces)));
            sink.run(write);
        }
    }
}

/// Waits for the first of: the job ended, the client left, the time is over. They are checked in that order, so
/// that a response that is ready counts. Dropped at its await, the job is abandoned.
async fn outcome(
    x: &Exchange,
    mut job: JobHandle<Result<HandlerResponse, FailureText>>,
    timeout: Duration,
) -> WaitOutcome {
    let mut late = pin!(timer::sleep(timeout));
    let (client, watch) = (x.client.clone(), !x.is_subrequest());
    poll_fn(|context| {
        if let Poll::Ready(ended) = blocking::poll_job(&mut job, context, Cause::Handler) {
            return Poll::Ready(match ended {
                Ok(response) => WaitOutcome::Responded(response),
                Err(error) => WaitOutcome::Job(error),
            });
        }
        if watch && client.poll_closed(context).is_ready() {
            timeline::queued(job.queued());
            return Poll::Ready(WaitOutcome::ClientLeft);
        }
        let late = late.as_mut().poll(context).map(|()| WaitOutcome::Late);
        if late.is_ready() {
            timeline::queued(job.queued());
        }
        late
    })
    .await
}

/// Makes the response: the one place where a handler's failures become statuses.
fn settle(
    x: &mut Exchange,
    target: &HandlerTarget,
    outcome: WaitOutcome,
    waiting: AbandonGuard,
) -> Step<'static> {
    let title = &target.title;
    let (level, status, problem) = match outcome {
        WaitOutcome::Responded(Ok(response)) => return respond(x, target, response, waiting),
        WaitOutcome::Responded(Err(problem)) => (Level::Error, 500, problem),
        WaitOutcome::Job(JobError::Panicked(message)) => {
            (Level::Error, 500, format!("panicked: {message}"))
        }
        WaitOutcome::Job(JobError::Cancelled) => {
            (Level::Error, 500, "ended without a response".into())
        }
        WaitOutcome::Late => (Level::Error, 504, "has not responded in time".into()),
        WaitOutcome::ClientLeft => {
            x.log(Level::Info, format_args!("client prematurely closed connection"));
            x.disposition.end_without_response(499);
            return Step::Close;
        }
    };
    x.log(level, format_args!("{title} {problem}"));
    Step::Status(status)
}

fn respond(
    x: &mut Exchange,
    target: &HandlerTarget,
    response: HandlerResponse,
    waiting: AbandonGuard,
) -> Step<'static> {
    x.progress.action = "sending to client";
    x.disposition.set_status(response.status);
    x.response.content_length = response.content_length;
    x.response.last_modified =
        response.headers.first(Known::LastModified).and_then(date::parse_http);
    x.response.headers = response.headers;
    Step::Respond(match response.content {
        Content::Empty => Body::Empty,
        Content::Bytes(bytes) => Body::from(bytes),
        Content::File(range) => {
            if response.status == 200 {
                x.response.ranges = RangeSupport::Many;
            }
            Body::File(range)
        }
        Content::Stream(pieces) => {
            Body::Stream(Box::new(Streamed::new(x, target, pieces, waiting)))
        }
    })
}
