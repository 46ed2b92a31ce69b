//! `error_log … filter=FIELD:[=|~]VALUE`: which lines a destination gets.
//!
//! ```text
//! filter=client:192.0.2.1        the value contains this text
//! filter=tag:=checkout           a value is this text
//! filter=logline:~timed\sout     the value matches this regular expression
//! ```

use std::fmt;
use std::sync::Arc;

use tidegate_conf::closest;

use super::fields::{FIELD_NAMES, LogFields};
use crate::regex::Regex;

/// One condition. A line that has no value of its field does not fulfil it.
#[derive(Clone, Debug)]
pub struct LogFilter {
    field: Field,
    test: Test,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Message and context, as in a line of text behind the connection's number.
    Line,
    /// Message alone.
    Message,
    /// Any of the words.
    Tag,
    /// A part of the context.
    Member(&'static str),
}

#[derive(Clone, Debug)]
enum Test {
    Contains(Box<[u8]>),
    Equals(Box<[u8]>),
    Matches(Arc<Regex>),
}

/// Why a filter is invalid.
#[derive(Debug, PartialEq, Eq)]
pub enum FilterError {
    /// There is no colon, or nothing behind it.
    Form,
    /// No line has this field; and the field that may be meant.
    Field(String, Option<&'static str>),
    /// Lines do not say where in a program they are written.
    SourceFile,
    /// The expression is invalid, in nginx's words.
    Regex(String),
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterError::Form => f.write_str("invalid filter"),
            FilterError::Field(name, _) => write!(f, "unknown field \"{name}\" in filter"),
            FilterError::SourceFile => f.write_str("filters by \"sourcefile\" are not supported"),
            FilterError::Regex(reason) => f.write_str(reason),
        }
    }
}

/// Names of fields that are not in [`FIELD_NAMES`].
const OTHER_NAMES: &[&str] = &["logline", "message", "tag", "request_line"];

impl LogFilter {
    /// Parses what follows `filter=`.
    ///
    /// # Errors
    /// The form, the field or the regular expression is invalid.
    pub fn parse(text: &str) -> Result<LogFilter, FilterError> {
        let (name, value) = text.split_once(':').ok_or(FilterError::Form)?;
        let field = match name {
            "logline" => Field::Line,
            "message" => Field::Message,
            "tag" => Field::Tag,
            "request_line" => Field::Member("request"),
            "sourcefile" => return Err(FilterError::SourceFile),
            _ => match FIELD_NAMES.iter().find(|known| **known == name) {
                Some(known) => Field::Member(known),
                None => {
                    let names = FIELD_NAMES.iter().chain(OTHER_NAMES).copied();
                    return Err(FilterError::Field(name.to_owned(), closest(name, names)));
                }
            },
        };
        let (kind, value) = match value.as_bytes().first() {
            Some(kind @ (b'=' | b'~')) => (*kind, &value[1..]),
            _ => (b' ', value),
        };
        // Each value contains the empty text: such a filter would be a mistake that is not seen.
        if value.is_empty() {
            return Err(FilterError::Form);
        }
        let test = match kind {
            b'=' => Test::Equals(value.as_bytes().into()),
            b'~' => {
                let regex = Regex::compile_late(value);
                Test::Matches(Arc::new(
                    regex.map_err(|error| FilterError::Regex(error.to_string()))?,
                ))
            }
            _ => Test::Contains(value.as_bytes().into()),
        };
        Ok(LogFilter { field, test })
    }

    /// Returns whether the filter needs the line of text.
    pub(super) fn is_about_text(&self) -> bool {
        self.field == Field::Line
    }

    pub(super) fn holds_for_text(&self, text: &str) -> bool {
        self.test.holds(text.as_bytes())
    }

    pub(super) fn holds_for(&self, fields: &LogFields) -> bool {
        match self.field {
            Field::Line => false,
            Field::Message => self.test.holds(fields.message.as_bytes()),
            Field::Tag => fields.words().any(|word| self.test.holds(word)),
            Field::Member(name) => {
                let value = fields.value(name);
                !value.is_empty() && self.test.holds(value)
            }
        }
    }
}

impl Test {
    /// A match that needs too much backtracking is none: the line is about the request of a client, who may want that.
    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Test::Contains(part) => value.windows(part.len()).any(|window| window == &**part),
            Test::Equals(whole) => value == &**whole,
            Test::Matches(regex) => regex.is_match(value).unwrap_or(false),
        }
    }
}
