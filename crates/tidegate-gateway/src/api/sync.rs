//! Stores by which servers share zones: in the form of the commercial nginx's synchronisation, and in full.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};
use tidegate_store::State;

use super::objects::{Object, Objects};
use super::query::Query;
use super::source::Source;
use crate::zone_sync::{Stores, SyncStore};

/// Shows all stores together, as `zone_sync` of the commercial nginx: zones with their records, and messages.
pub(super) fn zone_sync(query: &Query<'_>) -> Object {
    let stores = stores(&query.source);
    Object::new(move || {
        let mut zones = Map::new();
        let (mut bytes_in, mut bytes_out, mut in_, mut out, mut online) = (0, 0, 0, 0, 0);
        for (_, store) in stores {
            let figures = store.engine().figures();
            bytes_in += figures.bytes_in;
            bytes_out += figures.bytes_out;
            in_ += figures.replies;
            out += figures.commands;
            // The other servers.
            online = online.max(if store.is_available() { store.nodes() - 1 } else { 0 });
            for member in store.members() {
                let figures = member.figures();
                let zone = json!({
                    "records_pending": figures.pending,
                    "records_total": figures.records,
                });
                zones.insert(member.name().to_owned(), zone);
            }
        }
        json!({
            "zones": zones,
            "status": {
                "bytes_in": bytes_in,
                "msgs_in": in_,
                "msgs_out": out,
                "bytes_out": bytes_out,
                "nodes_online": online,
            },
        })
    })
}

/// Shows each store with the state of its connection.
pub(super) fn all(source: &Source) -> Objects {
    let object =
        |(name, store): (String, Arc<SyncStore>)| (name, Object::new(move || show(&store)));
    stores(source).into_iter().map(object).collect()
}

fn show(store: &SyncStore) -> Value {
    let (engine, kept) = (store.engine(), &store.kept);
    let (state, reason) = match engine.state() {
        State::Connecting => ("connecting", None),
        State::Ready => ("ready", None),
        State::Broken(reason, _) => ("broken", Some(reason)),
    };
    let figures = engine.figures();
    json!({
        "url": engine.address().to_string(),
        "state": state,
        "reason": reason.as_deref(),
        "available": store.is_available(),
        "node": engine.node(),
        "nodes": store.nodes(),
        "rounds": kept.rounds.load(Ordering::Relaxed),
        "rounds_failed": kept.rounds_failed.load(Ordering::Relaxed),
        "round_us": kept.round_micros.load(Ordering::Relaxed),
        "queued": engine.queued(),
        "commands": figures.commands,
        "replies": figures.replies,
        "refused": figures.refused,
        "timed_out": figures.timed_out,
        "failed_at_once": figures.failed_at_once,
        "connections": figures.connections,
        "failures": figures.failures,
        "bytes_in": figures.bytes_in,
        "bytes_out": figures.bytes_out,
        "zones": store.members().iter().map(|member| member.name().to_owned()).collect::<Vec<_>>(),
    })
}

/// Returns the stores of both blocks; those of `stream` have a mark in front of their names.
fn stores(source: &Source) -> Vec<(String, Arc<SyncStore>)> {
    let plan = &source.plan;
    let http = plan.extensions.of::<Stores>().into_iter().flat_map(|stores| &stores.0);
    let sessions = plan.sessions.as_ref().and_then(|plan| plan.extensions.of::<Stores>());
    let stream = sessions.into_iter().flat_map(|stores| &stores.0);
    let http = http.map(|(name, store)| (name.clone(), store.clone()));
    http.chain(stream.map(|(name, store)| (format!("stream:{name}"), store.clone()))).collect()
}
