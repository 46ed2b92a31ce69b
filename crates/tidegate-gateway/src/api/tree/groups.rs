//! Groups of servers, as the tree shows them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_upstream::peers::{Health, Peer, SlotView};
use tidegate_upstream::{Group, idle_of};

use super::super::objects::{Object, Objects};
use super::super::source::{CommandTime, Source, of_block};
use super::super::view::{SESSION_TIMES, Sessions, TIMES};
use super::{Dates, View, time};

pub(super) fn http(source: &Source, view: &View) -> Objects {
    all(source, view, Sessions::No)
}

pub(super) fn stream(source: &Source, view: &View) -> Objects {
    all(source, view, Sessions::Of)
}

fn all(source: &Source, view: &View, sessions: Sessions) -> Objects {
    let groups = of_block(&source.plan, sessions == Sessions::Of).cloned().unwrap_or_default();
    let (now, dates) = (source.now, view.dates);
    let object = |(name, (group, _)): (String, (Arc<Group>, String))| {
        let weight = group.attempts_max() as usize;
        let show = move || shown(&group, now, dates, sessions);
        (name, Object::new(show).weighing(weight))
    };
    groups.changing().into_iter().map(object).collect()
}

fn shown(group: &Group, now: CommandTime, dates: Dates, sessions: Sessions) -> Value {
    let view = group.view(now.monotonic);
    let peers =
        view.iter().map(|slot| (slot.peer.text.to_string(), peer(slot, now, dates, sessions)));
    let mut value = json!({ "peers": peers.collect::<Map<String, Value>>() });
    if sessions == Sessions::No {
        value["keepalive"] = idle_of(group).into();
    }
    if let Some((most, _)) = group.options().queue {
        value["queue"] =
            json!({ "queued": group.waiting(), "size": most, "overflows": group.overflows() });
    }
    value
}

/// Shows a server. Times are milliseconds, as in the other form of `api`.
fn peer(slot: &SlotView, now: CommandTime, dates: Dates, sessions: Sessions) -> Value {
    let statistics = &slot.peer.statistics;
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
    let ago = |ago: Duration| {
        let millis = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        time(now.unix_millis.saturating_sub(millis), dates)
    };
    let mut value = json!({
        "server": &*slot.peer.server,
        "backup": slot.options.backup,
        "weight": slot.options.weight,
        "state": state(slot),
        "selected": {
            "current": slot.peer.active(),
            "total": count(&statistics.requests),
        },
        "data": { "sent": count(&statistics.sent), "received": count(&statistics.received) },
        "health": health(slot, now, sessions),
        "sid": String::from_utf8_lossy(&slot.route()),
    });
    if let Some(since) = statistics.since_selected(now.monotonic) {
        value["selected"]["last"] = ago(since);
    }
    if let Some(since) = statistics.down_for(now.monotonic) {
        value["health"]["downstart"] = ago(since);
    }
    if slot.options.max_conns > 0 {
        value["max_conns"] = slot.options.max_conns.into();
    }
    if !slot.options.slow_start.is_zero() {
        value["slow_start"] = slot.options.slow_start.as_secs().into();
    }
    if sessions == Sessions::No {
        let codes = statistics.codes.get().into_iter().flat_map(|codes| codes.codes());
        let codes = codes.map(|(code, count)| (code.to_string(), count.into()));
        value["responses"] = Value::Object(codes.collect());
    }
    value
}

fn health(slot: &SlotView, now: CommandTime, sessions: Sessions) -> Value {
    let statistics = &slot.peer.statistics;
    let downtime = statistics.down_time(now.monotonic).as_millis();
    let mut value = json!({
        "fails": statistics.fails.load(Relaxed),
        "unavailable": statistics.unavailable.load(Relaxed),
        "downtime": u64::try_from(downtime).unwrap_or(u64::MAX),
    });
    let times = match sessions {
        Sessions::No => TIMES,
        Sessions::Of => SESSION_TIMES,
    };
    let named = |(name, average): &(&str, fn(&Peer) -> u64)| {
        let name = if (*name, sessions) == ("response_time", Sessions::Of) {
            "last_byte_time"
        } else {
            *name
        };
        (name.to_owned(), Value::from(average(&slot.peer) / 1000))
    };
    if let Value::Object(fields) = &mut value {
        fields.extend(times.iter().map(named));
        let checks = statistics.checks.load(Relaxed);
        if checks > 0 {
            let fails = statistics.checks_failed.load(Relaxed);
            fields.insert("probes".to_owned(), json!({ "count": checks, "fails": fails }));
        }
    }
    value
}

fn state(slot: &SlotView) -> &'static str {
    match slot.health {
        _ if slot.options.down => "down",
        Health::Unhealthy => "unhealthy",
        Health::Checking => "checking",
        Health::Fine if slot.resting => "unavailable",
        Health::Fine if slot.options.drain => "draining",
        Health::Fine if slot.full => "busy",
        Health::Fine if slot.recovering => "recovering",
        Health::Fine => "up",
    }
}
