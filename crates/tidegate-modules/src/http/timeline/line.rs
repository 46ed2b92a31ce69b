//! The lines of a slow log.

use std::fmt::Write as _;

use tidegate_conf::Span;
use tidegate_core::Exchange;
use tidegate_core::timeline::{View, write_seconds};
use tidegate_core::variables::VariableId;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use crate::http::log::{escape_default, escape_json};

/// Variables of a line.
pub(super) struct Names {
    request: VariableId,
    host: VariableId,
    /// The origins of all attempts.
    origins: VariableId,
    cache: VariableId,
}

impl Names {
    pub(super) fn new(plan: &mut PlanBuilder<'_>) -> Names {
        let mut id = |name| plan.variables.resolve(name, Span::NONE);
        Names {
            request: id("request"),
            host: id("host"),
            origins: id("upstream_addr"),
            cache: id("upstream_cache_status"),
        }
    }
}

/// What a line says of a request. Absent values are empty.
struct Facts {
    request: Vec<u8>,
    host: Vec<u8>,
    location: Vec<u8>,
    client: String,
    status: u16,
    /// The origin of the last attempt.
    peer: Vec<u8>,
    attempts: usize,
    cache: Vec<u8>,
    sent: u64,
}

impl Facts {
    fn of(x: &mut Exchange, names: &Names) -> Facts {
        let mut value = |id| {
            let mut out = Vec::new();
            if !x.variable(id, &mut out) {
                out.clear();
            }
            out
        };
        let (request, host) = (value(names.request), value(names.host));
        let (origins, cache) = (value(names.origins), value(names.cache));
        let origins = origins_of(&origins);
        Facts {
            request,
            host,
            location: x.location().name.clone(),
            client: x.client_text().to_owned(),
            status: x.disposition.logged_status(),
            peer: origins.last().map_or_else(Vec::new, |peer| peer.to_vec()),
            attempts: origins.len(),
            cache,
            sent: x.outcome.bytes_sent,
        }
    }
}

/// Takes `$upstream_addr` apart: attempts are separated by `, `, groups by ` : `.
pub(super) fn origins_of(list: &[u8]) -> Vec<&[u8]> {
    let mut origins = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let comma = memchr::memmem::find(rest, b", ").map(|at| (at, 2));
        let colon = memchr::memmem::find(rest, b" : ").map(|at| (at, 3));
        let (at, length) = [comma, colon].into_iter().flatten().min().unwrap_or((rest.len(), 0));
        origins.push(&rest[..at]);
        rest = &rest[at + length..];
    }
    origins
}

/// Makes a line of text, without its line feed.
pub(super) fn text(x: &mut Exchange, view: &View, names: &Names) -> Vec<u8> {
    let facts = Facts::of(x, names);
    let verdict = view.verdict();
    let mut out = Vec::new();
    clock::log_time_error(|time| out.extend_from_slice(time));
    push(&mut out, |out| {
        let _ = write!(out, " slow {}s verdict={}", millis(view.total), verdict.name());
        if verdict.cause.is_some() {
            let _ = write!(out, "({}s)", millis(verdict.time));
        }
        let _ = write!(out, " client={} status={}", facts.client, facts.status);
    });
    word(&mut out, " request=", &facts.request);
    word(&mut out, " host=", &facts.host);
    if facts.attempts > 0 {
        word(&mut out, " peer=", &facts.peer);
        push(&mut out, |out| {
            let _ = write!(out, " attempt={}", facts.attempts);
        });
    }
    if !facts.cache.is_empty() {
        word(&mut out, " cache=", &facts.cache);
    }
    word(&mut out, " loc=", &facts.location);
    push(&mut out, |out| {
        let _ = write!(out, " bytes={} waits=", facts.sent);
        for (place, wait) in view.waits().iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{}:{}", wait.cause.name(), millis(wait.time));
        }
    });
    out
}

/// Makes a line that is a JSON object, without its line feed.
pub(super) fn json(x: &mut Exchange, view: &View, names: &Names) -> Vec<u8> {
    let facts = Facts::of(x, names);
    let verdict = view.verdict();
    let mut out = b"{\"time\":\"".to_vec();
    clock::log_time_iso8601(|time| out.extend_from_slice(time));
    push(&mut out, |out| {
        out.push_str("\",\"request_time\":");
        write_seconds(view.total, out);
        let _ = write!(out, ",\"verdict\":\"{}\",\"share\":", verdict.name());
        write_seconds(verdict.time, out);
        let _ = write!(out, ",\"status\":{}", facts.status);
    });
    member(&mut out, "client", facts.client.as_bytes());
    member(&mut out, "request", &facts.request);
    member(&mut out, "host", &facts.host);
    member(&mut out, "location", &facts.location);
    if facts.attempts > 0 {
        member(&mut out, "peer", &facts.peer);
        push(&mut out, |out| {
            let _ = write!(out, ",\"attempts\":{}", facts.attempts);
        });
    }
    if !facts.cache.is_empty() {
        member(&mut out, "cache", &facts.cache);
    }
    push(&mut out, |out| {
        let _ = write!(out, ",\"bytes_sent\":{},\"timeline\":", facts.sent);
        view.write_json(out);
        out.push('}');
    });
    out
}

/// Appends text.
fn push(out: &mut Vec<u8>, write: impl FnOnce(&mut String)) {
    let mut text = String::new();
    write(&mut text);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a name with its value, in quotes where it is not one plain word. What could be mistaken for another part of
/// the line is escaped as in access logs.
pub(super) fn word(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    let is_plain = !value.is_empty() && !value.contains(&b' ');
    if !is_plain {
        out.push(b'"');
    }
    let start = out.len();
    out.extend_from_slice(value);
    escape_default(out, start, true);
    if !is_plain {
        out.push(b'"');
    }
}

/// Appends a member with a string. Bytes that are not UTF-8 are replaced, so that each line is valid JSON.
pub(super) fn member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    push(out, |out| {
        let _ = write!(out, ",\"{name}\":\"");
    });
    let start = out.len();
    out.extend_from_slice(String::from_utf8_lossy(value).as_bytes());
    escape_json(out, start, true);
    out.push(b'"');
}

/// Returns microseconds as seconds with three digits.
fn millis(micros: u32) -> String {
    format!("{}.{:03}", micros / 1_000_000, micros / 1000 % 1000)
}
