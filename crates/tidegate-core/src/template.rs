//! Texts with variables, compiled once to literals and numbers of variables.

use bytes::Bytes;
use tidegate_conf::{Diagnostic, Span};

use crate::exchange::Exchange;
use crate::variables::{VariableId, VariableTable};

/// Constant bodies up to this length are copied for each response.
const COPIED_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Bytes),
    Variable(VariableId),
    Capture(usize),
}

/// A compiled text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Box<[Part]>,
}

impl Template {
    /// Creates a template without variables.
    pub fn constant(text: &[u8]) -> Template {
        let parts = if text.is_empty() {
            vec![]
        } else {
            vec![Part::Literal(Bytes::copy_from_slice(text))]
        };
        Template { parts: parts.into() }
    }

    /// Compiles `text`; `$name`, `${name}` and `$1` are replaced at each use.
    ///
    /// # Errors
    /// For an invalid name after a `$`.
    pub fn compile(
        text: &[u8],
        span: Span,
        variables: &mut VariableTable,
    ) -> Result<Template, Diagnostic> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(dollar) = rest.iter().position(|byte| *byte == b'$') {
            if dollar > 0 {
                parts.push(Part::Literal(Bytes::copy_from_slice(&rest[..dollar])));
            }
            let (name, after) = name_at(&rest[dollar + 1..])
                .ok_or_else(|| Diagnostic::emerg("invalid variable name").at(span))?;
            parts.push(part(name, span, variables));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(Bytes::copy_from_slice(rest)));
        }
        Ok(Template { parts: parts.into() })
    }

    /// Returns the text if it has no variables.
    pub fn literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the value as a body; without variables a long text is not copied. A short one is: counting the references to
    /// a text of all threads costs them more.
    pub fn body(&self, x: &mut Exchange) -> Bytes {
        match &*self.parts {
            [Part::Literal(text)] if text.len() <= COPIED_BYTES_MAX => Bytes::copy_from_slice(text),
            [Part::Literal(text)] => text.clone(),
            _ => Bytes::from(self.value(x)),
        }
    }

    /// Returns whether it is the empty text.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends the value; a variable without a value adds nothing.
    pub fn write(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(id) => drop(x.variable(*id, out)),
                Part::Capture(index) => {
                    if let Some(group) = x.modules.captures.group(*index) {
                        out.extend_from_slice(group);
                    }
                }
            }
        }
    }

    /// Appends the value with captures percent-encoded: for the replacement of a `rewrite`, whose captures are taken
    /// from the decoded path and become part of a target.
    pub fn write_encoding_captures(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(id) => drop(x.variable(*id, out)),
                Part::Capture(index) => {
                    let group = x.modules.captures.group(*index).unwrap_or_default();
                    tidegate_codec::uri::escape(group, tidegate_codec::uri::Escape::Args, out);
                }
            }
        }
    }

    /// Appends the value. `escape` is called after each variable and capture with the position in `out` where its value
    /// begins and whether there was a value; it may change everything from there. For log formats: the common value
    /// needs no change and is copied once.
    pub fn write_escaped(
        &self,
        x: &mut Exchange,
        out: &mut Vec<u8>,
        escape: impl Fn(&mut Vec<u8>, usize, bool),
    ) {
        for part in &self.parts {
            let start = out.len();
            let found = match part {
                Part::Literal(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Part::Variable(id) => x.variable(*id, out),
                Part::Capture(index) => {
                    let group = x.modules.captures.group(*index);
                    out.extend_from_slice(group.unwrap_or_default());
                    group.is_some()
                }
            };
            escape(out, start, found);
        }
    }

    /// Returns the value.
    pub fn value(&self, x: &mut Exchange) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(x, &mut out);
        out
    }
}

/// Returns whether any of the conditions is true, as in `proxy_cache_bypass`: a value neither empty nor `0`.
pub fn any_is_true(conditions: &[Template], x: &mut Exchange) -> bool {
    let mut value = Vec::new();
    conditions.iter().any(|condition| {
        value.clear();
        condition.write(x, &mut value);
        !value.is_empty() && value != b"0"
    })
}

fn part(name: &[u8], span: Span, variables: &mut VariableTable) -> Part {
    let name = String::from_utf8_lossy(name);
    match name.as_bytes() {
        [digit @ b'0'..=b'9'] => Part::Capture(usize::from(digit - b'0')),
        _ => Part::Variable(variables.resolve(&name, span)),
    }
}

/// Splits the text after a `$` into the name and the rest. One digit is a capture.
fn name_at(text: &[u8]) -> Option<(&[u8], &[u8])> {
    match text.first()? {
        b'{' => {
            let end = text.iter().position(|byte| *byte == b'}')?;
            let name = &text[1..end];
            let plain = !name.is_empty() && name.iter().all(|byte| is_name_byte(*byte));
            plain.then_some((name, &text[end + 1..]))
        }
        b'0'..=b'9' => Some(text.split_at(1)),
        _ => {
            let end = text.iter().position(|byte| !is_name_byte(*byte)).unwrap_or(text.len());
            (end > 0).then(|| text.split_at(end))
        }
    }
}

/// Returns whether a byte may be in a variable's name: letters, digits and `_`.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
