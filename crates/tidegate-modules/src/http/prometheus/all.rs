//! The template `all`: the names that Angie's template of this name has.

use super::template::{Metric, MetricPath, MetricValue, Metrics, NamePart};

/// The template's name.
pub(super) const NAME: &str = "all";

/// A path of the tree and its type. A part in braces is any name, and the label for it.
///
/// The name is `angie_` and the other parts.
type Row = (&'static str, &'static str);

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

const ROWS: &[Row] = &[
    ("connections/accepted", COUNTER),
    ("connections/dropped", COUNTER),
    ("connections/active", GAUGE),
    ("connections/idle", GAUGE),
    ("slabs/{zone}/pages/used", GAUGE),
    ("slabs/{zone}/pages/free", GAUGE),
    ("slabs/{zone}/slots/{size}/used", GAUGE),
    ("slabs/{zone}/slots/{size}/free", GAUGE),
    ("slabs/{zone}/slots/{size}/reqs", COUNTER),
    ("slabs/{zone}/slots/{size}/fails", COUNTER),
    ("resolvers/{zone}/queries/{type}", COUNTER),
    ("resolvers/{zone}/sent/{type}", COUNTER),
    ("resolvers/{zone}/responses/{status}", COUNTER),
    ("http/server_zones/{zone}/ssl/handshaked", COUNTER),
    ("http/server_zones/{zone}/ssl/reuses", COUNTER),
    ("http/server_zones/{zone}/ssl/timedout", COUNTER),
    ("http/server_zones/{zone}/ssl/failed", COUNTER),
    ("http/server_zones/{zone}/requests/total", COUNTER),
    ("http/server_zones/{zone}/requests/processing", GAUGE),
    ("http/server_zones/{zone}/requests/discarded", COUNTER),
    ("http/server_zones/{zone}/responses/{code}", COUNTER),
    ("http/server_zones/{zone}/data/received", COUNTER),
    ("http/server_zones/{zone}/data/sent", COUNTER),
    ("http/location_zones/{zone}/requests/total", COUNTER),
    ("http/location_zones/{zone}/requests/discarded", COUNTER),
    ("http/location_zones/{zone}/responses/{code}", COUNTER),
    ("http/location_zones/{zone}/data/received", COUNTER),
    ("http/location_zones/{zone}/data/sent", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/state", GAUGE),
    ("http/upstreams/{upstream}/peers/{peer}/selected/current", GAUGE),
    ("http/upstreams/{upstream}/peers/{peer}/selected/total", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/responses/{code}", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/data/sent", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/data/received", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/health/fails", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/health/unavailable", COUNTER),
    ("http/upstreams/{upstream}/peers/{peer}/health/downtime", COUNTER),
    ("http/upstreams/{upstream}/keepalive", GAUGE),
    ("http/caches/{zone}/{status}/responses", COUNTER),
    ("http/caches/{zone}/{status}/bytes", COUNTER),
    ("http/caches/{zone}/{status}/responses_written", COUNTER),
    ("http/caches/{zone}/{status}/bytes_written", COUNTER),
    ("http/caches/{zone}/size", GAUGE),
    ("http/limit_conns/{zone}/{status}", COUNTER),
    ("http/limit_reqs/{zone}/{status}", COUNTER),
    ("stream/server_zones/{zone}/ssl/handshaked", COUNTER),
    ("stream/server_zones/{zone}/ssl/reuses", COUNTER),
    ("stream/server_zones/{zone}/ssl/timedout", COUNTER),
    ("stream/server_zones/{zone}/ssl/failed", COUNTER),
    ("stream/server_zones/{zone}/connections/total", COUNTER),
    ("stream/server_zones/{zone}/connections/processing", GAUGE),
    ("stream/server_zones/{zone}/connections/discarded", COUNTER),
    ("stream/server_zones/{zone}/connections/passed", COUNTER),
    ("stream/server_zones/{zone}/sessions/{status}", COUNTER),
    ("stream/server_zones/{zone}/data/received", COUNTER),
    ("stream/server_zones/{zone}/data/sent", COUNTER),
    ("stream/upstreams/{upstream}/peers/{peer}/state", GAUGE),
    ("stream/upstreams/{upstream}/peers/{peer}/selected/current", GAUGE),
    ("stream/upstreams/{upstream}/peers/{peer}/selected/total", COUNTER),
    ("stream/upstreams/{upstream}/peers/{peer}/data/sent", COUNTER),
    ("stream/upstreams/{upstream}/peers/{peer}/data/received", COUNTER),
    ("stream/upstreams/{upstream}/peers/{peer}/health/fails", COUNTER),
    ("stream/upstreams/{upstream}/peers/{peer}/health/unavailable", COUNTER),
    ("stream/upstreams/{upstream}/peers/{peer}/health/downtime", COUNTER),
];

/// The numbers of states.
const STATES: &[(&str, u64)] = &[
    ("up", 1),
    ("down", 2),
    ("unavailable", 3),
    ("recovering", 4),
    ("unhealthy", 5),
    ("checking", 6),
    ("draining", 7),
    ("busy", 8),
];

/// Makes the template.
pub(super) fn metrics() -> Metrics {
    Metrics { name: NAME.to_owned(), all: ROWS.iter().map(metric).collect() }
}

fn metric((path, kind): &Row) -> Metric {
    let label = |part: &'static str| part.strip_prefix('{')?.strip_suffix('}');
    let parts: Vec<&'static str> = path.split('/').collect();
    let mut words: Vec<&str> = parts.iter().copied().filter(|part| label(part).is_none()).collect();
    // The one name that does not follow its path.
    if words.get(1) == Some(&"slots") {
        words.insert(1, "pages");
    }
    let mut name = vec![NamePart::Text(format!("angie_{}", words.join("_")))];
    for (group, label) in (1..).zip(parts.iter().filter_map(|part| label(part))) {
        let before = if group == 1 { "{" } else { "\"," };
        name.push(NamePart::Text(format!("{before}{label}=\"")));
        name.push(NamePart::Group(group));
    }
    if name.len() > 1 {
        name.push(NamePart::Text("\"}".to_owned()));
    }
    let value = match path.ends_with("/state") {
        true => MetricValue::Word(STATES),
        false => MetricValue::Object,
    };
    let path_of = |part: &&'static str| (label(part).is_none()).then_some(*part);
    Metric {
        name,
        path: MetricPath::Parts(parts.iter().map(path_of).collect()),
        value,
        kind: Some((*kind).to_owned()),
        help: Some(format!("{path} of the tree of figures.")),
    }
}
