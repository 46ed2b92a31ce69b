//! `otel_exporter`, `otel_trace`, …: a span of OpenTelemetry for each request, with the trace context of W3C, exported by
//! OTLP.
//!
//! ```nginx
//! otel_exporter { endpoint localhost:4317; }
//! location / {
//!     otel_trace         on;
//!     otel_trace_context propagate;
//!     proxy_pass         http://backend;
//! }
//! ```
//!
//! | file | contents |
//! |---|---|
//! | conf | directives |
//! | context | `traceparent` and `tracestate`, and the identifiers of a request |
//! | span | from a request to an encoded span |
//! | queue | spans that wait to be exported; outlives reloads |
//! | exporter | an `otel_exporter` block, ready for use, and its task |
//! | children | spans of the parts of a request |
//! | collector | one call of the collector |
//!
//! A request waits for nothing here: its span is encoded in the log phase and goes to the queue, which drops it where the
//! collector does not keep up. Nothing is recorded where `otel_trace` is off.

mod children;
mod collector;
mod conf;
mod context;
mod exporter;
mod queue;
mod span;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Contexts, Diagnostic, Directive};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Phase, Step, Template};
use tidegate_plan::module::{BlockInfo, BlockRow, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::status_zone;
use conf::{Conf, Propagation};
use exporter::Exporter;
use span::Names;

/// `ngx_otel_module`.
pub(crate) struct Otel;

impl Module for Otel {
    type Conf = Conf;
    const NAME: &'static str = "otel";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[conf::ROWS, conf::EXPORTER_ROWS];
    const BLOCKS: &'static [BlockRow] = &[BlockRow {
        name: "otel_exporter",
        within: Contexts::HTTP,
        opens: Contexts::OTEL_EXPORTER,
    }];
    const VARIABLES: &'static [Variable] = VARIABLES;

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.inherit(parent);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let exporter = exporter::prepare(conf, plan)?;
        plan.share(Shared { exporter });
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let traced = match &conf.trace {
            None => return Ok(()),
            Some(word) => Trace::compile(word, location.plan)?,
        };
        let Some(trace) = traced else { return Ok(()) };
        let mut attributes = Vec::with_capacity(conf.attributes.len());
        for (name, value) in &conf.attributes {
            attributes.push((name.clone(), location.plan.template(value)?));
        }
        let name = conf.name.as_ref().map(|word| location.plan.template(word)).transpose()?;
        let settings = Arc::new(Settings {
            trace,
            propagation: conf.propagation.unwrap_or(Propagation::IGNORE),
            name,
            attributes,
            names: Names::new(location.plan),
            exporter: location.plan.shared::<Shared>().exporter.clone(),
            children: conf.children.unwrap_or(false),
        });
        location.plan.timelines |= settings.children && settings.exporter.is_some();
        location.plan.show(&(&settings.propagation, &settings.attributes, settings.children));
        location.location.extensions.insert(settings.clone());
        if settings.propagation.inject && !location.is_unnamed_block() {
            location.handler(Phase::Preaccess, Box::new(inject));
        }
        if settings.exporter.is_some() {
            location.logger(Box::new(move |x| record(&settings, x)));
        }
        Ok(())
    }
}

/// What the locations of a plan share.
#[derive(Default)]
struct Shared {
    /// None without an `otel_exporter`.
    exporter: Option<Arc<Exporter>>,
}

/// The settings of a location that may be traced.
struct Settings {
    trace: Trace,
    propagation: Propagation,
    /// `otel_span_name`.
    name: Option<Template>,
    /// `otel_span_attr`.
    attributes: Vec<(Arc<str>, Template)>,
    names: Names,
    exporter: Option<Arc<Exporter>>,
    /// `otel_child_spans`.
    children: bool,
}

/// `otel_trace`, unless it is `off`.
enum Trace {
    On,
    /// On where this is `on` or `1`.
    By(Template),
}

