//! `log_format NAME json { … }`: lines that are JSON objects, with numbers as numbers.
//!
//! ```nginx
//! log_format api json {
//!     time      $time_iso8601;
//!     status    $status                  number;
//!     seconds   $request_time            number;
//!     user      $remote_user             optional;
//!     upstream {
//!         addresses $upstream_addr          list;
//!         seconds   $upstream_response_time numbers;
//!     }
//! }
//! ```
//! A line is valid JSON whatever clients and origins send: a value that is not what its kind says is `null`.

use std::cell::Cell;
use std::sync::Arc;

use tidegate_codec::json::{is_number, write_string};
use tidegate_conf::{Args, Diagnostic, Statement};
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;

/// Deepest nesting of objects.
const DEPTH_MAX: usize = 8;
/// Most members of a format.
const MEMBERS_MAX: usize = 256;
/// The word that begins such a format.
const WORD: &[u8] = b"json";

/// A compiled object.
#[derive(Debug)]
pub(super) struct Object(Vec<Member>);

#[derive(Debug)]
struct Member {
    /// Its name with quotes and the colon.
    name: Vec<u8>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Object(Object),
    Value { template: Template, kind: Kind, optional: bool },
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A string, or `null` for a variable without a value.
    Text,
    /// A number, or `null`.
    Number,
    /// `false` for an empty text and `0`, as in conditions; else `true`.
    Boolean,
    /// The parts of a list such as `$upstream_addr`, as strings.
    List,
    /// The same, as numbers.
    Numbers,
}

/// Returns the members of such a format; `None` for one that is a text.
///
/// # Errors
/// A block behind another word, or further words in front of it.
pub(super) fn members(args: &Args<'_>) -> Result<Option<Arc<Vec<Statement>>>, Diagnostic> {
    let Some(members) = args.shared_block() else { return Ok(None) };
    if args.len() != 2 || args.bytes(1) != WORD {
        let found = args.error(1, "unexpected \"{\" in \"log_format\"");
        return Err(found.help("write `log_format NAME json { NAME VALUE [KIND]; … }`"));
    }
    Ok(Some(members))
}

impl Object {
    /// Compiles the statements of a block.
    ///
    /// # Errors
    /// A member that has no value, has an unknown kind, or is there twice; too many, or too deep.
    pub(super) fn compile(
        statements: &[Statement],
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Object, Diagnostic> {
        Object::at_depth(statements, plan, 0, &mut 0)
    }

    fn at_depth(
        statements: &[Statement],
        plan: &mut PlanBuilder<'_>,
        depth: usize,
        count: &mut usize,
    ) -> Result<Object, Diagnostic> {
        let mut members: Vec<Member> = Vec::with_capacity(statements.len());
        for statement in statements {
            let error = |message: String| Diagnostic::emerg(message).at(statement.name.span);
            *count += 1;
            if *count > MEMBERS_MAX || depth > DEPTH_MAX {
                return Err(error(format!(
                    "more than {MEMBERS_MAX} members, or {DEPTH_MAX} levels, in a \"log_format\""
                )));
            }
            let mut name = Vec::new();
            write_string(&statement.name.bytes, &mut name);
            name.push(b':');
            if members.iter().any(|known| known.name == name) {
                let shown = statement.name.display();
                return Err(error(format!("duplicate member \"{shown}\" of \"log_format\"")));
            }
            let content = match (&statement.block, &statement.args[..]) {
                (Some(block), []) => {
                    Content::Object(Object::at_depth(&block.statements, plan, depth + 1, count)?)
                }
                (None, [_, ..]) => Content::value(statement, plan)?,
                (Some(_), _) | (None, []) => {
                    let shown = statement.name.display();
                    let message = format!("the member \"{shown}\" needs a value, or a block alone");
                    return Err(error(message));
                }
            };
            members.push(Member { name, content });
        }
        Ok(Object(members))
    }

    /// Appends the object.
    pub(super) fn write(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        out.push(b'{');
        let start = out.len();
        for Member { name, content } in &self.0 {
            let before = out.len();
            if before > start {
                out.push(b',');
            }
            out.extend_from_slice(name);
            if !content.write(x, out) {
                out.truncate(before);
            }
        }
        out.push(b'}');
    }
}

impl Content {
    fn value(statement: &Statement, plan: &mut PlanBuilder<'_>) -> Result<Content, Diagnostic> {
        let (mut kind, mut optional) = (None, false);
        for word in &statement.args[1..] {
            let named = match &word.bytes[..] {
                b"string" => Kind::Text,
                b"number" => Kind::Number,
                b"boolean" => Kind::Boolean,
                b"list" => Kind::List,
                b"numbers" => Kind::Numbers,
                b"optional" if !optional => {
                    optional = true;
                    continue;
                }
                _ => {
                    let message = format!("invalid kind \"{}\" in \"log_format\"", word.display());
                    return Err(Diagnostic::emerg(message)
                        .at(word.span)
                        .help("kinds are `string`, `number`, `boolean`, `list`, `numbers`, and `optional` beside one"));
                }
            };
            if kind.replace(named).is_some() {
                let message = "two kinds of a value in \"log_format\"";
                return Err(Diagnostic::emerg(message).at(word.span));
            }
        }
        let value = &statement.args[0];
        let template = plan.template_text(&value.bytes, value.span)?;
        Ok(Content::Value { template, kind: kind.unwrap_or(Kind::Text), optional })
    }

