//! The future of one request: phases, response, logs.

use std::rc::Rc;

use tidegate_core::phases::PhaseResult;
use tidegate_core::timeline;
use tidegate_h2::ErrorCode;

use super::respond;
use super::stream::Stream;
use crate::front::Front;
use crate::link::Link;
use crate::serve::scratch::Scratch;
use crate::serve::streams::{self, Begun, StreamState};
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
    let Scratch { exchange: x, timeline, .. } = &mut *scratch;
    let outcome = match begun {
        Begun::Refused(status) => begin::refuse(x, status).await,
        Begun::Request => match begin::refusal(link.binding(), x) {
            Some(status) => begin::refuse(x, status).await,
            None => streams::run_phases(&stream.inbox, x, timeline).await,
        },
    };
    match outcome {
        // Given up by the module that was to make the response.
        PhaseResult::Send(_) if matches!(stream.state(), StreamState::Cancelled(_)) => {}
        PhaseResult::Send(body) => {
            timeline.note_response();
            timeline::around(Some(timeline), respond::respond(&stream, x, body)).await;
        }
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
