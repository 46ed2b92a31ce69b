//! `metrics`: the process's metrics in the text format of Prometheus.
//!
//! ```nginx
//! location = /metrics { metrics; allow 127.0.0.1; deny all; }
//! ```
//! Connections and requests, thread pools, and event-loop iterations where `loop_watchdog` is set.

#[cfg(test)]
mod tests;
mod text;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::{Body, Exchange, Step, blocking, counters};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_rt::iteration;

/// The module of `metrics`.
pub(crate) struct Metrics;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<()>,
}

impl Module for Metrics {
    type Conf = Conf;
    const NAME: &'static str = "metrics";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "metrics",
        Contexts::LOCATION,
        Arity::NONE,
        "",
        "Sends metrics of connections, thread pools and event loops in the Prometheus text format.",
        |conf, args| once(&mut conf.on, (), args),
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on.is_some() {
            location.content(Box::new(respond));
        }
        Ok(())
    }
}

fn respond(x: &mut Exchange) -> Step<'_> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Step::Status(405);
    }
    let text = text::write(&counters::figures(), &blocking::figures(), &iteration::figures());
    x.disposition.set_status(200);
    x.response.headers.set_known(Known::ContentType, b"text/plain; version=0.0.4");
    Step::Respond(Body::from(Bytes::from(text)))
}
