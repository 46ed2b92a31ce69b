//! Zones that count, limits and resolvers, as the tree shows them.

use serde_json::{Map, Value, json};
use tidegate_core::figures::{HANDSHAKES, Kind, LIMIT_CONN, LIMIT_REQ, Tally, Totals, Zone};
use tidegate_upstream::resolve::{OUTCOMES, QUESTIONS, SENT};

use super::super::objects::Objects;
use super::super::source::Source;
use super::super::zones::{of_sessions, resolver_zones, tallies, zones};
use super::named;

pub(super) fn servers(source: &Source) -> Objects {
    zones(Some(&source.plan.figures), Kind::Server, |zone| {
        let totals = zone.totals();
        let value = json!({
            "requests": {
                "total": totals.requests(),
                "processing": totals.processing,
                "discarded": totals.discarded(),
            },
            "responses": responses(&totals),
            "data": { "received": totals.received, "sent": totals.sent },
        });
        with_handshakes(value, zone)
    })
}

pub(super) fn locations(source: &Source) -> Objects {
    zones(Some(&source.plan.figures), Kind::Location, |zone| {
        let totals = zone.totals();
        json!({
            "requests": { "total": totals.requests(), "discarded": totals.discarded() },
            "responses": responses(&totals),
            "data": { "received": totals.received, "sent": totals.sent },
        })
    })
}

/// Statuses of sessions and their names.
const SESSIONS: [(u16, &str); 6] = [
    (200, "success"),
    (400, "invalid"),
    (403, "forbidden"),
    (500, "internal_error"),
    (502, "bad_gateway"),
    (503, "service_unavailable"),
];

pub(super) fn session_servers(source: &Source) -> Objects {
    zones(of_sessions(source), Kind::SessionServer, |zone| {
        let totals = zone.totals();
        let of = |status: u16| totals.codes().find(|(code, _)| *code == status);
        let sessions = SESSIONS.map(|(code, name)| (name, of(code).map_or(0, |(_, count)| count)));
        let value = json!({
            "connections": {
                "total": totals.requests(),
                "processing": totals.processing,
                "discarded": totals.discarded(),
                "passed": totals.passed(),
            },
            "sessions": named(sessions),
            "data": { "received": totals.received, "sent": totals.sent },
        });
        with_handshakes(value, zone)
    })
}

/// Shows statuses with their numbers; those without a counter of their own by their class, such as `2xx`.
fn responses(totals: &Totals) -> Value {
    let codes = totals.codes().map(|(code, count)| (code.to_string(), count.into()));
    let mut fields: Map<String, Value> = codes.collect();
    let classes = (1..).zip(totals.other_codes()).filter(|(_, count)| *count > 0);
    fields.extend(classes.map(|(class, count)| (format!("{class}xx"), count.into())));
    Value::Object(fields)
}

fn with_handshakes(mut value: Value, zone: &Zone) -> Value {
    if zone.is_secure() {
        value["ssl"] = handshakes(zone.handshakes());
    }
    value
}

fn handshakes(tally: &Tally) -> Value {
    let totals = tally.totals();
    let of = |wanted: &str| {
        let counts = HANDSHAKES.iter().zip(&totals);
        counts.into_iter().find(|(name, _)| **name == wanted).map_or(0, |(_, count)| *count)
    };
    let timed_out = of("handshake_timeout");
    json!({
        "handshaked": of("handshakes"),
        "reuses": of("session_reuses"),
        "timedout": timed_out,
        "failed": of("handshakes_failed").saturating_sub(timed_out),
    })
}

pub(super) fn limit_reqs(source: &Source) -> Objects {
    tallies(Some(&source.plan.figures), Kind::LimitReq, |totals| {
        without_dry_runs(&LIMIT_REQ, totals)
    })
}

pub(super) fn limit_conns(source: &Source) -> Objects {
    tallies(Some(&source.plan.figures), Kind::LimitConn, |totals| {
        without_dry_runs(&LIMIT_CONN, totals)
    })
}

pub(super) fn session_limits(source: &Source) -> Objects {
    tallies(of_sessions(source), Kind::SessionLimitConn, |totals| {
        without_dry_runs(&LIMIT_CONN, totals)
    })
}

fn without_dry_runs(names: &[&str], totals: &[u64]) -> Value {
    let pairs = names.iter().copied().zip(totals.iter().copied());
    named(pairs.filter(|(name, _)| !name.ends_with("_dry_run")))
}

/// The names of [`OUTCOMES`].
const RESPONSES: [&str; OUTCOMES.len()] = [
    "success",
    "format_error",
    "server_failure",
    "not_found",
    "unimplemented",
    "refused",
    "timedout",
    "other",
];

pub(super) fn resolvers(source: &Source) -> Objects {
    resolver_zones(source, |totals| {
        let (queries, rest) = totals.split_at(QUESTIONS.len().min(totals.len()));
        let (outcomes, sent) = rest.split_at(OUTCOMES.len().min(rest.len()));
        let pairs = |names: &'static [&'static str], totals: &[u64]| {
            named(names.iter().copied().zip(totals.iter().copied()))
        };
        json!({
            "queries": pairs(&QUESTIONS, queries),
            "sent": pairs(&SENT, sent),
            "responses": pairs(&RESPONSES, outcomes),
        })
    })
}
