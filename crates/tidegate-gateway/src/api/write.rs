//! Objects of JSON that are written at once, without a tree of values: for what there may be thousands of. Names are written
//! as they are, so they have no characters to escape; their order is that of the calls.

use std::fmt::Display;
use std::io::Write as _;

use serde_json::Value;

/// An object that is being written; ends with [`ObjectWriter::end`].
pub(super) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(super) fn begin(out: &'o mut Vec<u8>) -> ObjectWriter<'o> {
        out.push(b'{');
        ObjectWriter { out, first: true }
    }

    /// Adds a number or a flag.
    pub(super) fn number(&mut self, name: &str, value: impl Display) {
        self.name(name);
        // cannot fail: a vector takes all bytes
        let _ = write!(self.out, "{value}");
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_text(value, self.out);
    }

    pub(super) fn value(&mut self, name: &str, value: &Value) {
        self.name(name);
        // cannot fail: a vector takes all bytes
        let _ = serde_json::to_writer(&mut *self.out, value);
    }

    pub(super) fn object(&mut self, name: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        let mut inner = ObjectWriter::begin(self.out);
        write(&mut inner);
        inner.end();
    }

    /// Writes a name, whose value is to follow.
    pub(super) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes a string.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    // cannot fail: a vector takes all bytes
    let _ = serde_json::to_writer(out, text);
}
