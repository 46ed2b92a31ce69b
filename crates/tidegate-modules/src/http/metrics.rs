//! `metrics`: figures as metrics, in the text format of Prometheus, or as OpenMetrics where the client prefers that.
//!
//! ```nginx
//! location = /metrics { metrics tidegate nginxplus; allow 127.0.0.1; deny all; }
//! ```
//! The words are sets of names, as exporters have them:
//!
//! | | |
//! |---|---|
//! | `tidegate` | connections, requests, zones, groups, caches, limits, thread pools, and event-loop iterations where `loop_watchdog` is set |
//! | `nginx` | the names of nginx' exporter for `stub_status` |
//! | `nginxplus` | those of its mode for nginx Plus: what `api` shows |
//! | `vts` | those of nginx-module-vts |
//! | `ingress` | those of ingress-nginx |

mod accept;
#[cfg(test)]
mod dashboards;
mod held;
#[cfg(test)]
mod tests;
mod text;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::timeline::slow;
use tidegate_core::{Body, Exchange, Level, Step, blocking, counters};
use tidegate_gateway::exposition::{Exposition, Part, WEIGHT_AT_ONCE};
use tidegate_gateway::{ExporterNames, exporter_metrics};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_rt::iteration;

use held::Held;

/// The module of `metrics`.
pub(crate) struct Metrics;

#[derive(Default)]
pub(crate) struct Conf {
    sets: Option<Vec<NameSet>>,
}

/// A set of metrics by the exporter whose names they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameSet {
    Tidegate,
    Nginx,
    NginxPlus,
    Exporter(ExporterNames),
}

const SETS: &[(&str, NameSet)] = &[
    ("tidegate", NameSet::Tidegate),
    ("nginx", NameSet::Nginx),
    ("nginxplus", NameSet::NginxPlus),
    ("vts", NameSet::Exporter(ExporterNames::Vts)),
    ("ingress", NameSet::Exporter(ExporterNames::Ingress)),
];

impl Module for Metrics {
    type Conf = Conf;
    const NAME: &'static str = "metrics";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "metrics",
        Contexts::LOCATION,
        Arity::between(0, SETS.len()),
        "",
        "Sends metrics in the Prometheus text format, or as OpenMetrics to clients that ask for \
         `application/openmetrics-text` in `Accept`; there histograms of requests have the latest trace of each bucket, \
         where `otel_trace` recorded one. The words choose sets of names: `tidegate` (connections, zones, groups of \
         servers, caches with shared purges, limits, thread pools, event loops), `nginx` and `nginxplus` (those of nginx' exporter in its two modes), `vts` (those of \
         nginx-module-vts) and `ingress` (those of ingress-nginx). Without words they are the first two. While 64 MB of large responses wait for \
         clients that do not read them, further ones get 503.",
        |conf, args| {
            let mut sets = Vec::new();
            for index in 0..args.len() {
                let set = args.choice(index, SETS)?;
                if sets.contains(&set) {
                    return Err(args.invalid_parameter(index));
                }
                sets.push(set);
            }
            if sets.is_empty() {
                sets = vec![NameSet::Tidegate, NameSet::Nginx];
            }
            once(&mut conf.sets, sets, args)
        },
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(sets) = conf.sets.clone() else { return Ok(()) };
        tidegate_gateway::note_start();
        let make = || Ok::<_, Diagnostic>(Held::default());
        let held = location.plan.environment.reload_state.get_or_make("metrics", make)?;
        location.content(Box::new(move |x| respond(x, &sets, &held)));
        Ok(())
    }
}

/// About the bytes of the lines of an object: a zone has 1.7 KB of them.
const BYTES_OF_OBJECT: usize = 2048;

fn respond<'a>(x: &'a mut Exchange, sets: &[NameSet], held: &Held) -> Step<'a> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Step::Status(405);
    }
    let format = accept::format(x.request.head.headers.all(Known::Accept));
    let mut parts = Vec::new();
    for set in sets {
        match set {
            NameSet::Tidegate => {
                parts.push(of_process(x));
                parts.push(exporter_metrics(x, ExporterNames::Own));
                parts.push(tidegate_gateway::purge_metrics(x));
                parts.push(tidegate_gateway::discovery_metrics(x));
                parts.push(tidegate_gateway::tier_metrics(x));
                parts.push(tidegate_gateway::ring_metrics(x));
            }
            NameSet::Nginx => {
                let connections = counters::figures();
                parts.push(Part::new(1, move |out| text::write_nginx(&connections, out)));
            }
            NameSet::NginxPlus => parts.push(tidegate_gateway::plus_metrics(x)),
            NameSet::Exporter(names) => parts.push(exporter_metrics(x, *names)),
        }
    }
    x.disposition.set_status(200);
    x.response.headers.set_known(Known::ContentType, format.content_type());
    x.response.headers.push_known(Known::Vary, b"Accept");
    let weight: usize = parts.iter().map(Part::weight).sum();
    let write = move || {
        let mut out = Exposition::of_size(format, weight * BYTES_OF_OBJECT);
        parts.into_iter().for_each(|part| part.write(&mut out));
        out.finish()
    };
    if weight <= WEIGHT_AT_ONCE {
        return Step::Respond(Body::from(Bytes::from(write())));
    }
    let Some(share) = held.reserve(weight * BYTES_OF_OBJECT) else {
        let most = held::HELD_BYTES_MAX;
        let message = format_args!("metrics refused: {most} bytes of them wait for their clients");
        x.log(Level::Warn, message);
        return Step::Status(503);
    };
    Step::Wait(Box::pin(async move {
        match blocking::run(move || Ok(share.hold(write()))).await {
            Ok(text) => Step::Respond(Body::from(text)),
            Err(error) => {
                x.log(Level::Error, format_args!("metrics were not written: {error}"));
                Step::Status(503)
            }
        }
    }))
}

/// Collects the figures of connections, thread pools, event loops and verdicts.
fn of_process(x: &Exchange) -> Part {
    let connections = counters::figures();
    let (pools, loops) = (blocking::figures(), iteration::figures());
    let verdicts: Option<Vec<_>> = x.plan.timelines.then(|| slow::verdicts().collect());
    Part::new(1, move |out| {
        text::write(&connections, &pools, &loops, out);
        if let Some(verdicts) = &verdicts {
            text::write_verdicts(verdicts, out);
        }
    })
}
