//! `otel_child_spans`: spans of the parts of a request, below the request's own.

use std::time::{Duration, Instant};

use tidegate_codec::protobuf::{bytes, fixed32, fixed64, integer, message};
use tidegate_core::Exchange;
use tidegate_core::timeline::Cause;
use tidegate_rt::clock;
use tidegate_upstream::Attempt;

use super::context::{Context, new_span};
use super::span::{self, SPANS, field};

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_CLIENT`.
const KIND_INTERNAL: u64 = 1;
const KIND_CLIENT: u64 = 3;
/// Numbers of the fields of `Event`.
const EVENT_TIME: u64 = 1;
const EVENT_NAME: u64 = 2;

/// Passes each child of the span of a request that has ended to `push`, encoded.
///
/// An attempt at a server is a child by itself. What the timeline knows else of waits has a child for each cause: the waits
/// are added up, as if they had been one that ended with the last of them. The waits for an origin are within its attempt.
pub(super) fn each(x: &Exchange, context: &Context, mut push: impl FnMut(&[u8])) {
    let now = clock::exact_now();
    let wall = clock::unix_time();
    let at = |moment: Instant| wall.saturating_sub(now.saturating_duration_since(moment));
    if let Some(report) = tidegate_gateway::attempts(x) {
        for attempt in report.borrow().attempts() {
            push(&of_attempt(attempt, context, at, wall));
        }
    }
    let Some(timeline) = &x.timeline else { return };
    let begin = at(timeline.started());
    for wait in timeline.view(now).unwrap_or_default().waits() {
        if is_part_of_attempt(wait.cause) {
            continue;
        }
        let end = begin + micros(wait.end);
        let start = end.saturating_sub(micros(wait.time)).max(begin);
        push(&encode(wait.cause.name(), KIND_INTERNAL, (start, end), context, |_| {}));
    }
}

/// Whether waits for this belong to an attempt, or to nothing.
fn is_part_of_attempt(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::OriginStream | Cause::OriginThink | Cause::Connect | Cause::Other | Cause::Loop
    )
}

fn of_attempt(
    attempt: &Attempt,
    context: &Context,
    at: impl Fn(Instant) -> Duration,
    now: Duration,
) -> Vec<u8> {
    let start = at(attempt.started());
    let [connected, head, ended] = attempt.times().map(|time| time.map(|time| start + time));
    let end = ended.unwrap_or(now).max(start);
    encode("upstream", KIND_CLIENT, (start, end), context, |out| {
        span::text("net.peer.name", attempt.address().as_bytes(), out);
        if attempt.status > 0 {
            span::number("http.status_code", attempt.status.into(), out);
        }
        span::number("http.request_content_length", attempt.bytes_sent, out);
        span::number("http.response_content_length", attempt.response_length, out);
        for (name, time) in [("connected", connected), ("response head", head)] {
            let Some(time) = time else { continue };
            message(field::EVENTS, out, |out| {
                fixed64(EVENT_TIME, span::nanos(time), out);
                bytes(EVENT_NAME, name.as_bytes(), out);
            });
        }
        // Statuses of clients' mistakes are errors to the client, which this server is here.
        if !matches!(attempt.status, 100..400) {
            span::error(out);
        }
    })
}

fn encode(
    name: &str,
    kind: u64,
    (start, end): (Duration, Duration),
    context: &Context,
    rest: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    message(SPANS, &mut out, |out| {
        bytes(field::TRACE_ID, &context.trace, out);
        bytes(field::SPAN_ID, &new_span(), out);
        if !context.state.is_empty() {
            bytes(field::TRACE_STATE, context.state.as_bytes(), out);
        }
        bytes(field::PARENT_SPAN_ID, &context.span, out);
        bytes(field::NAME, name.as_bytes(), out);
        integer(field::KIND, kind, out);
        fixed64(field::START, span::nanos(start), out);
        fixed64(field::END, span::nanos(end), out);
        rest(out);
        fixed32(field::FLAGS, span::SAMPLED, out);
    });
    out
}

fn micros(number: u32) -> Duration {
    Duration::from_micros(number.into())
}
