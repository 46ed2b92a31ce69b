//! The `$upstream_*` variables.

use tidegate_codec::response::ResponseHead;
use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_upstream::{Attempt, write_millis};

use super::state::GatewayState;

// The variables that requests and sessions share.
const ADDRESS: Variable = Variable::fixed(
    "upstream_addr",
    "Addresses of the origins that the request was passed to, in order, joined by `, ` and between groups by ` : `.",
    address,
);
const CONNECT_TIME: Variable = Variable::fixed(
    "upstream_connect_time",
    "Seconds until the connection to each origin was there, TLS included, with \
            milliseconds.",
    connect_time,
);
const BYTES_RECEIVED: Variable =
    Variable::fixed("upstream_bytes_received", "Bytes received from each origin.", bytes_received);
const BYTES_SENT: Variable =
    Variable::fixed("upstream_bytes_sent", "Bytes sent to each origin.", bytes_sent);

pub(crate) const VARIABLES: &[Variable] = &[
    ADDRESS,
    Variable::fixed("upstream_status", "Status of each origin's response.", |x, out| {
        list(x, out, |attempt, out| match attempt.status {
            0 => out.push(b'-'),
            status => number(u64::from(status), out),
        })
    }),
    CONNECT_TIME,
    Variable::fixed(
        "upstream_header_time",
        "Seconds until the head of each origin's response was there, with milliseconds.",
        header_time,
    ),
    Variable::fixed(
        "upstream_response_time",
        "Seconds until the whole of each origin's response was there, with \
            milliseconds.",
        response_time,
    ),
    Variable::fixed(
        "upstream_response_length",
        "Bytes of the body of each origin's response.",
        |x, out| list(x, out, |attempt, out| number(attempt.response_length, out)),
    ),
    BYTES_RECEIVED,
    BYTES_SENT,
    Variable::prefixed(
        "upstream_http_",
        "Field of this name in the head of the last origin's response.",
        header,
    ),
    Variable::prefixed(
        "upstream_cookie_",
        "Cookie of this name in the `Set-Cookie` fields of the last origin's response.",
        cookie,
    ),
    Variable::prefixed(
        "upstream_trailer_",
        "Field of this name in the trailers of the last origin's response.",
        trailer,
    ),
];

/// The variables of sessions.
pub(crate) const SESSION_VARIABLES: &[Variable] = &[
    ADDRESS,
    CONNECT_TIME,
    Variable::fixed(
        "upstream_first_byte_time",
        "Seconds until the first byte of each origin, with milliseconds.",
        header_time,
    ),
    Variable::fixed(
        "upstream_session_time",
        "Seconds that the session with each origin lasted, with milliseconds.",
        response_time,
    ),
    BYTES_RECEIVED,
    BYTES_SENT,
];

fn address(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    list(x, out, |attempt, out| out.extend_from_slice(attempt.address().as_bytes()))
}

fn connect_time(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    list(x, out, |attempt, out| write_millis(attempt.connect_millis, out))
}

fn header_time(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    list(x, out, |attempt, out| write_millis(attempt.header_millis, out))
}

fn response_time(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    list(x, out, |attempt, out| write_millis(attempt.response_millis, out))
}

fn bytes_received(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    list(x, out, |attempt, out| number(attempt.bytes_received, out))
}

fn bytes_sent(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    list(x, out, |attempt, out| number(attempt.bytes_sent, out))
}

fn list(x: &mut Exchange, out: &mut Vec<u8>, value: impl FnMut(&Attempt, &mut Vec<u8>)) -> bool {
    match x.modules.extensions.of::<GatewayState>() {
        Some(state) => state.report.borrow().list(out, value),
        None => false,
    }
}

fn number(number: u64, out: &mut Vec<u8>) {
    tidegate_codec::range::write_number(number, out);
}

/// Returns the head that the response was made of: an origin's, or one from the cache.
fn head(x: &Exchange) -> Option<&ResponseHead> {
    let stored = crate::cache::status::stored_head(x);
    stored.or_else(|| x.modules.extensions.of::<GatewayState>()?.head.as_ref())
}

/// Writes all values of a field whose name is spelled with `_` for `-`, as `$http_*` does.
fn header(x: &mut Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(head) = head(x) else { return false };
    joined(&head.headers, name, out)
}

fn trailer(x: &mut Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    let state = x.modules.extensions.of::<GatewayState>();
    let trailers = state.and_then(|state| state.trailers.as_ref());
    trailers.is_some_and(|trailers| joined(&trailers.borrow(), name, out))
}

fn joined(headers: &tidegate_codec::Headers, name: &[u8], out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for (_, field, value) in headers.iter() {
        let same = field.len() == name.len()
            && field.iter().zip(name).all(|(byte, wanted)| {
                let byte = if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
                byte == *wanted
            });
        if same {
            if found {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(value);
            found = true;
        }
    }
    found
}

/// Writes the value of a cookie that the origin sets.
fn cookie(x: &mut Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(head) = head(x) else { return false };
    for field in head.headers.all(tidegate_codec::Known::SetCookie) {
        let pair = field.split(|byte| *byte == b';').next().unwrap_or_default();
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        if spaceless(&pair[..equals]).eq_ignore_ascii_case(name) {
            out.extend_from_slice(spaceless(&pair[equals + 1..]));
            return true;
        }
    }
    false
}

/// Trims spaces at both ends; a tab belongs to the text, as nginx reads cookies.
fn spaceless(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}
