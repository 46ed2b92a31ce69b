//! The state of groups of servers, as JSON.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_codec::date;
use tidegate_core::figures::{BOUNDS_MILLIS, TimeCounts};
use tidegate_upstream::peers::{Health, Member, Peer, SlotView, Statistics};
use tidegate_upstream::{Group, ServerOptions, idle_of};

use super::process::handshakes_of;
use super::query::CommandTime;
use super::zones::responses_of;

/// Whether a group serves sessions of `stream`; requests of `http` have other figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    Of,
    No,
}

/// Returns a group with its servers.
pub(super) fn upstream(group: &Group, zone: &str, now: CommandTime, sessions: Sessions) -> Value {
    let peers: Vec<Value> =
        group.view(now.monotonic).iter().map(|slot| peer(slot, now, sessions)).collect();
    let mut value = json!({ "peers": peers, "zombies": 0, "zone": zone });
    if sessions == Sessions::No {
        value["keepalive"] = idle_of(group).into();
    }
    if let Some((most, _)) = group.options().queue {
        value["queue"] = json!({
            "size": group.waiting(),
            "max_size": most,
            "overflows": group.overflows(),
        });
    }
    value
}

/// Returns the servers with their parameters.
pub(super) fn servers(group: &Group, now: CommandTime) -> Value {
    let members = group.members();
    group.view(now.monotonic).iter().map(|slot| configured(slot, &members)).collect()
}

/// Returns one server with its parameters.
pub(super) fn server(group: &Group, number: u32, now: CommandTime) -> Option<Value> {
    let members = group.members();
    let named = members.iter().find(|member| member.number == Some(number));
    if let Some(member) = named {
        return Some(parent(member, number));
    }
    let view = group.view(now.monotonic);
    let slot = view.iter().find(|slot| slot.number == number)?;
    Some(configured(slot, &members))
}

/// Returns a server with a name, whose addresses have ids of their own.
pub(super) fn parent(member: &Member, number: u32) -> Value {
    let mut value = parameters(number, &member.server, &member.options);
    if let Some(service) = member.name.as_ref().and_then(|name| name.service.as_deref()) {
        value.insert("service".to_owned(), service.into());
    }
    Value::Object(value)
}

fn configured(slot: &SlotView, members: &[Member]) -> Value {
    let member =
        members.iter().find(|member| slot.parent.is_some() && member.number == slot.parent);
    let server = if member.is_some() { &slot.peer.text } else { &slot.peer.server };
    let mut value = parameters(slot.number, server, &slot.options);
    if let Some(member) = member {
        value.insert("parent".to_owned(), slot.parent.into());
        value.insert("host".to_owned(), (&*member.server).into());
    }
    Value::Object(value)
}

