//! The text format of Prometheus, version 0.0.4: heads of families, and lines.

use std::fmt::{Display, Write as _};

/// Writes the head of a family.
pub fn head(name: &str, kind: &str, help: &str, out: &mut String) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes a line. Values of labels may have any characters.
pub fn line(name: &str, labels: &[(&str, &str)], value: impl Display, out: &mut String) {
    out.push_str(name);
    for (place, (label, text)) in labels.iter().enumerate() {
        let opening = if place == 0 { '{' } else { ',' };
        let _ = write!(out, "{opening}{label}=\"{}\"", escaped(text));
    }
    out.push_str(if labels.is_empty() { "" } else { "}" });
    let _ = writeln!(out, " {value}");
}

/// Escapes the value of a label.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
