//! The future of one request: phases, response, logs.

use std::rc::Rc;

use tidegate_core::phases::{self, PhaseResult};

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
            None => phases::run(x).await,
        },
    };
    match outcome {
        // Given up by the module that was to make the response.
        PhaseResult::Send(_) if matches!(stream.state(), StreamState::Cancelled(_)) => {}
        PhaseResult::Send(body) => respond::respond(&stream, x, body).await,
        PhaseResult::Close => finish::without_response(x),
    }
    finish::request(x, false).await;
    drop(writing);
    let code = stream.end_code();
    if let Some(place) = stream.place() {
        place.multiplexer.close(place.id, code);
    }
    drop(stream);
    front.give_back(scratch);
}
