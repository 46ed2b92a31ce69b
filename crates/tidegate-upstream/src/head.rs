//! The head of a request in the form of its protocol: text, or a list of fields.
//!
//! The gateway that makes the request writes its fields through a [`FieldWriter`], so that the rules which fields are
//! sent exist once. [`TextFields`] writes lines (RFC 9112 section 5), [`ListFields`] a list for HTTP/2 (RFC 9113
//! section 8.2). Both are chosen by type: a head as text costs no decision per field.

#[cfg(test)]
mod tests;

use std::ops::Range;

use tidegate_codec::{Headers, Known};

/// The head of a request.
#[derive(Clone, Debug)]
pub enum OriginHead {
    /// Bytes that are sent as they are: HTTP/1, and the other protocols' equivalents.
    Text(Vec<u8>),
    /// A list of fields (HTTP/2).
    List(Box<HeadList>),
}

/// A request's head as a list.
///
/// Invariant: names are in lower case; no value has a line end or a zero byte; no field is particular to one
/// connection (RFC 9113 section 8.2.2).
#[derive(Clone, Debug, Default)]
pub struct HeadList {
    /// The fields without `host`. Their text begins with method, space and target.
    pub(crate) headers: Headers,
    /// Bytes of the method.
    pub(crate) method_bytes: usize,
    /// `:path`, within the text.
    pub(crate) path: Range<usize>,
    /// `:authority`: the value of `host`.
    pub(crate) authority: Vec<u8>,
}

impl OriginHead {
    /// Returns the bytes in which `target` of a request is a range.
    pub fn text(&self) -> &[u8] {
        match self {
            OriginHead::Text(text) => text,
            OriginHead::List(list) => list.headers.text(),
        }
    }
}

impl From<Vec<u8>> for OriginHead {
    fn from(text: Vec<u8>) -> OriginHead {
        OriginHead::Text(text)
    }
}

impl HeadList {
    /// Makes a list without fields of `METHOD TARGET`, whose target is in `target`.
    pub fn new(line: &[u8], target: Range<usize>) -> HeadList {
        let mut headers = Headers::with_capacity(LIST_BYTES, LIST_FIELDS);
        headers.push_text(line);
        let method_bytes = target.start.saturating_sub(1);
        HeadList { headers, method_bytes, path: target, authority: Vec::new() }
    }

    pub(crate) fn method(&self) -> &[u8] {
        self.headers.text().get(..self.method_bytes).unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &[u8] {
        self.headers.text().get(self.path.clone()).unwrap_or_default()
    }

    /// Adds a field, unless HTTP/2 does not allow it. `host` becomes `:authority`.
    pub(crate) fn push(&mut self, known: Known, name: &[u8], value: &[u8]) {
        match known {
            Known::Host => return self.authority = value.to_vec(),
            known if known.is_of_connection() => return,
            _ => {}
        }
        let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
        if value.iter().any(breaks) {
            return;
        }
        match name.iter().any(u8::is_ascii_uppercase) {
            true => self.headers.push_as(known, &name.to_ascii_lowercase(), value),
            false => self.headers.push_as(known, name, value),
        }
    }
}

/// Takes the fields of a request, in order.
pub trait FieldWriter {
    /// Begins a field. Returns the buffer that its value is appended to, and the offset at which it begins.
    fn begin(&mut self, name: &[u8]) -> (&mut Vec<u8>, usize);

    /// Ends the field that was begun with this name. Without a value nothing of it is written.
    fn end(&mut self, name: &[u8]);

    /// Writes a field that has been checked by a parser.
    fn field(&mut self, known: Known, name: &[u8], value: &[u8]);
}

/// Writes lines behind a request line.
pub struct TextFields<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    value_start: usize,
}

impl<'a> TextFields<'a> {
    /// Appends fields to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> TextFields<'a> {
        TextFields { out, start: 0, value_start: 0 }
    }
}

impl FieldWriter for TextFields<'_> {
    #[inline]
    fn begin(&mut self, name: &[u8]) -> (&mut Vec<u8>, usize) {
        self.start = self.out.len();
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        self.value_start = self.out.len();
        (self.out, self.value_start)
    }

    #[inline]
    fn end(&mut self, _name: &[u8]) {
        if self.out.len() == self.value_start {
            self.out.truncate(self.start);
        } else {
            self.out.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn field(&mut self, _known: Known, name: &[u8], value: &[u8]) {
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Adds to a list.
pub struct ListFields<'a> {
    list: &'a mut HeadList,
    value: Vec<u8>,
}

impl<'a> ListFields<'a> {
    /// Appends fields to `list`.
    pub fn new(list: &'a mut HeadList) -> ListFields<'a> {
        ListFields { list, value: Vec::new() }
    }
}

impl FieldWriter for ListFields<'_> {
    fn begin(&mut self, _name: &[u8]) -> (&mut Vec<u8>, usize) {
        self.value.clear();
        (&mut self.value, 0)
    }

    fn end(&mut self, name: &[u8]) {
        if !self.value.is_empty() {
            self.list.push(Known::of(name), name, &self.value);
        }
    }

    fn field(&mut self, known: Known, name: &[u8], value: &[u8]) {
        // A list may hold fields without their id: the name decides.
        let known = if known == Known::Other { Known::of(name) } else { known };
        self.list.push(known, name, value);
    }
}

/// Capacity for a common head: its text, and the number of fields.
const LIST_BYTES: usize = 1024;
const LIST_FIELDS: usize = 16;
