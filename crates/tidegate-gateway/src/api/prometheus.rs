//! The figures of the API in the text format of Prometheus, under the names of nginx' exporter for nginx Plus
//! (`nginxplus_…`), so that its dashboards and alerts work.
//!
//! One table names the families: each is a field of an object of the API, or several fields with their names as a label.

use serde_json::Value;
use tidegate_core::Exchange;

use super::objects::{Object, Objects};
use super::source::Source;
use super::{caches, groups, process, zones};
use crate::exposition::{Exposition, Part, Type, label};

/// Objects of the API that have families of one prefix.
struct Section {
    prefix: &'static str,
    /// Where the objects are, for the description.
    path: &'static str,
    objects: fn(&Source) -> Objects,
    labels: Labels,
    families: &'static [Family],
}

/// The labels of a section's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labels {
    /// None: there is one object.
    None,
    /// The object's name.
    Name(&'static str),
    /// Id and process of a thread.
    Worker,
    /// The group's name and the address of each of its servers, which are the objects.
    Peers,
}

/// Name behind the prefix, type, and path of the field. At the end of a path, `*` stands for all fields, whose names are
/// the label `code`.
type Family = (&'static str, Type, &'static str);

const COUNTER: Type = Type::NamedCounter;
const GAUGE: Type = Type::Gauge;

const SECTIONS: &[Section] = &[
    one("connections_", "connections", |_| vec![named(process::connections())], CONNECTIONS),
    one("http_requests_", "http/requests", |_| vec![named(process::requests())], REQUESTS),
    one("ssl_", "ssl", |_| vec![named(process::ssl())], HANDSHAKES),
    by_name("server_zone_", "http/server_zones", zones::servers, "server_zone", SERVER),
    by_name("location_zone_", "http/location_zones", zones::locations, "location_zone", LOCATION),
    by_name(
        "stream_server_zone_",
        "stream/server_zones",
        zones::session_servers,
        "server_zone",
        SESSIONS,
    ),
    section("upstream_", "http/upstreams", groups::all_http, Labels::Name("upstream"), GROUP),
    section("upstream_server_", "http/upstreams", groups::all_http, Labels::Peers, PEER),
    section(
        "stream_upstream_",
        "stream/upstreams",
        groups::all_stream,
        Labels::Name("upstream"),
        SESSION_GROUP,
    ),
    section(
        "stream_upstream_server_",
        "stream/upstreams",
        groups::all_stream,
        Labels::Peers,
        SESSION_PEER,
    ),
    by_name("resolver_", "resolvers", zones::resolvers, "resolver", RESOLVER),
    by_name("limit_request_", "http/limit_reqs", zones::limit_reqs, "zone", LIMIT_REQ),
    by_name("limit_connection_", "http/limit_conns", zones::limit_conns, "zone", LIMIT_CONN),
    by_name(
        "stream_limit_connection_",
        "stream/limit_conns",
        zones::session_limit_conns,
        "zone",
        LIMIT_CONN,
    ),
    by_name("cache_", "http/caches", caches::caches, "zone", CACHE),
    section("worker_", "workers", process::workers, Labels::Worker, WORKER),
];

const fn one(
    prefix: &'static str,
    path: &'static str,
    objects: fn(&Source) -> Objects,
    families: &'static [Family],
) -> Section {
    section(prefix, path, objects, Labels::None, families)
}

const fn by_name(
    prefix: &'static str,
    path: &'static str,
    objects: fn(&Source) -> Objects,
    label: &'static str,
    families: &'static [Family],
) -> Section {
    section(prefix, path, objects, Labels::Name(label), families)
}

const fn section(
    prefix: &'static str,
    path: &'static str,
    objects: fn(&Source) -> Objects,
    labels: Labels,
    families: &'static [Family],
) -> Section {
    Section { prefix, path, objects, labels, families }
}

fn named(object: Object) -> (String, Object) {
    (String::new(), object)
}

