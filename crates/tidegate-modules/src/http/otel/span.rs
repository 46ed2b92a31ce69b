//! From a request to its span, as a field of the message that carries spans (OTLP 1.0, `opentelemetry.proto.trace.v1`).

use tidegate_codec::protobuf::{bytes, fixed32, fixed64, integer, message};
use tidegate_conf::Span;
use tidegate_core::Exchange;
use tidegate_core::variables::VariableId;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use super::Settings;
use super::context::Context;

/// `ScopeSpans.spans`.
pub(super) const SPANS: u64 = 2;

/// Numbers of `Span`'s fields.
pub(super) mod field {
    pub(in super::super) const TRACE_ID: u64 = 1;
    pub(in super::super) const SPAN_ID: u64 = 2;
    pub(in super::super) const TRACE_STATE: u64 = 3;
    pub(in super::super) const PARENT_SPAN_ID: u64 = 4;
    pub(in super::super) const NAME: u64 = 5;
    pub(in super::super) const KIND: u64 = 6;
    pub(in super::super) const START: u64 = 7;
    pub(in super::super) const END: u64 = 8;
    pub(in super::super) const ATTRIBUTES: u64 = 9;
    pub(in super::super) const EVENTS: u64 = 11;
    pub(in super::super) const STATUS: u64 = 15;
    pub(in super::super) const FLAGS: u64 = 16;
}

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: u64 = 2;
/// `Status.code`, and its value for an error.
const STATUS_CODE: u64 = 3;
const ERROR: u64 = 2;
/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` with `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`: a parent is in another process.
const REMOTE_PARENT: u32 = 0x300;
/// The flag of a context that is sampled; what is exported is.
pub(super) const SAMPLED: u32 = 1;

/// Bytes of the longest text of an attribute; the rest is cut off, so that a batch stays below the usual limit of 4 MB.
pub(super) const TEXT_BYTES_MAX: usize = 4096;
/// Names of attributes that are lists.
const LIST_PREFIXES: [&str; 2] = ["http.request.header.", "http.response.header."];

/// Variables of the attributes that each span has.
pub(super) struct Names {
    method: VariableId,
    target: VariableId,
    scheme: VariableId,
    protocol: VariableId,
    user_agent: VariableId,
    request_length: VariableId,
    server_name: VariableId,
    server_port: VariableId,
    client_address: VariableId,
    client_port: VariableId,
}

impl Names {
    pub(super) fn new(plan: &mut PlanBuilder<'_>) -> Names {
        let mut id = |name| plan.variables.resolve(name, Span::NONE);
        Names {
            method: id("request_method"),
            target: id("request_uri"),
            scheme: id("scheme"),
            protocol: id("server_protocol"),
            user_agent: id("http_user_agent"),
            request_length: id("content_length"),
            server_name: id("server_name"),
            server_port: id("server_port"),
            client_address: id("remote_addr"),
            client_port: id("remote_port"),
        }
    }
}

/// Encodes the span of a request that has ended.
pub(super) fn encode(x: &mut Exchange, context: &Context, settings: &Settings) -> Vec<u8> {
    let end = clock::unix_time();
    let start = end.saturating_sub(clock::exact_now() - x.progress.started);
    let name = name(x, settings);
    let status = x.disposition.logged_status();
    let mut out = Vec::with_capacity(512);
    message(SPANS, &mut out, |out| {
        bytes(field::TRACE_ID, &context.trace, out);
        bytes(field::SPAN_ID, &context.span, out);
        if !context.state.is_empty() {
            bytes(field::TRACE_STATE, context.state.as_bytes(), out);
        }
        if let Some(parent) = &context.parent {
            bytes(field::PARENT_SPAN_ID, &parent.span, out);
        }
        bytes(field::NAME, shortened(&name).as_bytes(), out);
        integer(field::KIND, KIND_SERVER, out);
        fixed64(field::START, nanos(start), out);
        fixed64(field::END, nanos(end), out);
        default_attributes(x, settings, status, out);
        for (name, value) in &settings.attributes {
            let value = value.value(x);
            match LIST_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                true => list(name, &value, out),
                false => text(name, &value, out),
            }
        }
        if status >= 500 {
            error(out);
        }
        let remote = if context.parent.is_some() { REMOTE_PARENT } else { 0 };
        fixed32(field::FLAGS, remote | SAMPLED, out);
    });
    out
}

/// Appends the status of a span that failed.
pub(super) fn error(out: &mut Vec<u8>) {
    message(field::STATUS, out, |out| integer(STATUS_CODE, ERROR, out));
}

/// Returns the span's name: never empty, as the specification asks.
fn name(x: &mut Exchange, settings: &Settings) -> Vec<u8> {
    let given = settings.name.as_ref().map(|template| template.value(x));
    let name = given.filter(|name| !name.is_empty()).unwrap_or_else(|| x.location().name.clone());
    if !name.is_empty() {
        return name;
    }
    let mut method = Vec::new();
    x.variable(settings.names.method, &mut method);
    if method.is_empty() { b"HTTP".to_vec() } else { method }
}

/// The attributes of nginx's module.
fn default_attributes(x: &mut Exchange, settings: &Settings, status: u16, out: &mut Vec<u8>) {
    let names = &settings.names;
    let route = x.location().name.clone();
    let sent = x.outcome.body_bytes_sent;
    let mut value = |id| {
        let mut value = Vec::new();
        let is_there = x.variable(id, &mut value);
        is_there.then_some(value)
    };
    for (name, id) in [
        ("http.method", names.method),
        ("http.target", names.target),
        ("http.scheme", names.scheme),
        ("http.user_agent", names.user_agent),
        ("net.host.name", names.server_name),
        ("net.sock.peer.addr", names.client_address),
    ] {
        if let Some(value) = value(id) {
            text(name, &value, out);
        }
    }
    text("http.route", &route, out);
    if let Some(protocol) = value(names.protocol) {
        text("http.flavor", protocol.strip_prefix(b"HTTP/").unwrap_or(&protocol), out);
    }
    let length = value(names.request_length).and_then(|length| parsed(&length));
    number("http.request_content_length", length.unwrap_or_default(), out);
    number("http.response_content_length", sent, out);
    number("http.status_code", status.into(), out);
    for (name, id) in
        [("net.host.port", names.server_port), ("net.sock.peer.port", names.client_port)]
    {
        if let Some(port) = value(id).and_then(|port| parsed(&port)) {
            number(name, port, out);
        }
    }
}

fn parsed(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Numbers of the fields of `KeyValue`, and of the kinds of `AnyValue`.
const KEY: u64 = 1;
const VALUE: u64 = 2;
const STRING: u64 = 1;
const INTEGER: u64 = 3;
const ARRAY: u64 = 5;
/// `ArrayValue.values`.
const VALUES: u64 = 1;

pub(super) fn text(name: &str, value: &[u8], out: &mut Vec<u8>) {
    message(field::ATTRIBUTES, out, |out| key_value(name, value, out));
}

/// Appends the fields of a `KeyValue` whose value is a text.
pub(super) fn key_value(name: &str, value: &[u8], out: &mut Vec<u8>) {
    bytes(KEY, name.as_bytes(), out);
    message(VALUE, out, |out| bytes(STRING, shortened(value).as_bytes(), out));
}

fn list(name: &str, value: &[u8], out: &mut Vec<u8>) {
    message(field::ATTRIBUTES, out, |out| {
        bytes(KEY, name.as_bytes(), out);
        message(VALUE, out, |out| {
            message(ARRAY, out, |out| {
                message(VALUES, out, |out| bytes(STRING, shortened(value).as_bytes(), out));
            });
        });
    });
}

pub(super) fn number(name: &str, value: u64, out: &mut Vec<u8>) {
    message(field::ATTRIBUTES, out, |out| {
        bytes(KEY, name.as_bytes(), out);
        message(VALUE, out, |out| integer(INTEGER, value, out));
    });
}

/// Returns a text of at most [`TEXT_BYTES_MAX`] bytes. Texts are UTF-8: other bytes are replaced.
fn shortened(value: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(value.get(..TEXT_BYTES_MAX).unwrap_or(value));
    if text.len() > TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        text.to_mut().truncate(end);
    }
    text.into_owned()
}

pub(super) fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
