//! A component of the world `wasi:http/proxy`: a page of 10 kB, made for each request. Copy this directory to begin an
//! application; README.md shows how to build and run it.
#![forbid(unsafe_code)]

pub mod document;
#[cfg(test)]
mod tests;

use std::io::Write;

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
};

/// The handler that is exported.
pub struct Component;

impl Guest for Component {
    fn handle(request: IncomingRequest, respond: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let page = document::page(visit(&target), request.authority().as_deref().unwrap_or("?"));
        let fields = Fields::new();
        // Fails for invalid names and values, and for fields of the server.
        let _ = fields.append("Content-Type", b"text/html; charset=utf-8");
        let response = OutgoingResponse::new(fields);
        let body = response.body();
        ResponseOutparam::set(respond, Ok(response));
        let Ok(body) = body else { return };
        let Ok(mut stream) = body.write() else { return };
        // Waits while the client is slower; fails when the client has closed the connection.
        if stream.write_all(&page).is_err() {
            return;
        }
        // A body is finished after its streams are dropped.
        drop(stream);
        let _ = OutgoingBody::finish(body, None);
    }
}

#[cfg(target_arch = "wasm32")]
wasip2::http::proxy::export!(Component);

/// Returns `?visit=N`, else 1: an instance serves one request, so it cannot count visits.
fn visit(target: &str) -> u64 {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let number = query.split('&').find_map(|parameter| parameter.strip_prefix("visit="));
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}