const CONNECTIONS: &[Family] = &[
    ("accepted", COUNTER, "accepted"),
    ("dropped", COUNTER, "dropped"),
    ("active", GAUGE, "active"),
    ("idle", GAUGE, "idle"),
];
const REQUESTS: &[Family] = &[("total", COUNTER, "total"), ("current", GAUGE, "current")];
const HANDSHAKES: &[Family] = &[
    ("handshakes", COUNTER, "handshakes"),
    ("handshakes_failed", COUNTER, "handshakes_failed"),
    ("session_reuses", COUNTER, "session_reuses"),
];
const SERVER: &[Family] = &[
    ("processing", GAUGE, "processing"),
    ("requests", COUNTER, "requests"),
    ("responses", COUNTER, "responses/*"),
    ("responses_codes", COUNTER, "responses/codes/*"),
    ("discarded", COUNTER, "discarded"),
    ("received", COUNTER, "received"),
    ("sent", COUNTER, "sent"),
    ("ssl_handshakes", COUNTER, "ssl/handshakes"),
    ("ssl_handshakes_failed", COUNTER, "ssl/handshakes_failed"),
    ("ssl_session_reuses", COUNTER, "ssl/session_reuses"),
];
const LOCATION: &[Family] = &[
    ("requests", COUNTER, "requests"),
    ("responses", COUNTER, "responses/*"),
    ("responses_codes", COUNTER, "responses/codes/*"),
    ("discarded", COUNTER, "discarded"),
    ("received", COUNTER, "received"),
    ("sent", COUNTER, "sent"),
];
const SESSIONS: &[Family] = &[
    ("processing", GAUGE, "processing"),
    ("connections", COUNTER, "connections"),
    ("sessions", COUNTER, "sessions/*"),
    ("discarded", COUNTER, "discarded"),
    ("received", COUNTER, "received"),
    ("sent", COUNTER, "sent"),
    ("ssl_handshakes", COUNTER, "ssl/handshakes"),
    ("ssl_handshakes_failed", COUNTER, "ssl/handshakes_failed"),
    ("ssl_session_reuses", COUNTER, "ssl/session_reuses"),
];
const GROUP: &[Family] = &[("keepalive", GAUGE, "keepalive"), ("zombies", GAUGE, "zombies")];
const SESSION_GROUP: &[Family] = &[("zombies", GAUGE, "zombies")];
const PEER: &[Family] = &[
    ("state", GAUGE, "state"),
    ("active", GAUGE, "active"),
    ("limit", GAUGE, "max_conns"),
    ("requests", COUNTER, "requests"),
    ("responses", COUNTER, "responses/*"),
    ("responses_codes", COUNTER, "responses/codes/*"),
    ("sent", COUNTER, "sent"),
    ("received", COUNTER, "received"),
    ("fails", COUNTER, "fails"),
    ("unavail", COUNTER, "unavail"),
    ("header_time", GAUGE, "header_time"),
    ("response_time", GAUGE, "response_time"),
    ("health_checks_checks", COUNTER, "health_checks/checks"),
    ("health_checks_fails", COUNTER, "health_checks/fails"),
    ("health_checks_unhealthy", COUNTER, "health_checks/unhealthy"),
];
const SESSION_PEER: &[Family] = &[
    ("state", GAUGE, "state"),
    ("active", GAUGE, "active"),
    ("limit", GAUGE, "max_conns"),
    ("connections", COUNTER, "connections"),
    ("sent", COUNTER, "sent"),
    ("received", COUNTER, "received"),
    ("fails", COUNTER, "fails"),
    ("unavail", COUNTER, "unavail"),
    ("connect_time", GAUGE, "connect_time"),
    ("first_byte_time", GAUGE, "first_byte_time"),
    ("response_time", GAUGE, "response_time"),
    ("health_checks_checks", COUNTER, "health_checks/checks"),
    ("health_checks_fails", COUNTER, "health_checks/fails"),
    ("health_checks_unhealthy", COUNTER, "health_checks/unhealthy"),
];
const RESOLVER: &[Family] = &[
    ("name", COUNTER, "requests/name"),
    ("srv", COUNTER, "requests/srv"),
    ("addr", COUNTER, "requests/addr"),
    ("noerror", COUNTER, "responses/noerror"),
    ("formerr", COUNTER, "responses/formerr"),
    ("servfail", COUNTER, "responses/servfail"),
    ("nxdomain", COUNTER, "responses/nxdomain"),
    ("notimp", COUNTER, "responses/notimp"),
    ("refused", COUNTER, "responses/refused"),
    ("timedout", COUNTER, "responses/timedout"),
    ("unknown", COUNTER, "responses/unknown"),
];
const LIMIT_REQ: &[Family] = &[
    ("passed", COUNTER, "passed"),
    ("delayed", COUNTER, "delayed"),
    ("rejected", COUNTER, "rejected"),
    ("delayed_dry_run", COUNTER, "delayed_dry_run"),
    ("rejected_dry_run", COUNTER, "rejected_dry_run"),
];
const LIMIT_CONN: &[Family] = &[
    ("passed", COUNTER, "passed"),
    ("rejected", COUNTER, "rejected"),
    ("rejected_dry_run", COUNTER, "rejected_dry_run"),
];
const CACHE: &[Family] = &[
    ("size", GAUGE, "size"),
    ("max_size", GAUGE, "max_size"),
    ("cold", GAUGE, "cold"),
    ("hit_responses", COUNTER, "hit/responses"),
    ("hit_bytes", COUNTER, "hit/bytes"),
    ("stale_responses", COUNTER, "stale/responses"),
    ("stale_bytes", COUNTER, "stale/bytes"),
    ("updating_responses", COUNTER, "updating/responses"),
    ("updating_bytes", COUNTER, "updating/bytes"),
    ("revalidated_responses", COUNTER, "revalidated/responses"),
    ("revalidated_bytes", COUNTER, "revalidated/bytes"),
    ("miss_responses", COUNTER, "miss/responses"),
    ("miss_bytes", COUNTER, "miss/bytes"),
    ("miss_responses_written", COUNTER, "miss/responses_written"),
    ("miss_bytes_written", COUNTER, "miss/bytes_written"),
    ("expired_responses", COUNTER, "expired/responses"),
    ("expired_bytes", COUNTER, "expired/bytes"),
    ("expired_responses_written", COUNTER, "expired/responses_written"),
    ("expired_bytes_written", COUNTER, "expired/bytes_written"),
    ("bypass_responses", COUNTER, "bypass/responses"),
    ("bypass_bytes", COUNTER, "bypass/bytes"),
    ("bypass_responses_written", COUNTER, "bypass/responses_written"),
    ("bypass_bytes_written", COUNTER, "bypass/bytes_written"),
];
const WORKER: &[Family] = &[
    ("connection_accepted", COUNTER, "connections/accepted"),
    ("connection_dropped", COUNTER, "connections/dropped"),
    ("connection_active", GAUGE, "connections/active"),
    ("connection_idle", GAUGE, "connections/idle"),
    ("http_requests_total", COUNTER, "http/requests/total"),
    ("http_requests_current", GAUGE, "http/requests/current"),
];

