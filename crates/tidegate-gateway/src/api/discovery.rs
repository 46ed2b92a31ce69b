//! Groups whose servers another program names (`upsync`): their state and figures, as objects and as metrics.

use std::sync::Arc;

use serde_json::json;
use tidegate_core::Exchange;
use tidegate_core::plan::Plan;

use super::objects::{Object, Objects};
use super::source::Source;
use crate::discovery::kept::{DiscoveryState, Figures, Kept, Shown, ShownDiscovery};
use crate::exposition::{Part, Type};

/// Shows all discoveries; those of `stream` have a mark in front of their names.
pub(super) fn all(source: &Source) -> Objects {
    let object = |(name, shown): (String, &ShownDiscovery)| {
        let (kind, source, kept) = (shown.kind, shown.source.clone(), shown.kept.clone());
        (name, Object::new(move || show(kind, &source, &kept)))
    };
    discoveries(&source.plan).into_iter().map(object).collect()
}

fn show(kind: &str, source: &str, kept: &Kept) -> serde_json::Value {
    let (state, reason) = state_text(&kept.state());
    let figures = kept.figures();
    json!({
        "type": kind,
        "source": source,
        "state": state,
        "reason": reason.as_deref(),
        "servers": figures.servers,
        "responses": figures.responses,
        "changes": figures.changes,
        "refused": figures.refused,
        "failures": figures.failures,
    })
}

/// Returns the word for a state, and its reason.
fn state_text(state: &DiscoveryState) -> (&'static str, Option<Arc<str>>) {
    match state {
        DiscoveryState::Waiting => ("waiting", None),
        DiscoveryState::Current => ("current", None),
        DiscoveryState::Empty => ("empty", None),
        DiscoveryState::Failing(reason) => ("failing", Some(reason.clone())),
    }
}

/// Returns the discoveries of both blocks.
fn discoveries(plan: &Plan) -> Vec<(String, &ShownDiscovery)> {
    let http = plan.extensions.of::<Shown>().into_iter().flat_map(|shown| &shown.0);
    let sessions = plan.sessions.as_ref().and_then(|plan| plan.extensions.of::<Shown>());
    let stream = sessions.into_iter().flat_map(|shown| &shown.0);
    let http = http.map(|(name, shown)| (name.clone(), shown));
    http.chain(stream.map(|(name, shown)| (format!("stream:{name}"), shown))).collect()
}

/// Name behind `tidegate_discovery_`, type, help text, and how to read it.
type Row = (&'static str, Type, &'static str, fn(&DiscoveryState, &Figures) -> f64);

const ROWS: [Row; 6] = [
    ("up", Type::Gauge, "Whether the last request had a valid response.", |state, _| {
        f64::from(u8::from(matches!(state, DiscoveryState::Current | DiscoveryState::Empty)))
    }),
    ("servers", Type::Gauge, "Servers of the last response that was taken over.", |_, of| {
        of.servers as f64
    }),
    ("responses_total", Type::Counter, "Valid responses.", |_, of| of.responses as f64),
    ("changes_total", Type::Counter, "Responses that have changed the group.", |_, of| {
        of.changes as f64
    }),
    ("refused_total", Type::Counter, "Invalid responses.", |_, of| of.refused as f64),
    ("failures_total", Type::Counter, "Requests without a response.", |_, of| of.failures as f64),
];

/// Collects the figures of all discoveries.
pub fn discovery_metrics(x: &Exchange) -> Part {
    let read =
        |(name, shown): (String, &ShownDiscovery)| (name, shown.kept.state(), shown.kept.figures());
    let groups: Vec<_> = discoveries(&x.plan).into_iter().map(read).collect();
    Part::new(groups.len(), move |out| {
        for (name, kind, help, value) in ROWS.iter().filter(|_| !groups.is_empty()) {
            let name = format!("tidegate_discovery_{name}");
            let mut family = out.family(&name, *kind, help);
            for (group, state, figures) in &groups {
                family.line(&[("upstream", group)], value(state, figures));
            }
        }
    })
}
