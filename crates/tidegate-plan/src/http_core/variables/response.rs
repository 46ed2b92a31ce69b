//! Variables of the response: status, bytes, sent fields, rate, and the time of the request.

use tidegate_codec::Known;
use tidegate_core::exchange::Exchange;
use tidegate_core::variables::{Changeable, Value, Variable};

use super::{put, put_fields, put_number, put_seconds};

pub(super) const COUNT: usize = VARIABLES.len();

pub(super) const VARIABLES: &[Variable] = &[
    Variable::fixed("status", "Status of the response, or of the session.", |x, out| {
        let status = x.disposition.logged_status();
        let digit = |value: u16| b'0' + (value % 10) as u8;
        out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status)]);
        true
    }),
    Variable::fixed("bytes_sent", "Bytes sent to the client.", |x, out| {
        put_number(x.outcome.bytes_sent, out)
    }),
    Variable::fixed(
        "body_bytes_sent",
        "Bytes sent to the client, without the response's head.",
        |x, out| put_number(x.outcome.body_bytes_sent, out),
    ),
    Variable::fixed(
        "request_completion",
        "`OK` if the request has completed, else empty.",
        |x, out| put(Some(if x.outcome.complete { b"OK" } else { b"" }), out),
    ),
    Variable::fixed(
        "request_time",
        "Seconds since the first bytes of the request, with milliseconds.",
        |x, out| {
            let passed =
                tidegate_rt::clock::exact_now().saturating_duration_since(x.progress.started);
            put_seconds(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX), out)
        },
    ),
    Variable::fixed("pipe", "`p` if the request was pipelined, else `.`.", |x, out| {
        put(Some(if x.outcome.pipelined { b"p" } else { b"." }), out)
    }),
    Variable::fixed("sent_http_content_type", "`Content-Type` field of the response.", |x, out| {
        put(x.response.headers.first(Known::ContentType), out)
    }),
    Variable::fixed(
        "sent_http_content_length",
        "`Content-Length` field of the response.",
        sent_content_length,
    ),
    Variable::fixed(
        "sent_http_last_modified",
        "`Last-Modified` field of the response.",
        sent_last_modified,
    ),
    Variable::fixed("sent_http_connection", "`Connection` field of the response.", sent_connection),
    Variable::fixed("sent_http_keep_alive", "`Keep-Alive` field of the response.", sent_keep_alive),
    Variable::fixed(
        "sent_http_transfer_encoding",
        "`Transfer-Encoding` field of the response.",
        |x, out| put(x.outcome.chunked.then_some(b"chunked"), out),
    ),
    // Names with this prefix that the configuration may not change.
    Variable::fixed("sent_http_location", "`Location` field of the response.", |x, out| {
        sent(x, b"location", out)
    }),
    Variable::fixed(
        "sent_http_cache_control",
        "`Cache-Control` fields of the response, joined by `, `.",
        |x, out| sent(x, b"cache_control", out),
    ),
    Variable::fixed(
        "sent_http_link",
        "`Link` fields of the response, joined by `, `.",
        |x, out| sent(x, b"link", out),
    ),
    Variable::prefixed("sent_http_", "Field of the response's head of this name.", sent),
    Variable::prefixed(
        "sent_trailer_",
        "Field of the response's trailers of this name.",
        |x, name, out| put_fields(&x.response.trailers, name, out),
    ),
    Variable {
        name: "limit_rate",
        doc: "Bytes a second that the response is limited to; `set` changes it.",
        value: Value::Fixed(limit_rate),
        change: Changeable::By(set_limit_rate),
    },
];

fn sent(x: &mut Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    put_fields(&x.response.headers, name, out)
}

fn sent_content_length(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    match (x.response.content_length, x.response.headers.first(Known::ContentLength)) {
        (Some(length), _) => put_number(length, out),
        (None, text) => put(text, out),
    }
}

fn sent_last_modified(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    match (x.response.headers.first(Known::LastModified), x.response.last_modified) {
        (Some(text), _) => put(Some(text), out),
        (None, Some(time)) => put(Some(&tidegate_codec::date::format_http(time)), out),
        (None, None) => false,
    }
}

fn sent_connection(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = match (x.disposition.status(), x.disposition.keeps_connection()) {
        (101, _) => b"upgrade",
        (_, true) => b"keep-alive",
        (_, false) => b"close",
    };
    put(Some(text), out)
}

fn sent_keep_alive(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let Some(time) =
        x.settings().keepalive_timeout.field.filter(|_| x.disposition.keeps_connection())
    else {
        return false;
    };
    out.extend_from_slice(b"timeout=");
    put_number(time.as_secs(), out)
}

fn limit_rate(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    if let Some(rate) = x.limit_rate {
        return put_number(rate, out);
    }
    let location = x.location_ref();
    let template = location.settings.limit_rate.as_ref();
    let rate = template.and_then(|rate| tidegate_conf::parse_size(&rate.value(x)));
    put_number(rate.unwrap_or(0), out)
}

/// Sets `$limit_rate`; a value that is no size changes nothing, as in nginx.
fn set_limit_rate(x: &mut Exchange, value: &[u8]) {
    if let Some(rate) = tidegate_conf::parse_size(value) {
        x.limit_rate = Some(rate);
    }
}
