//! `metrics`: the process's metrics in the text format of Prometheus.
//!
//! ```nginx
//! location = /metrics { metrics tidegate nginxplus; allow 127.0.0.1; deny all; }
//! ```
//! The words are sets of names, as exporters have them:
//!
//! | | |
//! |---|---|
//! | `tidegate` | connections and requests, thread pools, and event-loop iterations where `loop_watchdog` is set |
//! | `nginx` | the names of nginx' exporter for `stub_status` |
//! | `nginxplus` | those of its mode for nginx Plus: what `api` shows |
//! | `vts` | those of nginx-module-vts |
//! | `ingress` | those of ingress-nginx |

#[cfg(test)]
mod tests;
mod text;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::timeline::slow;
use tidegate_core::{Body, Exchange, Level, Step, blocking, counters};
use tidegate_gateway::ExporterNames;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_rt::iteration;

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
        "Sends metrics in the Prometheus text format. The words choose sets of names: `tidegate` (connections, thread \
         pools, event loops), `nginx` and `nginxplus` (those of nginx' exporter in its two modes), `vts` (those of \
         nginx-module-vts) and `ingress` (those of ingress-nginx). Without words they are the first two.",
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
        location.content(Box::new(move |x| respond(x, &sets)));
        Ok(())
    }
}

fn respond<'a>(x: &'a mut Exchange, sets: &[NameSet]) -> Step<'a> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Step::Status(405);
    }
    let mut text = String::new();
    for set in sets {
        let connections = counters::figures();
        match set {
            NameSet::Tidegate => {
                text += &text::write(&connections, &blocking::figures(), &iteration::figures());
                if x.plan.timelines {
                    text::write_verdicts(slow::verdicts(), &mut text);
                }
            }
            NameSet::Nginx => text::write_nginx(&connections, &mut text),
            NameSet::NginxPlus | NameSet::Exporter(_) => {}
        }
    }
    let mut later: Vec<Box<dyn FnOnce() -> String + Send>> = Vec::new();
    for set in sets {
        match set {
            NameSet::Tidegate | NameSet::Nginx => {}
            NameSet::NginxPlus => later.push(Box::new(tidegate_gateway::plus_metrics(x))),
            NameSet::Exporter(names) => {
                later.push(Box::new(tidegate_gateway::exporter_metrics(x, *names)));
            }
        }
    }
    x.disposition.set_status(200);
    x.response.headers.set_known(Known::ContentType, b"text/plain; version=0.0.4");
    if later.is_empty() {
        return Step::Respond(Body::from(Bytes::from(text)));
    }
    let work = move || Ok(later.into_iter().map(|write| write()).collect::<String>());
    Step::Wait(Box::pin(async move {
        match blocking::run(work).await {
            Ok(rest) => Step::Respond(Body::from(Bytes::from(text + &rest))),
            Err(error) => {
                x.log(Level::Error, format_args!("metrics were not written: {error}"));
                Step::Status(503)
            }
        }
    }))
}
