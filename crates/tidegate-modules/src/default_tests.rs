//! A configuration with a directive's written default has the same effect as one without the directive.
//!
//! Compared are the settings of the core modules, field by field, and for all modules the number of handlers, filters, trailers, loggers and services that they add: a default that
//! switches something on or off shows there. Values inside a handler cannot be seen from outside and are not compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_conf::{Contexts, Kind, Row};
use tidegate_core::plan::{Location, Plan};
use tidegate_core::settings::SessionSettings;

use crate::testing::Bench;

/// Directives that are not compared, each with its reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("listen", "the default is words: the port depends on the rights of the process"),
    ("map_hash_bucket_size", "the default is words: it depends on the processor"),
    ("userid_service", "the default is words: the address of the server"),
    ("user", "the built-in user is read at start, if the process may change it"),
    ("env", "the worker keeps `TZ` in any case"),
    ("thread_pool", "the pool `default` is started when a location first uses it"),
    ("log_format", "the format `combined` is built in and cannot be defined again"),
    ("proxy_ssl_name", "`$proxy_host` exists only beside `proxy_pass`"),
];

/// Contexts with what stands before and behind a directive in them.
const PLACES: [(Contexts, &str, &str); 10] = [
    (Contexts::EVENTS, "events {", "} http { server { return 200; } }"),
    (
        Contexts::MAIN,
        "",
        "http { server { return 200; } } stream { server { listen 1; return a; } }",
    ),
    (Contexts::HTTP, "http {", "server { location / { return 200; } } }"),
    (Contexts::SERVER, "http { server {", "location / { return 200; } } }"),
    (Contexts::LOCATION, "http { server { location / {", "} } }"),
    (Contexts::STREAM, "stream {", "server { listen 1; return a; } }"),
    (Contexts::STREAM_SERVER, "stream { server { listen 1;", "return a; } }"),
    (Contexts::UPSTREAM, "http { upstream a { server 127.0.0.1;", "} }"),
    (Contexts::STREAM_UPSTREAM, "stream { upstream a { server 127.0.0.1:1;", "} }"),
    (Contexts::LOCATION_IF, "http { server { location / { if ($args) {", "} } } }"),
];

#[test]
fn a_written_default_has_the_effect_of_no_directive() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for row in crate::MODULES.iter().flat_map(|module| module.rows()) {
        let left_out = LEFT_OUT.iter().any(|(name, _)| *name == row.name);
        if row.default.is_empty() || row.kind == Kind::Block || left_out {
            continue;
        }
        compared += 1;
        wrong.extend(difference(&row));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 300, "{compared}");
}

/// Returns the first line in which the two plans differ.
fn difference(row: &Row) -> Option<String> {
    let Some((_, before, behind)) = PLACES.iter().find(|place| row.contexts.contains(place.0))
    else {
        return Some(format!("{}: no place", row.name));
    };
    let with = effect(&format!("{before} {} {}; {behind}", row.name, row.default));
    let without = effect(&format!("{before} {behind}"));
    let (mut with, mut without) = (with.lines(), without.lines());
    loop {
        match (with.next(), without.next()) {
            (None, None) => return None,
            (with, without) if with == without => {}
            (with, without) => {
                return Some(format!("{}: with {with:?}, without {without:?}", row.name));
            }
        }
    }
}

/// Returns the plan of a configuration as text, or its errors.
fn effect(config: &str) -> String {
    let bench = match Bench::try_of_file(config) {
        Ok(bench) => bench,
        Err(errors) => return errors.join("\n"),
    };
    let mut shown = format!("{:#?}\n{:?}\n", bench.plan.main, bench.warnings);
    show(&bench.plan, &mut shown);
    if let Some(sessions) = &bench.plan.sessions {
        show(sessions, &mut shown);
    }
    shown.replace(bench.dir.path().to_str().unwrap(), "DIR")
}

fn show(plan: &Plan, shown: &mut String) {
    for listener in &plan.listeners {
        let (tls, datagram) = (listener.tls, listener.datagram);
        writeln!(shown, "{:?} {tls} {datagram} {:?}", listener.address, listener.socket).unwrap();
    }
    for server in &plan.servers {
        writeln!(shown, "{:?}\n{:#?}", server.name, server.settings).unwrap();
    }
    for location in &plan.locations {
        show_location(location, shown);
    }
    writeln!(shown, "services {}", plan.services.len()).unwrap();
}

fn show_location(location: &Location, shown: &mut String) {
    let types: BTreeMap<_, _> = location.settings.types.iter().collect();
    writeln!(shown, "{types:?}").unwrap();
    let mut settings = location.settings.clone();
    settings.types = Arc::default();
    writeln!(shown, "{settings:#?}").unwrap();
    writeln!(shown, "phases {:?}", location.phases.each_ref().map(Vec::len)).unwrap();
    writeln!(shown, "content {}", location.content.is_some()).unwrap();
    writeln!(shown, "filters {}", location.filters.len()).unwrap();
    writeln!(shown, "trailers {}", location.trailers.len()).unwrap();
    writeln!(shown, "loggers {}", location.loggers.len()).unwrap();
    writeln!(shown, "warn_uninitialized {}", location.warn_uninitialized).unwrap();
    writeln!(shown, "{:#?}", location.extensions.of::<SessionSettings>()).unwrap();
}