    /// Appends the value; returns `false` where an optional one is missing.
    fn write(&self, x: &mut Exchange, out: &mut Vec<u8>) -> bool {
        let (template, kind, optional) = match self {
            Content::Object(object) => {
                object.write(x, out);
                return true;
            }
            Content::Value { template, kind, optional } => (template, *kind, *optional),
        };
        let mut value = Vec::new();
        let has_value = Cell::new(template.literal().is_some());
        template.write_escaped(x, &mut value, |_, _, found| {
            if found {
                has_value.set(true);
            }
        });
        if optional && value.is_empty() {
            return false;
        }
        let value = (has_value.get() || !value.is_empty()).then_some(&value[..]);
        write_value(kind, value, out);
        true
    }
}

/// Appends a value of a kind; `None` for a variable that has none.
fn write_value(kind: Kind, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match (kind, value) {
        (Kind::Boolean, value) => {
            let is_true = !matches!(value, None | Some(b"" | b"0"));
            out.extend_from_slice(if is_true { b"true" } else { b"false" });
        }
        (Kind::List | Kind::Numbers, value) => {
            out.push(b'[');
            for (place, part) in parts(value.unwrap_or_default()).enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                match kind {
                    Kind::List => write_string(part, out),
                    _ => write_number(part, out),
                }
            }
            out.push(b']');
        }
        (_, None) => out.extend_from_slice(b"null"),
        (Kind::Number, Some(value)) => write_number(value, out),
        (Kind::Text, Some(value)) => write_string(value, out),
    }
}

fn write_number(value: &[u8], out: &mut Vec<u8>) {
    let is_number = is_number(value);
    out.extend_from_slice(if is_number { value } else { b"null" });
}

/// Returns the parts of a list: attempts are separated by `, `, groups of servers by ` : `.
fn parts(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list).filter(|list| !list.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let comma = memchr::memmem::find(text, b", ").map(|at| (at, 2));
        let colon = memchr::memmem::find(text, b" : ").map(|at| (at, 3));
        let end = [comma, colon].into_iter().flatten().min();
        rest = end.map(|(at, length)| &text[at + length..]);
        Some(&text[..end.map_or(text.len(), |(at, _)| at)])
    })
}

/// Reads lines of error logs again (fuzzing).
#[doc(hidden)]
pub fn fuzz_error_log(data: &[u8]) {
    for line in tidegate_core::error_log::fuzz_lines(data) {
        let value: Result<serde_json::Value, _> = serde_json::from_slice(&line);
        assert!(value.is_ok_and(|value| value.is_object()), "{}", String::from_utf8_lossy(&line));
    }
}

/// Writes any bytes as a value of each kind and reads the line again (fuzzing).
#[doc(hidden)]
pub fn fuzz_json_log(data: &[u8]) {
    for kind in [Kind::Text, Kind::Number, Kind::Boolean, Kind::List, Kind::Numbers] {
        let mut line = Vec::new();
        write_value(kind, Some(data), &mut line);
        assert!(line.iter().all(|byte| *byte >= b' ' && *byte != 0x7f), "{kind:?}");
        let value: serde_json::Value = match serde_json::from_slice(&line) {
            Ok(value) => value,
            Err(error) => panic!("{kind:?}: {error}: {}", String::from_utf8_lossy(&line)),
        };
        if kind == Kind::Text {
            assert_eq!(value.as_str(), Some(&*String::from_utf8_lossy(data)));
        }
    }
}
