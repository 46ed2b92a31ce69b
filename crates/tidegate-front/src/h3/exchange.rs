//! The future of one request: phases, response, logs.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;

use tidegate_core::LocalFuture;
use tidegate_core::phases::PhaseResult;
use tidegate_core::timeline::{self, Cause};
use tidegate_h3::ErrorCode;

use super::connection::QuicLink;
use super::respond;
use super::stream::Stream;
use crate::front::Front;
use crate::serve::scratch::Scratch;
use crate::serve::streams::{self, Begun, StreamState};
use crate::serve::{begin, finish};

/// The future of a request.
pub(super) type Request = LocalFuture<'static, ()>;

/// Runs a request that waits. A panic ends its stream alone.
pub(super) async fn in_task(link: Rc<QuicLink>, id: u64, mut request: Request) {
    let ended = poll_fn(|context| {
        let poll = || request.as_mut().poll(context);
        match std::panic::catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(None),
            Err(panic) => Poll::Ready(Some(panic)),
        }
    });
    if let Some(panic) = ended.await {
        drop(request);
        link.panicked(id, &*panic);
    }
}

/// Runs one request to its end, and closes its stream.
///
/// | outcome | the stream |
/// |---|---|
/// | a response, sent as a whole | ends; stopped with H3_NO_ERROR if the request's body was not received |
/// | a response that breaks off, no response (`return 444`) | reset with H3_INTERNAL_ERROR or H3_REQUEST_CANCELLED |
/// | the client has left | reset with H3_REQUEST_CANCELLED |
///
/// Dropped at an await (a panic, the end of the thread), the request ends unlogged.
pub(super) async fn run(
    front: Rc<Front>,
    link: Rc<QuicLink>,
    stream: Rc<Stream>,
    mut scratch: Box<Scratch>,
    begun: Begun,
) {
    let writing = front.counters.writing();
    let Scratch { exchange: x, timeline, .. } = &mut *scratch;
    let verified = timeline::blame(Cause::Tls, link.verified());
    if let Some(info) = timeline::around(Some(timeline), verified).await {
        x.connection = info;
    }
    let outcome = match begun {
        Begun::Refused(status) => begin::refuse(x, status).await,
        Begun::Request => match begin::refusal(&link.binding, x) {
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
        Some(408) => ErrorCode::GENERAL_PROTOCOL_ERROR,
        _ => stream.end_code(),
    };
    if let Some(place) = stream.place() {
        link.close_stream(place.id, code);
        stream.detach();
    }
    drop(stream);
    front.give_back(scratch);
}
