//! The JSON that the report needs: a value tree and its text.

use std::fmt;

/// A JSON value. Numbers that JSON cannot write (NaN, infinity) become `null`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub(crate) fn text(value: impl Into<String>) -> Json {
        Json::Text(value.into())
    }

    /// A list of numbers.
    pub(crate) fn numbers(values: &[f64]) -> Json {
        Json::List(values.iter().map(|value| Json::Number(*value)).collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Number(value) if value.is_finite() => write!(out, "{value}"),
            Json::Number(_) => out.write_str("null"),
            Json::Text(value) => write_text(out, value),
            Json::List(values) => {
                out.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(out, "{separator}{value}")?;
                }
                out.write_str("]")
            }
            Json::Object(members) => {
                out.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(out, "{separator}\"{name}\":{value}")?;
                }
                out.write_str("}")
            }
        }
    }
}

/// A string with the escapes that RFC 8259 section 7 requires.
fn write_text(out: &mut fmt::Formatter<'_>, value: &str) -> fmt::Result {
    out.write_str("\"")?;
    for character in value.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            c if u32::from(c) < 0x20 => write!(out, "\\u{:04x}", u32::from(c))?,
            c => write!(out, "{c}")?,
        }
    }
    out.write_str("\"")
}
