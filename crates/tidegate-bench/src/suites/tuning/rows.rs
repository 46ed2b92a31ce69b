//! The rows, in the order of the study.

use super::{Case, Kind, LoadCase, Places, Section};
use crate::config::tuning::Knobs;

/// The body of the small response, in bytes.
pub(super) const SMALL: u64 = 1024;
const LARGE: u64 = 100 * 1024;

const NONE: Knobs = Knobs::NONE;
const TWO: Knobs = Knobs { workers: Some("2"), ..NONE };
const AUTO: Knobs = Knobs { workers: Some("auto"), ..NONE };
const GROUP: Knobs = Knobs { upstream: true, ..NONE };
const KEPT: Knobs = Knobs { keepalive: true, ..GROUP };
const BOTH: Knobs = Knobs { second: true, ..KEPT };
const ALL: Knobs = Knobs {
    workers: Some("auto"),
    affinity: true,
    connections: Some(4096),
    multi_accept: true,
    deferred: true,
    ..BOTH
};
const FIXED: Knobs = Knobs { fixed: true, ..NONE };
const FIXED_AUTO: Knobs = Knobs { workers: Some("auto"), affinity: true, ..FIXED };
const FIXED_EVENTS: Knobs = Knobs { connections: Some(4096), multi_accept: true, ..FIXED_AUTO };
const FIXED_ALL: Knobs = Knobs { deferred: true, reuseport: true, ..FIXED_EVENTS };
const SPREAD: Knobs = Knobs { connections: Some(4096), ..TWO };

/// The tuned proxy on a processor of its own.
pub(super) const OWN_TUNED: LoadCase =
    LoadCase { knobs: KEPT, places: Places::Apart, body_bytes: SMALL };

const fn load(knobs: Knobs, places: Places) -> Kind {
    Kind::Load(LoadCase { knobs, places, body_bytes: SMALL })
}

const fn case(name: &'static str, about: &'static str, section: Section, kind: Kind) -> Case {
    Case { name, about, section, base: None, published: None, kind }
}

/// Returns a row of the proxy with these settings, and the row that it is a step from.
const fn knob(
    name: &'static str,
    about: &'static str,
    base: &'static str,
    published: Option<f64>,
    knobs: Knobs,
) -> Case {
    let row = case(name, about, Section::Proxy, load(knobs, Places::Free));
    Case { base: Some(base), published, ..row }
}

const fn fixed(name: &'static str, about: &'static str, knobs: Knobs, base: &'static str) -> Case {
    let row = case(name, about, Section::Fixed, load(knobs, Places::Free));
    Case { base: Some(base), ..row }
}

const fn place(name: &'static str, about: &'static str, places: Places) -> Case {
    Case { base: Some("default"), ..case(name, about, Section::Places, load(NONE, places)) }
}

const fn target(name: &'static str, about: &'static str, kind: Kind) -> Case {
    case(name, about, Section::Targets, kind)
}

/// The suite's table. Gains of the study are given where it has the same row.
#[rustfmt::skip]
pub(crate) const CASES: [Case; 36] = [
    Case { published: Some(673.0), ..case("direct", "no proxy: straight to the backend", Section::Proxy, Kind::Direct) },
    case("default", "nothing but proxy_pass", Section::Proxy, load(NONE, Places::Free)),
    knob("workers-2", "worker_processes 2", "default", Some(92.0), TWO),
    knob("workers-3", "worker_processes 3", "workers-2", None, Knobs { workers: Some("3"), ..NONE }),
    knob("workers-auto", "worker_processes auto", "default", None, AUTO),
    knob("affinity", "worker_processes auto, worker_cpu_affinity auto", "workers-auto", None, Knobs { affinity: true, ..AUTO }),
    knob("connections", "worker_connections 4096", "default", None, Knobs { connections: Some(4096), ..NONE }),
    knob("accept-mutex", "worker_processes 2, accept_mutex on", "workers-2", None, Knobs { accept_mutex: Some(true), ..TWO }),
    knob("multi-accept", "multi_accept on", "default", None, Knobs { multi_accept: true, ..NONE }),
    knob("upstream", "an upstream block with one server", "default", None, GROUP),
    knob("keepalive", "in it keepalive 32, keepalive_requests 2000", "upstream", Some(18.0), KEPT),
    knob("second", "an upstream block with two servers", "upstream", None, Knobs { second: true, ..GROUP }),
    knob("keepalive-second", "keepalive, two servers", "keepalive", None, BOTH),
    knob("deferred", "listen … deferred", "default", Some(11.0), Knobs { deferred: true, ..NONE }),
    knob("reuseport", "worker_processes 2, listen … reuseport", "workers-2", None, Knobs { reuseport: true, ..TWO }),
    knob("2-keepalive", "worker_processes 2, keepalive", "keepalive", None, Knobs { workers: Some("2"), ..KEPT }),
    knob("2-keepalive-second", "worker_processes 2, keepalive, two servers", "2-keepalive", None, Knobs { workers: Some("2"), ..BOTH }),
    knob("all", "auto workers with affinity, 4096 connections, multi_accept, deferred, keepalive, two servers", "default", Some(103.0), ALL),
    case("return", "nothing but return 200", Section::Fixed, load(FIXED, Places::Free)),
    fixed("return-workers", "worker_processes auto, affinity", FIXED_AUTO, "return"),
    fixed("return-events", "… worker_connections 4096, multi_accept on", FIXED_EVENTS, "return-workers"),
    Case { published: Some(228.2), ..fixed("return-all", "… deferred, reuseport", FIXED_ALL, "return-events") },
    place("apart", "the proxy on a processor of its own, load and backend on another", Places::Apart),
    place("own", "each on a processor of its own", Places::Own),
    place("together", "all on one processor", Places::Together),
    target("own-default", "nothing but proxy_pass", load(NONE, Places::Apart)),
    Case { base: Some("own-default"), ..target("own-tuned", "upstream with keepalive", Kind::Load(OWN_TUNED)) },
    target("own-default-large", "nothing but proxy_pass, 100 KiB", Kind::Load(LoadCase { knobs: NONE, places: Places::Apart, body_bytes: LARGE })),
    Case { base: Some("own-default-large"), ..target("own-tuned-large", "upstream with keepalive, 100 KiB", Kind::Load(LoadCase { body_bytes: LARGE, ..OWN_TUNED })) },
    target("paced", "upstream with keepalive, at 80 % of the requests that nginx can serve in a second", Kind::Paced),
    target("skew", "1000 connections on two workers", Kind::Skew(SPREAD)),
    target("skew-reuseport", "the same with reuseport", Kind::Skew(Knobs { reuseport: true, ..SPREAD })),
    target("skew-mutex", "the same with accept_mutex on", Kind::Skew(Knobs { accept_mutex: Some(true), ..SPREAD })),
    target("skew-multi", "the same with multi_accept on", Kind::Skew(Knobs { multi_accept: true, ..SPREAD })),
    target("skew-mutex-multi", "the same with both", Kind::Skew(Knobs { accept_mutex: Some(true), multi_accept: true, ..SPREAD })),
    target("idle-proxied", "memory of idle connections after a proxied request each", Kind::Idle),
];
