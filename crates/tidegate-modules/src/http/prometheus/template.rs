//! The lines of a `prometheus_template`.

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Statement, Word};
use tidegate_core::Template;
use tidegate_core::regex::Regex;
use tidegate_plan::PlanBuilder;

/// A template.
pub(super) struct Metrics {
    pub(super) name: String,
    pub(super) all: Vec<Metric>,
}

/// A line of a template.
pub(super) struct Metric {
    /// Name and labels.
    pub(super) name: Vec<NamePart>,
    pub(super) path: MetricPath,
    pub(super) value: MetricValue,
    /// Behind `# TYPE`.
    pub(super) kind: Option<String>,
    /// Behind `# HELP`.
    pub(super) help: Option<String>,
}

/// A part of a metric's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamePart {
    Text(String),
    /// A capture of the path.
    Group(usize),
}

/// The objects that a metric is about.
pub(super) enum MetricPath {
    /// The one at a path.
    Text(String),
    /// Those whose paths match.
    Regex(Arc<Regex>),
    /// Those whose parts are these: `None` is any name, and a capture.
    Parts(Vec<Option<&'static str>>),
}

/// The value of a metric.
pub(super) enum MetricValue {
    /// That of the object.
    Object,
    /// By variables.
    Template(Template),
    /// Numbers for the texts of the object.
    Word(&'static [(&'static str, u64)]),
}

impl MetricPath {
    pub(super) fn regex(&self) -> Option<&Regex> {
        match self {
            MetricPath::Regex(regex) => Some(regex),
            MetricPath::Text(_) | MetricPath::Parts(_) => None,
        }
    }
}

impl Metric {
    /// Returns the name without labels.
    pub(super) fn family(&self) -> String {
        let texts = self.name.iter().map_while(|part| match part {
            NamePart::Text(text) => Some(text.as_str()),
            NamePart::Group(_) => None,
        });
        let text: String = texts.collect();
        text.split('{').next().unwrap_or_default().to_owned()
    }
}

/// The variable for the object's value.
const VALUE: &[u8] = b"$p8s_value";
/// Types of metrics.
const KINDS: [&str; 6] = ["counter", "gauge", "histogram", "summary", "untyped", "unknown"];

/// Compiles a template.
///
/// # Errors
/// The first line with a mistake.
pub(super) fn compile(
    name: &str,
    entries: &[Statement],
    plan: &mut PlanBuilder<'_>,
) -> Result<Metrics, Diagnostic> {
    let all = entries.iter().map(|entry| metric(entry, plan)).collect::<Result<_, _>>()?;
    Ok(Metrics { name: name.to_owned(), all })
}

fn metric(entry: &Statement, plan: &mut PlanBuilder<'_>) -> Result<Metric, Diagnostic> {
    let [value, parameters @ ..] = &entry.args[..] else {
        let help = "a line is `NAME VALUE path=PATH [type=TYPE] [help=TEXT];`";
        return Err(error(&entry.name, "no value of metric").help(help));
    };
    let (mut path, mut kind, mut help) = (None, None, None);
    for word in parameters {
        let text = word.display();
        let (parameter, rest) = text.split_once('=').unwrap_or((&text, ""));
        let place = match parameter {
            "path" => {
                if path.replace(self::path(word, rest, plan)?).is_some() {
                    return Err(error(word, "duplicate parameter"));
                }
                continue;
            }
            "type" if KINDS.contains(&rest) => &mut kind,
            "type" => return Err(error(word, "invalid type of metric").help(KINDS.join(", "))),
            "help" => &mut help,
            _ => return Err(error(word, "invalid parameter")),
        };
        if place.replace(rest.replace('\\', "\\\\").replace('\n', "\\n")).is_some() {
            return Err(error(word, "duplicate parameter"));
        }
    }
    let Some(path) = path else { return Err(error(&entry.name, "no \"path=\" of metric")) };
    let value = match &value.bytes[..] {
        VALUE => MetricValue::Object,
        _ => MetricValue::Template(plan.template(value)?),
    };
    let groups = path.regex().map_or(0, Regex::group_count);
    Ok(Metric { name: name_parts(&entry.name, groups)?, path, value, kind, help })
}

fn path(word: &Word, text: &str, plan: &mut PlanBuilder<'_>) -> Result<MetricPath, Diagnostic> {
    if let Some(regex) = text.strip_prefix('~') {
        let (regex, caseless) = match regex.strip_prefix('*') {
            Some(regex) => (regex, true),
            None => (regex, false),
        };
        return plan.regex(regex.as_bytes(), caseless, word.span).map(MetricPath::Regex);
    }
    match text.starts_with('/') {
        true => Ok(MetricPath::Text(text.to_owned())),
        false => Err(error(word, "invalid path of metric").help("a path begins with `/` or `~`")),
    }
}

/// Divides a name at its captures, of which there are `groups`.
fn name_parts(word: &Word, groups: usize) -> Result<Vec<NamePart>, Diagnostic> {
    let text = word.display();
    let mut parts = Vec::new();
    let mut texts = text.split('$');
    let first = texts.next().unwrap_or_default();
    let starts = first
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || "_:".contains(first));
    if !starts {
        return Err(error(word, "invalid name of metric"));
    }
    parts.push(NamePart::Text(first.to_owned()));
    for text in texts {
        let (digits, rest) = match text.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or((braced, "")),
            None => {
                text.split_at(usize::from(text.starts_with(|first: char| first.is_ascii_digit())))
            }
        };
        match digits.parse::<usize>() {
            Ok(group) if group <= groups => parts.push(NamePart::Group(group)),
            Ok(_) => {
                return Err(error(word, "the path has no such capture for the name of metric"));
            }
            Err(_) => {
                let help = "only captures, `$1` to `$9`, may be in the name";
                return Err(error(word, "variable in name of metric").help(help));
            }
        }
        parts.push(NamePart::Text(rest.to_owned()));
    }
    Ok(parts)
}

fn error(word: &Word, what: &str) -> Diagnostic {
    Diagnostic::emerg(format!("{what} \"{}\"", word.display())).at(word.span)
}
