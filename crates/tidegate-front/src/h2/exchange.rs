//! The future of one request: phases, response, logs.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use tidegate_core::Exchange;
use tidegate_core::error_log::Level;
use tidegate_core::phases::{self, PhaseResult};
use tidegate_h2::ErrorCode;

use super::head::Begun;
use super::respond;
use super::stream::{Stream, StreamState};
use crate::front::Front;
use crate::link::Link;
use crate::serve::scratch::Scratch;
use crate::serve::{begin, finish};

/// Runs one request to its end, and closes its stream.
///
/// | outcome | the stream |
/// |---|---|
/// | a response, sent as a whole | ends; reset with NO_ERROR if the request's body was not received |
/// | a response that breaks off, no response (`return 444`) | reset with INTERNAL_ERROR or CANCEL |
/// | the client has left | was reset already |
///
/// Dropped at an await (a panic elsewhere in the connection's task, its abort), the request ends unlogged.
pub(super) async fn run(
    front: Rc<Front>,
    link: Rc<Link>,
    stream: Rc<Stream>,
    mut scratch: Box<Scratch>,
    begun: Begun,
) {
    let writing = front.counters.writing();
    let x = &mut scratch.exchange;
    let outcome = match begun {
        Begun::Refused(status) => begin::refuse(x, status).await,
        Begun::Request => match begin::refusal(&link, x) {
            Some(status) => begin::refuse(x, status).await,
            None => run_phases(&stream, x).await,
        },
    };
    match outcome {
        // Given up by the module that was to make the response.
        PhaseResult::Send(_) if matches!(stream.state(), StreamState::Cancelled(_)) => {}
        PhaseResult::Send(body) => respond::respond(&stream, x, body).await,
        PhaseResult::Close => finish::without_response(x),
    }
    if let Some(rest) = finish::request(x, false) {
        rest.await;
    }
    drop(writing);
    let code = match x.disposition.without_response() {
        Some(408) => ErrorCode::PROTOCOL_ERROR,
        _ => stream.end_code(),
    };
    if let Some(place) = stream.place() {
        place.multiplexer.close(place.id, code);
    }
    drop(stream);
    front.give_back(scratch);
}

/// Runs the phases. A request whose body turns out to be malformed is refused, even where all of the announced body was
/// passed on before: no reader may take it for complete (RFC 9113 section 8.1.1).
///
/// Dropped at an await, the phases are given up in the middle.
async fn run_phases(stream: &Stream, x: &mut Exchange) -> PhaseResult {
    if !x.request.body.is_present() {
        return phases::run(x).await;
    }
    let outcome = {
        let mut run = pin!(phases::run(x));
        poll_fn(|context| {
            let polled = run.as_mut().poll(context);
            let is_malformed = stream.waits_for_body(context);
            match (polled, is_malformed) {
                (Poll::Ready(outcome), _) => Poll::Ready(Some(outcome)),
                (Poll::Pending, true) => Poll::Ready(None),
                (Poll::Pending, false) => Poll::Pending,
            }
        })
        .await
    };
    match outcome {
        Some(outcome) => outcome,
        None => {
            x.log(Level::Info, format_args!("client sent a body of another length than declared"));
            x.request.body.abandon();
            begin::refuse(x, 400).await
        }
    }
}
