//! Waiting for an origin's answer while watching the client.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::{Exchange, Level, Step};
use tidegate_upstream::{LogContext, OriginRequest, OriginResponse, RequestPayload};

use super::settings::GatewaySettings;
use super::state::GatewayState;

/// Asks the origins. The error is the step that ends the request.
pub async fn fetch(
    x: &mut Exchange,
    request: OriginRequest,
    settings: &Arc<GatewaySettings>,
) -> Result<OriginResponse, Step<'static>> {
    let report = GatewayState::of(x).report.clone();
    let log = LogContext::of(x);
    let streamed = matches!(request.payload, RequestPayload::Stream { .. });
    let fetch = tidegate_upstream::fetch(request, settings.fetch.clone(), report, log);
    let mut fetch = std::pin::pin!(fetch);
    let watch = !settings.ignore_client_abort && !x.is_subrequest;
    let client = x.client.clone();
    let outcome = poll_fn(|context| {
        if let Poll::Ready(result) = fetch.as_mut().poll(context) {
            return Poll::Ready(Some(result));
        }
        if watch && client.poll_gone(context).is_ready() {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await;
    match outcome {
        None => Err(client_left(x)),
        Some(Ok(mut response)) => {
            // Bytes of the body may still be read by the upload, not by the next request.
            x.keep_alive &= !streamed || response.request_body.is_some();
            give_back(x, response.request_body.take());
            Ok(response)
        }
        Some(Err(error)) => {
            // A body that was lost half read leaves its rest on the connection.
            x.keep_alive &= !streamed || error.request_body.is_some();
            give_back(x, error.request_body);
            if error.status == 499 {
                return Err(client_left(x));
            }
            Err(Step::Status(error.status))
        }
    }
}

fn give_back(x: &mut Exchange, body: Option<Box<tidegate_core::request_body::RequestBody>>) {
    if let Some(body) = body {
        x.request.body = *body;
    }
}

/// The client closed its connection: the log says 499.
pub fn client_left(x: &mut Exchange) -> Step<'static> {
    if let Some(attempt) = GatewayState::of(x).report.borrow_mut().last() {
        attempt.finished();
    }
    x.log(Level::Info, format_args!("client prematurely closed connection"));
    x.error_status = 499;
    Step::Close
}
