//! `prometheus`: figures of the tree of `api` in the text format of Prometheus, by templates of the configuration, as Angie
//! has them.
//!
//! ```nginx
//! prometheus_template own {
//!     'requests_total{zone="$1"}' $p8s_value path=~^/http/server_zones/([^/]+)/requests/total$ type=counter;
//! }
//! server { location = /p8s { prometheus own; } location = /all { prometheus all; } }
//! ```
//! The template `all` is built in, under the names of Angie's, unless the configuration has its own.

mod all;
mod lines;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_conf::{
    Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Statement, Word, once, row,
};
use tidegate_core::variables::Variable;
use tidegate_core::{Body, Exchange, Level, Step, blocking};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use lines::Sample;
use template::{Metric, MetricValue, Metrics};

/// The module of `prometheus`.
pub(crate) struct Prometheus;

#[derive(Default)]
pub(crate) struct Conf {
    templates: Vec<TemplateConf>,
    chosen: Option<Word>,
}

/// A `prometheus_template` as written.
struct TemplateConf {
    name: String,
    span: Span,
    entries: Arc<Vec<Statement>>,
}

/// The templates of a configuration by name.
#[derive(Default)]
struct Templates(BTreeMap<String, Arc<Metrics>>);

/// The value of `$p8s_value`, while a metric is written.
struct PresentValue(String);

impl Module for Prometheus {
    type Conf = Conf;
    const NAME: &'static str = "prometheus";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[Variable::fixed(
        "p8s_value",
        "Value of the object that a line of `prometheus_template` is about.",
        |x, out| {
            let Some(value) = x.modules.extensions.of::<PresentValue>() else { return false };
            out.extend_from_slice(value.0.as_bytes());
            true
        },
    )];

    fn inherit(_child: &mut Conf, _parent: &Conf, _block: BlockInfo<'_>) {}

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        for TemplateConf { name, span, entries } in &conf.templates {
            if plan.shared::<Templates>().0.contains_key(name) {
                let message = format!("duplicate \"prometheus_template\" \"{name}\"");
                return Err(Diagnostic::emerg(message).at(*span));
            }
            let metrics = template::compile(name, entries, plan)?;
            plan.shared::<Templates>().0.insert(name.clone(), Arc::new(metrics));
        }
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(word) = &conf.chosen else { return Ok(()) };
        let name = word.display();
        let known = location.plan.shared::<Templates>().0.get(&*name).cloned();
        let metrics = match known {
            Some(metrics) => metrics,
            None if name == all::NAME => Arc::new(all::metrics()),
            None => {
                let message = format!("unknown \"prometheus_template\" \"{name}\"");
                let help = "`all` is built in; others are declared in the `http` block";
                return Err(Diagnostic::emerg(message).at(word.span).help(help));
            }
        };
        location.content(Box::new(move |x| {
            if !matches!(x.request.method, Method::Get | Method::Head) {
                return Step::Status(405);
            }
            let metrics = metrics.clone();
            Step::Wait(Box::pin(async move { respond(x, &metrics).await }))
        }));
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "prometheus",
        Contexts::LOCATION,
        Arity::ONE,
        "",
        "Sends figures in the Prometheus text format, by the `prometheus_template` of this name. The template `all` is \
         built in.",
        |conf, args| once(&mut conf.chosen, args.word(0).clone(), args),
    ),
    Directive {
        name: "prometheus_template",
        contexts: Contexts::HTTP,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "Declares metrics, one a line: name with labels, value, and the parameters `path=`, `type=` and `help=`. The \
              path is that of an object of the tree of `api`, below `/status`, or with `~` (`~*`: without regard to case) a \
              regular expression, whose captures `$1` to `$9` may be in the name and the value. A path that ends with `/` \
              is that of an object with parts, and its value is their number. The value may have variables, \
              `$p8s_value` among them; a line whose value is no number is left out.",
        has_effect: true,
        set: set_template,
    },
];

fn set_template(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (name, span) = (args.text(0)?.to_owned(), args.word(0).span);
    conf.templates.push(TemplateConf { name, span, entries: args.shared_entries()? });
    Ok(())
}

/// Collects the figures and finds the lines on a pool thread, then computes the values that have variables.
async fn respond(x: &mut Exchange, metrics: &Arc<Metrics>) -> Step<'static> {
    let (tree, wanted) = (tidegate_gateway::figures_tree(x), metrics.clone());
    let samples = match blocking::run(move || Ok(lines::samples(&wanted, &tree()))).await {
        Ok(samples) => samples,
        Err(error) => {
            x.log(Level::Error, format_args!("metrics were not collected: {error}"));
            return Step::Status(503);
        }
    };
    let mut text = format!("# Tidegate Prometheus template \"{}\"\n", metrics.name);
    let mut head = None;
    for (metric, samples) in metrics.all.iter().zip(samples) {
        let lines: Vec<String> =
            samples.into_iter().filter_map(|sample| line(x, metric, sample)).collect();
        lines::write(metric, &lines, &mut head, &mut text);
    }
    x.disposition.set_status(200);
    x.response.headers.set_known(Known::ContentType, b"text/plain; version=0.0.4");
    x.response.headers.set_known(Known::CacheControl, b"no-cache");
    Step::Respond(Body::from(Bytes::from(text)))
}

/// Returns the line of a sample; `None` where its value is no number.
fn line(x: &mut Exchange, metric: &Metric, sample: Sample) -> Option<String> {
    let value = match &metric.value {
        MetricValue::Object => sample.value,
        MetricValue::Word(names) => {
            names.iter().find(|(name, _)| *name == sample.value)?.1.to_string()
        }
        MetricValue::Template(template) => {
            if let Some(regex) = metric.path.regex() {
                let _ = regex.capture_into(&mut x.modules.captures, sample.path.as_bytes());
            }
            x.modules.extensions.insert(PresentValue(sample.value));
            String::from_utf8_lossy(&template.value(x)).into_owned()
        }
    };
    value.trim().parse::<f64>().ok()?;
    Some(format!("{} {}\n", sample.name, value.trim()))
}
