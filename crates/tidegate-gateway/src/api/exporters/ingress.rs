//! The names of ingress-nginx, of version 1.4 and later. A zone of a server is an ingress and its host here, a zone of a
//! location is a path. What only a controller knows (namespace, service) is empty.

use tidegate_core::figures::{Shown, Totals};

use super::{Collected, STARTED};
use crate::api::history::cpu_millis;
use crate::exposition::{Exposition, Type, seconds};

/// Labels of the process.
const CONTROLLER: [(&str, &str); 3] =
    [("controller_class", "nginx"), ("controller_namespace", ""), ("controller_pod", "tidegate")];

/// A zone: its name, which is that of a location or of a server, and its sums.
struct Shows {
    name: String,
    is_location: bool,
    totals: Totals,
}

pub(super) fn write(collected: &Collected, out: &mut Exposition) {
    write_process(collected, out);
    let of = |zones: &Shown, is_location: bool| -> Vec<Shows> {
        let shown = zones.iter().map(|(name, zone)| Shows {
            name: name.clone(),
            is_location,
            totals: zone.totals(),
        });
        shown.collect()
    };
    let mut zones = of(&collected.servers, false);
    zones.extend(of(&collected.locations, true));
    if !zones.is_empty() {
        write_zones(&zones, out);
    }
}

fn write_process(collected: &Collected, out: &mut Exposition) {
    let prefix = "nginx_ingress_controller_nginx_process_";
    let of = &collected.connections;
    let name = format!("{prefix}connections");
    let mut connections = out.family(&name, Type::Gauge, "Connections by state.");
    for (state, count) in [
        ("active", of.active),
        ("reading", of.reading),
        ("waiting", of.waiting),
        ("writing", of.writing),
    ] {
        connections.line(&with("state", state), count);
    }
    let name = format!("{prefix}connections_total");
    let mut total = out.family(&name, Type::NamedCounter, "Connections so far.");
    total.line(&with("state", "accepted"), of.accepted);
    total.line(&with("state", "handled"), of.handled);
    let name = format!("{prefix}requests_total");
    out.family(&name, Type::NamedCounter, "Requests so far.").line(&CONTROLLER, of.requests);
    let name = format!("{prefix}num_procs");
    out.family(&name, Type::Gauge, "Worker processes.").line(&CONTROLLER, 1);
    let name = format!("{prefix}cpu_seconds_total");
    let cpu = seconds(cpu_millis().unwrap_or(0) * 1000);
    out.family(&name, Type::NamedCounter, "Processor time.").line(&CONTROLLER, cpu);
    let name = format!("{prefix}oldest_start_time_seconds");
    let start = seconds(*STARTED * 1000);
    out.family(&name, Type::Gauge, "When the process began.").line(&CONTROLLER, start);
    let name = "nginx_ingress_controller_build_info";
    let build = [("build", "tidegate"), ("release", env!("CARGO_PKG_VERSION")), ("repository", "")];
    out.family(name, Type::Gauge, "The program.").line(&build, 1);
}

fn with<'l>(name: &'l str, value: &'l str) -> Vec<(&'l str, &'l str)> {
    CONTROLLER.iter().copied().chain([(name, value)]).collect()
}

/// Returns the labels of a zone.
fn labels(zone: &Shows) -> Vec<(&str, &str)> {
    let (host, path) = match zone.is_location {
        true => ("", zone.name.as_str()),
        false => (zone.name.as_str(), ""),
    };
    let own = [
        ("canary", ""),
        ("host", host),
        ("ingress", zone.name.as_str()),
        ("method", ""),
        ("namespace", ""),
        ("path", path),
        ("service", ""),
    ];
    CONTROLLER.into_iter().chain(own).collect()
}

/// A family of bytes: its name, its description, and the bytes of a zone.
type Size = (&'static str, &'static str, fn(&Totals) -> u64);

const SIZES: [Size; 3] = [
    ("request_size", "Bytes of requests.", |totals| totals.received),
    ("response_size", "Bytes of responses.", |totals| totals.sent),
    ("bytes_sent", "Bytes sent to clients.", |totals| totals.sent),
];

fn write_zones(zones: &[Shows], out: &mut Exposition) {
    let name = "nginx_ingress_controller_requests";
    let mut requests = out.family(name, Type::NamedCounter, "Responses by status.");
    for zone in zones {
        let labels = labels(zone);
        for (code, count) in zone.totals.codes() {
            let code = code.to_string();
            let with_status: Vec<_> =
                labels.iter().copied().chain([("status", code.as_str())]).collect();
            requests.line(&with_status, count);
        }
    }
    let name = "nginx_ingress_controller_request_duration_seconds";
    let mut times = out.family(name, Type::Histogram, "Times of requests.");
    for zone in zones {
        times.times(&labels(zone), &zone.totals.times, zone.totals.micros, None);
    }
    for (name, help, bytes) in SIZES {
        let name = format!("nginx_ingress_controller_{name}");
        let mut family = out.family(&name, Type::Histogram, help);
        for zone in zones {
            let count = zone.totals.times.iter().sum();
            family.sums(&labels(zone), count, bytes(&zone.totals));
        }
    }
}
