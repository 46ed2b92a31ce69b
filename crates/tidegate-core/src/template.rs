//! Strings with variables, compiled once to literals and numbers.

use bytes::Bytes;
use tidegate_conf::{Diagnostic, Span};

use crate::exchange::Exchange;
use crate::variables::{VariableId, VariableTable};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Bytes),
    Variable(VariableId),
    Capture(usize),
}

/// A compiled string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Box<[Part]>,
}

impl Template {
    /// A string without variables.
    pub fn constant(text: &[u8]) -> Template {
        let parts = if text.is_empty() {
            vec![]
        } else {
            vec![Part::Literal(Bytes::copy_from_slice(text))]
        };
        Template { parts: parts.into() }
    }

    /// Compiles `text`; `$name`, `${name}` and `$1` are replaced at each use.
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

    /// The whole text, if it holds no variable.
    pub fn literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text as a body, without a copy: whole if it holds no variable, else its value now.
    pub fn body(&self, x: &mut Exchange) -> Bytes {
        match &*self.parts {
            [Part::Literal(text)] => text.clone(),
            _ => Bytes::from(self.value(x)),
        }
    }

    /// True if it is the empty string.
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

    /// Appends the value with captures percent-encoded: a `rewrite`'s replacement, whose captures come out of
    /// the decoded path and go back into a target.
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

    /// Appends the value; `escape` is called behind each variable and capture with the position where its
    /// value begins in `out` and whether there was one, and may change all from there. For log formats:
    /// the common value needs no change and is copied once.
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

    /// The value as a fresh vector.
    pub fn value(&self, x: &mut Exchange) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(x, &mut out);
        out
    }
}

/// Whether any of the conditions holds, as in `proxy_cache_bypass`: a value neither empty nor `0`.
pub fn any_holds(conditions: &[Template], x: &mut Exchange) -> bool {
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

/// Splits the text behind a `$` into the name and what follows it. One digit is a capture.
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

/// Letters, digits and `_` make variable names.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
