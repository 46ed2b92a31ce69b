//! The picture of a place in a configuration.

use super::Diagnostic;
use crate::source::SourceMap;

/// Appends the picture of `diagnostic` to `text`.
pub(super) fn draw(diagnostic: &Diagnostic, sources: &SourceMap, color: bool, text: &mut String) {
    let _ = (sources, color);
    for line in &diagnostic.help {
        text.push_str(&format!("  = help: {line}\n"));
    }
}