/// Collects what is shown.
pub fn plus_metrics(x: &Exchange) -> Part {
    let source = Source::of(x);
    Part::new(source.weight, move |out| {
        out.family("nginxplus_up", GAUGE, "Always 1.").line(&[], 1);
        for section in SECTIONS {
            let shown =
                (section.objects)(&source).into_iter().map(|(name, object)| (name, object.value()));
            write_section(section, &lines_of(section.labels, shown), out);
        }
    })
}

/// Returns the labels and the value of each line of a section's families.
fn lines_of(
    labels: Labels,
    objects: impl Iterator<Item = (String, Value)>,
) -> Vec<(String, Value)> {
    let mut lines = Vec::new();
    for (name, mut value) in objects {
        match labels {
            Labels::None => lines.push((String::new(), value)),
            Labels::Name(of) => lines.push((label(of, &name), value)),
            Labels::Worker => {
                lines.push((format!("id=\"{name}\",pid=\"{}\"", value["pid"]), value))
            }
            Labels::Peers => {
                let Value::Array(peers) = value["peers"].take() else { continue };
                let group = label("upstream", &name);
                for peer in peers {
                    let server = label("server", peer["server"].as_str().unwrap_or_default());
                    lines.push((format!("{server},{group}"), peer));
                }
            }
        }
    }
    // A server may be in a group twice: Prometheus refuses a text with the same labels twice.
    let mut known = std::collections::HashSet::new();
    lines.retain(|(labels, _)| known.insert(labels.clone()));
    lines
}

fn write_section(section: &Section, objects: &[(String, Value)], out: &mut Exposition) {
    if objects.is_empty() {
        return;
    }
    for (name, kind, path) in section.families {
        let name = format!("nginxplus_{}{name}", section.prefix);
        let place = section.path;
        let help = format!("{path} in {place} of the API.");
        let mut family = out.family(&name, *kind, &help);
        for (labels, object) in objects {
            let mut line = |code: Option<&str>, value: &Value| {
                let code = code.map(|code| label("code", code));
                let all = code.as_deref().into_iter().chain([&**labels]);
                let all: Vec<&str> = all.filter(|label| !label.is_empty()).collect();
                family.line_of(&all.join(","), number(value));
            };
            let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
            let parents = parent.split('/').filter(|part| !part.is_empty());
            let parent = parents.fold(object, |value, part| &value[part]);
            match (last, parent) {
                ("*", Value::Object(fields)) => fields
                    .iter()
                    .filter(|(code, value)| *code != "total" && value.is_number())
                    .for_each(|(code, value)| line(Some(code), value)),
                _ => line(None, &parent[last]),
            }
        }
    }
}

/// Returns a field as a number: states by the exporter's numbers, what is not there as 0.
fn number(value: &Value) -> u64 {
    match value {
        Value::Bool(flag) => u64::from(*flag),
        Value::String(state) => match &**state {
            "up" | "busy" => 1,
            "draining" => 2,
            "down" => 3,
            "unavail" => 4,
            "checking" => 5,
            "unhealthy" => 6,
            _ => 0,
        },
        value => value.as_u64().unwrap_or(0),
    }
}
