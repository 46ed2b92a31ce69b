//! What is inside of the server, as JSON: the fullest keys of limits, certificates, thread pools, event loops, verdicts.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_codec::date;
use tidegate_core::blocking;
use tidegate_core::figures::{Catalog, FullestKeys, Kind, OrderedCertificate, ServerCertificate};
use tidegate_core::timeline::slow;
use tidegate_rt::blocking::PoolFigures;
use tidegate_rt::iteration;

use super::objects::Object;
use super::query::Query;
use super::zones::of_sessions;

/// Keys that are shown of each zone.
const KEYS_MAX: usize = 10;

/// The secret of hashes of keys: they tell keys of one process apart, and no more.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Shows the fullest keys of each limit.
pub(super) fn limits(query: &Query<'_>) -> Object {
    let mut zones: Vec<(Kind, String, FullestKeys)> = Vec::new();
    for catalog in catalogs(query) {
        let keys = catalog.keys().iter();
        zones.extend(keys.map(|((kind, name), keys)| (*kind, name.clone(), keys.clone())));
    }
    let show_keys = query.settings.show_keys;
    Object::new(move || {
        let mut value = Map::new();
        for (kind, name, fullest) in zones {
            let of_kind = match kind {
                Kind::LimitReq => "limit_reqs",
                Kind::LimitConn => "limit_conns",
                _ => "stream_limit_conns",
            };
            let keys: Vec<Value> = fullest(KEYS_MAX)
                .into_iter()
                .map(|used| {
                    let key = match show_keys {
                        true => key_text(&used.key),
                        false => format!("#{:016x}", SECRET.hash_one(&used.key)),
                    };
                    match kind {
                        Kind::LimitReq => {
                            json!({ "key": key, "requests": used.value as f64 / 1000.0 })
                        }
                        _ => json!({ "key": key, "connections": used.value }),
                    }
                })
                .collect();
            let zones = value.entry(of_kind).or_insert_with(|| Value::Object(Map::new()));
            zones[name] = keys.into();
        }
        Value::Object(value)
    })
}

/// Returns a key as text: an address in its usual form where it is one (`$binary_remote_addr`).
fn key_text(key: &[u8]) -> String {
    let is_text = key.iter().all(|byte| (b' '..=b'~').contains(byte));
    match (is_text, <[u8; 4]>::try_from(key), <[u8; 16]>::try_from(key)) {
        (false, Ok(octets), _) => Ipv4Addr::from(octets).to_string(),
        (false, _, Ok(octets)) => Ipv6Addr::from(octets).to_string(),
        _ => String::from_utf8_lossy(key).into_owned(),
    }
}

/// Shows the certificates of servers by file. Those that variables name are loaded for a handshake, and not shown.
pub(super) fn certificates(query: &Query<'_>) -> Object {
    let mut all = Map::new();
    for catalog in catalogs(query) {
        for (file, certificate) in catalog.certificates() {
            let mut value = shown(certificate, query.source.now.unix_millis);
            value["servers"] = catalog.certificate_users(file).into();
            all.insert(file.clone(), value);
        }
        for ordered in catalog.ordered() {
            let name = ordered.names.first().map_or("", String::as_str);
            let key = format!("acme_issuer {}: {name}", ordered.issuer);
            all.insert(key, of_order(ordered, query.source.now.unix_millis));
        }
    }
    Object::new(move || Value::Object(all))
}

/// Shows a certificate that the server orders; without the members of a certificate while there is none.
fn of_order(ordered: &OrderedCertificate, now: u64) -> Value {
    let state = (ordered.now)();
    let mut value = match &state.certificate {
        Some(certificate) => shown(certificate, now),
        None => json!({ "names": ordered.names }),
    };
    let is_over = value["seconds_left"].as_i64().is_some_and(|left| left <= 0);
    let word = match (&state.certificate, is_over) {
        (None, _) => "ordered",
        (Some(_), true) => "expired",
        (Some(_), false) => "valid",
    };
    let last = state.last.map(|(text, at)| json!({ "text": text, "time_ms": at }));
    value["acme"] = json!({ "issuer": ordered.issuer, "state": word, "last": last });
    value
}

fn shown(certificate: &ServerCertificate, now: u64) -> Value {
    let ServerCertificate { names, subject, issuer, validity: (first, last) } = certificate;
    let now = i64::try_from(now / 1000).unwrap_or(i64::MAX);
    json!({
        "names": names,
        "subject": subject,
        "issuer": issuer,
        "not_before": first,
        "not_after": last,
        "expires": date::format_certificate(*last),
        "seconds_left": last.saturating_sub(now),
    })
}

/// Shows the thread pools by name.
pub(super) fn pools(_: &Query<'_>) -> Object {
    Object::new(|| {
        let of = |(name, of): (String, PoolFigures)| {
            let value = json!({
                "threads": of.threads,
                "queued": of.queued,
                "running": of.running,
                "finished": of.finished,
                "refused": of.refused,
                "cancelled": of.cancelled,
                "wait_us": micros(of.waited),
                "wait_max_us": micros(of.waited_max),
                "run_us": micros(of.ran),
                "run_max_us": micros(of.ran_max),
            });
            (name, value)
        };
        Value::Object(blocking::figures().into_iter().map(of).collect())
    })
}

/// Shows the iterations of event loops by thread, where `loop_watchdog` is set.
pub(super) fn loops(_: &Query<'_>) -> Object {
    Object::new(|| {
        let of = |of: iteration::IterationFigures| {
            let value = json!({
                "counts": of.buckets,
                "bounds_us": iteration::BUCKETS_MICROS,
                "sum_us": micros(of.length),
                "max_us": micros(of.length_max),
                "long": of.long,
                "long_cpu": of.long_cpu,
            });
            (of.thread, value)
        };
        Value::Object(iteration::figures().into_iter().map(of).collect())
    })
}

/// Shows how many requests had each verdict; empty where requests have no timelines.
pub(super) fn verdicts(query: &Query<'_>) -> Object {
    let timelines = query.x.plan.timelines;
    Object::new(move || {
        let all = timelines.then(slow::verdicts).into_iter().flatten();
        Value::Object(all.map(|(name, count)| (name.to_owned(), count.into())).collect())
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns what the plans of `http` and `stream` show.
fn catalogs<'a>(query: &'a Query<'_>) -> impl Iterator<Item = &'a Catalog> {
    [Some(&query.x.plan.figures), of_sessions(&query.source)].into_iter().flatten()
}
