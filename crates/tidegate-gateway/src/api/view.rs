//! The state of groups of servers, as JSON.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Map, Value};
use tidegate_codec::date;
use tidegate_core::figures::{BOUNDS_MILLIS, TimeCounts};
use tidegate_upstream::peers::{Health, Member, Peer, SlotView, Statistics};
use tidegate_upstream::{Group, ServerOptions, idle_of};

use super::process::handshakes_of;
use super::source::CommandTime;
use super::write::{ObjectWriter, write_text};

/// Whether a group serves sessions of `stream`; requests of `http` have other figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    Of,
    No,
}

/// Servers of a group that are written at a time.
const PEERS_AT_ONCE: usize = 32;

/// Returns a writer of a group with its servers, some at each call; it returns `false` behind the last ones.
pub(super) fn upstream(
    group: Arc<Group>,
    zone: String,
    now: CommandTime,
    sessions: Sessions,
) -> impl FnMut(&mut Vec<u8>) -> bool + Send + 'static {
    let mut peers: Option<std::vec::IntoIter<SlotView>> = None;
    move |out| {
        let is_first = peers.is_none();
        let peers = peers.get_or_insert_with(|| group.view(now.monotonic).into_iter());
        if is_first {
            out.push(b'{');
            if sessions == Sessions::No {
                let _ = write!(out, "\"keepalive\":{},", idle_of(&group));
            }
            out.extend_from_slice(b"\"peers\":[");
        }
        for (place, slot) in peers.by_ref().take(PEERS_AT_ONCE).enumerate() {
            if !(is_first && place == 0) {
                out.push(b',');
            }
            peer(&slot, now, sessions, out);
        }
        if peers.len() > 0 {
            return true;
        }
        out.push(b']');
        if let Some((most, _)) = group.options().queue {
            let (overflows, size) = (group.overflows(), group.waiting());
            let _ = write!(
                out,
                ",\"queue\":{{\"max_size\":{most},\"overflows\":{overflows},\"size\":{size}}}"
            );
        }
        out.extend_from_slice(b",\"zombies\":0,\"zone\":");
        write_text(&zone, out);
        out.push(b'}');
        false
    }
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

/// Writes a server with its statistics at `now`, as nginx's API shows a peer.
///
/// The statistics are counted without locks by many threads: each is exact, and their sums need not agree. Fields
/// without a value yet (no check, no response so far) are left out. Times are milliseconds.
fn peer(slot: &SlotView, now: CommandTime, sessions: Sessions, out: &mut Vec<u8>) {
    let (peer, statistics) = (&slot.peer, &slot.peer.statistics);
    let mut object = ObjectWriter::begin(out);
    object.number("active", peer.active());
    object.number("backup", slot.options.backup);
    let (requests, times) = match sessions {
        Sessions::Of => ("connections", SESSION_TIMES),
        Sessions::No => ("requests", TIMES),
    };
    for (name, average) in times {
        let micros = average(peer);
        if micros > 0 {
            object.number(name, micros / 1000);
        }
    }
    object.number("downtime", millis(statistics.down_time(now.monotonic)));
    let moments = [
        ("downstart", statistics.down_for(now.monotonic)),
        ("selected", statistics.since_selected(now.monotonic)),
    ];
    for (name, ago) in moments {
        if let Some(ago) = ago {
            object.text(name, &time(now.unix_millis.saturating_sub(millis(ago))));
        }
    }
    object.number("fails", statistics.fails.load(Relaxed));
    object.object("health_checks", |checks| {
        checks.number("checks", statistics.checks.load(Relaxed));
        checks.number("fails", statistics.checks_failed.load(Relaxed));
        match statistics.last_check.load(Relaxed) {
            0 => {}
            check => checks.number("last_passed", check == 2),
        }
        checks.number("unhealthy", statistics.unhealthy.load(Relaxed));
    });
    object.number("id", slot.number);
    if slot.options.max_conns > 0 {
        object.number("max_conns", slot.options.max_conns);
    }
    object.text("name", &peer.server);
    object.number("received", statistics.received.load(Relaxed));
    object.number(requests, statistics.requests.load(Relaxed));
    if sessions == Sessions::No {
        responses(statistics, object.name("responses"));
    }
    object.number("sent", statistics.sent.load(Relaxed));
    object.text("server", &peer.text);
    if let Some(handshakes) = statistics.handshakes.get() {
        object.value("ssl", &handshakes_of(handshakes));
    }
    object.text("state", state(slot));
    if let Some(times) = statistics.times.get() {
        histogram(&times.header, object.name("header_time_hist"));
        histogram(&times.response, object.name("response_time_hist"));
    }
    object.number("unavail", statistics.unavailable.load(Relaxed));
    object.number("weight", slot.options.weight);
    object.end();
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

/// Writes how many times were not above each bound, in milliseconds, and above the one before it.
fn histogram(times: &TimeCounts, out: &mut Vec<u8>) {
    let (counts, micros) = times.totals();
    let mut object = ObjectWriter::begin(out);
    for (place, count) in counts.iter().enumerate() {
        match BOUNDS_MILLIS.get(place) {
            Some(bound) => object.number(&bound.to_string(), count),
            None => object.number("inf", count),
        }
    }
    object.number("sum", micros / 1000);
    object.end();
}

/// Writes responses by class and status.
fn responses(statistics: &Statistics, out: &mut Vec<u8>) {
    let classes = statistics.responses.each_ref().map(|count| count.load(Relaxed));
    let mut object = ObjectWriter::begin(out);
    for (name, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(classes) {
        object.number(name, count);
    }
    object.object("codes", |codes| {
        for (code, count) in statistics.codes.get().into_iter().flat_map(|codes| codes.codes()) {
            codes.number(&code.to_string(), count);
        }
    });
    object.number("total", classes.iter().sum::<u64>());
    object.end();
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