impl Trace {
    /// Compiles the argument; `None` is `off`.
    fn compile(
        word: &tidegate_conf::Word,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<Trace>, Diagnostic> {
        match &word.bytes[..] {
            b"on" => Ok(Some(Trace::On)),
            b"off" => Ok(None),
            _ => Ok(Some(Trace::By(plan.template(word)?))),
        }
    }

    fn is_on(&self, x: &mut Exchange) -> bool {
        match self {
            Trace::On => true,
            Trace::By(template) => matches!(&template.value(x)[..], b"on" | b"1"),
        }
    }
}

/// Returns the settings of the current location.
fn settings(x: &Exchange) -> Option<Arc<Settings>> {
    x.location().extensions.of::<Arc<Settings>>().cloned()
}

/// Sets `traceparent` and `tracestate` of the request, which origins and subrequests receive.
fn inject(x: &mut Exchange) -> Step<'_> {
    let Some(settings) = settings(x) else { return Step::Decline };
    let sampled = settings.trace.is_on(x);
    let context = context::of(x, settings.propagation);
    let headers = &mut x.request.head.headers;
    headers.remove_named(context::PARENT);
    headers.remove_named(context::STATE);
    headers.push(context::PARENT, context.parent_field(sampled).as_bytes());
    if !context.state.is_empty() {
        headers.push(context::STATE, context.state.as_bytes());
    }
    Step::Decline
}

/// Passes the request's span on, with its children behind it. Subrequests are parts of one.
fn record(settings: &Settings, x: &mut Exchange) {
    if x.is_subrequest() || !settings.trace.is_on(x) {
        return;
    }
    let Some(exporter) = &settings.exporter else { return };
    let context = context::of(x, settings.propagation);
    let span = span::encode(x, &context, settings);
    exporter.push(&span);
    if settings.children {
        children::each(x, &context, |span| exporter.push(span));
    }
    status_zone::exemplify(x, context.trace);
}

const VARIABLES: &[Variable] = &[
    Variable::fixed(
        "otel_trace_id",
        "Identifier of the trace that the request's span belongs to, as 32 hexadecimal digits.",
        |x, out| shown(x, out, |context| Some(context::hex(&context.trace))),
    ),
    Variable::fixed(
        "otel_span_id",
        "Identifier of the request's span, as 16 hexadecimal digits.",
        |x, out| shown(x, out, |context| Some(context::hex(&context.span))),
    ),
    Variable::fixed(
        "otel_parent_id",
        "Identifier of the parent span, from `traceparent` of the request.",
        |x, out| shown(x, out, |context| Some(context::hex(&context.parent.as_ref()?.span))),
    ),
    Variable::fixed(
        "otel_parent_sampled",
        "Whether the parent span was sampled: `1` or `0`.",
        |x, out| {
            shown(x, out, |context| {
                let sampled = context.parent.as_ref().is_some_and(|parent| parent.sampled);
                Some(if sampled { "1" } else { "0" }.to_owned())
            })
        },
    ),
];

fn shown(
    x: &mut Exchange,
    out: &mut Vec<u8>,
    text: impl Fn(&context::Context) -> Option<String>,
) -> bool {
    let propagation = settings(x).map(|settings| settings.propagation);
    let context = context::of(x, propagation.unwrap_or(Propagation::IGNORE));
    let Some(text) = text(&context) else { return false };
    out.extend_from_slice(text.as_bytes());
    true
}

/// Runs the parsers of this module on arbitrary bytes, for fuzzing: of `traceparent` and of a collector's response.
#[doc(hidden)]
pub fn fuzz_otel(data: &[u8]) {
    if let Some(parent) = context::Parent::parse(data) {
        let context = context::Context {
            trace: parent.trace,
            span: parent.span,
            parent: Some(parent),
            state: String::new(),
        };
        let again = context::Parent::parse(context.parent_field(parent.sampled).as_bytes());
        assert_eq!(again, Some(parent), "what is passed on is valid");
    }
    if let Some((count, _)) = collector::refused_of(data) {
        assert!(count > 0, "no refusal of nothing");
    }
}