fn parameters(number: u32, server: &str, options: &ServerOptions) -> Map<String, Value> {
    let mut value = Map::new();
    let mut put = |name: &str, field: Value| {
        value.insert(name.to_owned(), field);
    };
    put("id", number.into());
    put("server", server.into());
    put("weight", options.weight.into());
    put("max_conns", options.max_conns.into());
    put("max_fails", options.max_fails.into());
    put("fail_timeout", format!("{}s", options.fail_timeout.as_secs()).into());
    put("slow_start", format!("{}s", options.slow_start.as_secs()).into());
    put("route", options.route.as_deref().unwrap_or_default().into());
    put("backup", options.backup.into());
    put("down", options.down.into());
    if options.drain {
        put("drain", true.into());
    }
    value
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a server with its statistics at `now`, as nginx's API shows a peer.
///
/// The statistics are counted without locks by many threads: each is exact, and their sums need not agree. Fields
/// without a value yet (no check, no response so far) are left out. Times are milliseconds.
fn peer(slot: &SlotView, now: CommandTime, sessions: Sessions) -> Value {
    let (peer, statistics) = (&slot.peer, &slot.peer.statistics);
    let mut value = json!({
        "id": slot.number,
        "server": &*peer.text,
        "name": &*peer.server,
        "backup": slot.options.backup,
        "weight": slot.options.weight,
        "state": state(slot),
        "active": peer.active(),
        "sent": statistics.sent.load(Relaxed),
        "received": statistics.received.load(Relaxed),
        "fails": statistics.fails.load(Relaxed),
        "unavail": statistics.unavailable.load(Relaxed),
        "health_checks": {
            "checks": statistics.checks.load(Relaxed),
            "fails": statistics.checks_failed.load(Relaxed),
            "unhealthy": statistics.unhealthy.load(Relaxed),
        },
        "downtime": millis(statistics.down_time(now.monotonic)),
    });
    let (requests, times) = match sessions {
        Sessions::Of => ("connections", SESSION_TIMES),
        Sessions::No => {
            value["responses"] = responses(statistics);
            ("requests", TIMES)
        }
    };
    value[requests] = statistics.requests.load(Relaxed).into();
    match statistics.last_check.load(Relaxed) {
        0 => {}
        check => value["health_checks"]["last_passed"] = (check == 2).into(),
    }
    let mut put = |name: &str, ago: Option<Duration>| {
        if let Some(ago) = ago {
            value[name] = time(now.unix_millis.saturating_sub(millis(ago))).into();
        }
    };
    put("downstart", statistics.down_for(now.monotonic));
    put("selected", statistics.since_selected(now.monotonic));
    if slot.options.max_conns > 0 {
        value["max_conns"] = slot.options.max_conns.into();
    }
    for (name, average) in times {
        let micros = average(peer);
        if micros > 0 {
            value[name] = (micros / 1000).into();
        }
    }
    if let Some(handshakes) = statistics.handshakes.get() {
        value["ssl"] = handshakes_of(handshakes);
    }
    if let Some(times) = statistics.times.get() {
        value["header_time_hist"] = histogram(&times.header);
        value["response_time_hist"] = histogram(&times.response);
    }
    value
}

pub(super) type Times = &'static [(&'static str, fn(&Peer) -> u64)];

/// The averages of a server, by their names.
pub(super) const TIMES: Times =
    &[("header_time", Peer::header_time), ("response_time", Peer::last_byte_time)];
pub(super) const SESSION_TIMES: Times = &[
    ("connect_time", Peer::connect_time),
    ("first_byte_time", Peer::header_time),
    ("response_time", Peer::last_byte_time),
];

/// Shows how many times were not above each bound, in milliseconds, and above the one before it.
fn histogram(times: &TimeCounts) -> Value {
    let (counts, micros) = times.totals();
    let names = BOUNDS_MILLIS.iter().map(u64::to_string).chain(["inf".to_owned()]);
    let mut fields: Map<String, Value> = names.zip(counts.map(Value::from)).collect();
    fields.insert("sum".to_owned(), (micros / 1000).into());
    Value::Object(fields)
}

fn responses(statistics: &Statistics) -> Value {
    let classes = statistics.responses.each_ref().map(|count| count.load(Relaxed));
    let codes = statistics.codes.get().into_iter().flat_map(|codes| codes.codes());
    responses_of(classes, codes, classes.iter().sum())
}

fn state(slot: &SlotView) -> &'static str {
    match slot.health {
        _ if slot.options.down => "down",
        Health::Unhealthy => "unhealthy",
        Health::Checking => "checking",
        Health::Fine if slot.resting => "unavail",
        Health::Fine if slot.options.drain => "draining",
        Health::Fine if slot.full => "busy",
        Health::Fine => "up",
    }
}

/// Returns the time in ISO 8601 with milliseconds, in UTC.
pub(super) fn time(millis: u64) -> String {
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let text = date::format_iso8601(seconds, 0);
    let text = String::from_utf8_lossy(&text[..19]);
    format!("{text}.{:03}Z", millis % 1000)
}
