//! The wait for an origin's response while watching the client.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::request_body::RequestBody;
use tidegate_core::{Exchange, Level, Step};
use tidegate_rt::clock;
use tidegate_upstream::{FetchError, LogContext, OriginRequest, OriginResponse, RequestPayload};

use super::settings::GatewaySettings;
use super::state::GatewayState;

/// Fetches from the origins. The error is the step that ends the request.
pub(crate) fn fetch<'a>(
    x: &'a mut Exchange,
    request: OriginRequest,
    settings: &Arc<GatewaySettings>,
) -> impl Future<Output = Result<OriginResponse, Step<'static>>> + use<'a> {
    x.progress.upstream.clear();
    let report = GatewayState::of(x).report.clone();
    let log = LogContext::of(x);
    let streamed = matches!(request.payload, RequestPayload::Stream { .. });
    let fetch = tidegate_upstream::fetch(request, settings.fetch.clone(), report, log);
    // Boxed where it is made: large futures are copied from each async function into the next.
    let mut fetch = Box::pin(fetch);
    let watch = !settings.ignore_client_abort && !x.is_subrequest();
    let client = x.client.clone();
    async move {
        let outcome = poll_fn(|context| {
            if let Poll::Ready(result) = fetch.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            if watch && client.poll_closed(context).is_ready() {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await;
        match outcome {
            None => Err(client_left(x)),
            Some(result) => settle(x, result, streamed),
        }
    }
}

/// Records the result of a fetch; `streamed` when it read the client's body as it arrived.
fn settle(
    x: &mut Exchange,
    result: Result<OriginResponse, FetchError>,
    streamed: bool,
) -> Result<OriginResponse, Step<'static>> {
    match result {
        Ok(mut response) => {
            give_back(x, response.request_body.take(), streamed);
            Ok(response)
        }
        Err(error) => {
            give_back(x, error.request_body, streamed);
            if error.status == 499 {
                return Err(client_left(x));
            }
            GatewayState::leave(x);
            Err(Step::Status(error.status))
        }
    }
}

/// Puts the client's body back, if it was `streamed`. A body that is lost half read, or still being read by the
/// upload, leaves its rest on the connection: no request can follow, and the close must wait until the client has
/// read the response.
fn give_back(x: &mut Exchange, body: Option<Box<RequestBody>>, streamed: bool) {
    match body {
        Some(body) => x.request.body = *body,
        None if streamed => {
            x.disposition.close_connection();
            x.request.body.abandon();
        }
        None => {}
    }
}

/// Ends a request whose client has closed its connection: 499 in the log.
pub(crate) fn client_left(x: &mut Exchange) -> Step<'static> {
    if let Some(attempt) = GatewayState::of(x).report.borrow_mut().last() {
        attempt.finished(clock::now());
    }
    x.log(Level::Info, format_args!("client prematurely closed connection"));
    x.disposition.end_without_response(499);
    Step::Close
}
