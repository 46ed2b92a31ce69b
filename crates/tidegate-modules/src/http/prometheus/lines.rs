//! From the tree of figures to lines of metrics. May take long: runs on a pool thread.

use std::collections::HashMap;

use serde_json::Value;
use tidegate_core::exchange::Captures;

use super::template::{Metric, MetricPath, Metrics, NamePart};

/// A line, before its value is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Name and labels.
    pub(super) name: String,
    /// The path of the object.
    pub(super) path: String,
    /// The value of the object.
    pub(super) value: String,
}

/// An object of the tree.
struct Leaf {
    /// The names on the way to it.
    parts: Vec<String>,
    /// The names behind slashes; that of an object with parts ends with one.
    path: String,
    value: String,
}

/// Returns the samples of each metric of a template.
pub(super) fn samples(metrics: &Metrics, tree: &Value) -> Vec<Vec<Sample>> {
    let mut leaves = Vec::new();
    flatten(tree, &mut Vec::new(), &mut leaves);
    let by_path: HashMap<&str, &Leaf> =
        leaves.iter().map(|leaf| (leaf.path.as_str(), leaf)).collect();
    metrics.all.iter().map(|metric| of_metric(metric, &leaves, &by_path)).collect()
}

fn of_metric(metric: &Metric, leaves: &[Leaf], by_path: &HashMap<&str, &Leaf>) -> Vec<Sample> {
    let sample = |leaf: &Leaf, groups: &dyn Fn(usize) -> String| Sample {
        name: name(&metric.name, groups),
        path: leaf.path.clone(),
        value: leaf.value.clone(),
    };
    let mut found: Vec<Sample> = match &metric.path {
        MetricPath::Text(path) => {
            let leaf = by_path.get(path.as_str());
            leaf.map(|leaf| sample(leaf, &|_| String::new())).into_iter().collect()
        }
        MetricPath::Parts(parts) => {
            let wanted = |leaf: &&Leaf| {
                let mut pairs = parts.iter().zip(&leaf.parts);
                parts.len() == leaf.parts.len()
                    && !leaf.path.ends_with('/')
                    && pairs.all(|(wanted, part)| wanted.is_none_or(|wanted| wanted == part))
            };
            let any = |place: &usize| parts[*place].is_none();
            let places: Vec<usize> = (0..parts.len()).filter(any).collect();
            let of = |leaf: &Leaf, group: usize| -> String {
                let place = group.checked_sub(1).and_then(|group| places.get(group));
                place.map_or_else(String::new, |place| leaf.parts[*place].clone())
            };
            leaves
                .iter()
                .filter(wanted)
                .map(|leaf| sample(leaf, &|group| of(leaf, group)))
                .collect()
        }
        MetricPath::Regex(regex) => {
            let mut captures = Captures::default();
            let of_leaf = |leaf: &Leaf| {
                // A match that reaches the limit of backtracking is none.
                let found = regex.capture_into(&mut captures, leaf.path.as_bytes());
                found.is_ok_and(|found| found).then(|| {
                    let group = |group: usize| {
                        let text = captures.group(group).unwrap_or_default();
                        String::from_utf8_lossy(text).into_owned()
                    };
                    sample(leaf, &group)
                })
            };
            leaves.iter().filter_map(of_leaf).collect()
        }
    };
    // Prometheus refuses a text that has the same labels twice.
    let mut known = std::collections::HashSet::new();
    found.retain(|sample| known.insert(sample.name.clone()));
    found
}

/// Adds an object and its parts. Lists are objects whose names are numbers.
fn flatten(value: &Value, parts: &mut Vec<String>, out: &mut Vec<Leaf>) {
    let mut add = |parts: &[String], end: &str, value: String| {
        let names: String = parts.iter().map(|part| format!("/{part}")).collect();
        out.push(Leaf { parts: parts.to_vec(), path: names + end, value });
    };
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(all) => {
            all.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect()
        }
        Value::Bool(flag) => return add(parts, "", u8::from(*flag).to_string()),
        Value::String(text) => return add(parts, "", text.clone()),
        Value::Number(number) => return add(parts, "", number.to_string()),
        Value::Null => return,
    };
    add(parts, "/", children.len().to_string());
    for (name, child) in children {
        parts.push(name);
        flatten(child, parts, out);
        parts.pop();
    }
}

/// Makes a name with captures, which are escaped: they are values of labels.
fn name(parts: &[NamePart], group: &dyn Fn(usize) -> String) -> String {
    let text = |part: &NamePart| match part {
        NamePart::Text(text) => text.clone(),
        NamePart::Group(number) => {
            group(*number).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
        }
    };
    parts.iter().map(text).collect()
}

/// Writes the lines of a metric. `head` is the family whose description is written already.
pub(super) fn write(
    metric: &Metric,
    lines: &[String],
    head: &mut Option<String>,
    out: &mut String,
) {
    if lines.is_empty() {
        return;
    }
    let family = metric.family();
    if head.as_ref() != Some(&family) {
        if let Some(help) = &metric.help {
            out.push_str(&format!("# HELP {family} {help}\n"));
        }
        if let Some(kind) = &metric.kind {
            out.push_str(&format!("# TYPE {family} {kind}\n"));
        }
        *head = Some(family);
    }
    out.extend(lines.iter().map(String::as_str));
}
