//! Responses of the component.

use std::io::Write;

use wasip2::http::types::{Fields, OutgoingBody, OutgoingResponse, ResponseOutparam};
use wasip2::io::streams::OutputStream;

/// Begins a response without fields; `None` if the server does not take it.
pub(crate) fn begin(
    respond: ResponseOutparam,
    bytes: &[u8],
) -> Option<(OutgoingBody, OutputStream)> {
    start(respond, OutgoingResponse::new(Fields::new()), bytes)
}

/// Sends a whole response.
pub(crate) fn send(respond: ResponseOutparam, status: u16, bytes: &[u8]) {
    let response = OutgoingResponse::new(Fields::new());
    let _ = response.set_status_code(status);
    whole(respond, response, bytes);
}

/// Sends a response of `status=N&name=TEXT&value=TEXT`, where `_` in the texts is a line end; where the interface
/// refuses that, sends the error.
pub(crate) fn refused(respond: ResponseOutparam, query: &str) {
    let text = |name: &str| {
        let mut parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
        let found = parameters.find(|(known, _)| *known == name);
        found.map_or(String::new(), |(_, value)| value.replace('_', "\r\n"))
    };
    let fields = Fields::new();
    let (name, value) = (text("name"), text("value"));
    if !name.is_empty()
        && let Err(error) = fields.append(&name, value.as_bytes())
    {
        return send(respond, 200, format!("{error:?}").as_bytes());
    }
    let response = OutgoingResponse::new(fields);
    let status = text("status").parse().unwrap_or(200);
    if response.set_status_code(status).is_err() {
        return send(respond, 200, b"status refused");
    }
    whole(respond, response, b"body");
}

fn whole(respond: ResponseOutparam, response: OutgoingResponse, bytes: &[u8]) {
    let Some((body, stream)) = start(respond, response, bytes) else { return };
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn start(
    respond: ResponseOutparam,
    response: OutgoingResponse,
    bytes: &[u8],
) -> Option<(OutgoingBody, OutputStream)> {
    let body = response.body();
    ResponseOutparam::set(respond, Ok(response));
    let body = body.ok()?;
    let mut stream = body.write().ok()?;
    stream.write_all(bytes).ok()?;
    Some((body, stream))
}
