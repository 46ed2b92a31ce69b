//! Information about directives beyond the rows: an example, and the differences from nginx.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Lines of directive, `http` or `stream`, kind of note and text, separated by tabs; written by `cargo xtask docs`.
const TABLE: &str = include_str!("../../data/manual.tsv");

/// The notes on one directive.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// A statement as in a configuration.
    pub(super) example: Option<&'static str>,
    /// Rows of `docs/differences.md`, in words.
    pub(super) differences: Vec<&'static str>,
}

/// Returns the notes on a directive of the `stream` block, or of any other.
pub(super) fn notes(name: &'static str, stream: bool) -> &'static Notes {
    static PARSED: LazyLock<HashMap<(&str, &str), Notes>> = LazyLock::new(parse);
    static NONE: Notes = Notes { example: None, differences: Vec::new() };
    PARSED.get(&(name, if stream { "stream" } else { "http" })).unwrap_or(&NONE)
}

fn parse() -> HashMap<(&'static str, &'static str), Notes> {
    let mut table: HashMap<(&str, &str), Notes> = HashMap::new();
    for line in TABLE.lines() {
        let mut fields = line.splitn(4, '\t');
        let (Some(name), Some(scope), Some(kind), Some(text)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let notes = table.entry((name, scope)).or_default();
        match kind {
            "example" => notes.example = Some(text),
            "differs" => notes.differences.push(text),
            _ => {}
        }
    }
    table
}
