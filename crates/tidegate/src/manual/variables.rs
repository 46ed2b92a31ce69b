//! The variables of all modules, with their meaning.

use tidegate_core::variables::{Changeable, Value, Variable};

/// Variables that nginx has, one name per line; prefixes end in `_`.
const NGINX: &str = include_str!("../../data/nginx-variables.txt");

/// A variable, of one module or several.
pub(super) struct VariableEntry {
    /// With its `$`; `NAME` stands for the rest after a prefix.
    pub(super) name: String,
    pub(super) doc: &'static str,
    /// Whether requests and whether sessions have it.
    http: bool,
    stream: bool,
    pub(super) is_ours: bool,
    pub(super) can_be_set: bool,
}

impl VariableEntry {
    /// Returns the blocks in which it has a value.
    pub(super) fn contexts(&self) -> &'static str {
        match (self.http, self.stream) {
            (true, true) => "http, stream",
            (_, true) => "stream",
            _ => "http",
        }
    }

    pub(super) fn provenance(&self) -> &'static str {
        if self.is_ours { "Tidegate's own" } else { "nginx" }
    }
}

/// Returns all variables, by name.
pub(super) fn all() -> Vec<VariableEntry> {
    let mut entries: Vec<VariableEntry> = Vec::new();
    for module in tidegate_modules::MODULES {
        for (stream, table) in [(false, module.variables()), (true, module.session_variables())] {
            table.iter().for_each(|variable| add(&mut entries, variable, stream));
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn add(entries: &mut Vec<VariableEntry>, variable: &Variable, stream: bool) {
    let rest = if matches!(variable.value, Value::Prefixed(_)) { "NAME" } else { "" };
    let name = format!("${}{rest}", variable.name);
    let known = match entries.iter().position(|entry| entry.name == name) {
        Some(known) => &mut entries[known],
        None => {
            entries.push(VariableEntry {
                name,
                doc: variable.doc,
                http: false,
                stream: false,
                is_ours: !NGINX.lines().any(|line| line == variable.name),
                can_be_set: !matches!(variable.change, Changeable::Never),
            });
            let last = entries.len() - 1;
            &mut entries[last]
        }
    };
    known.http |= !stream;
    known.stream |= stream;
}
