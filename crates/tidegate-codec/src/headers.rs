//! Header fields: ordered, spelled as received, stored as ranges into one byte buffer.
//!
//! For a received head the buffer is the whole head, so that parsing a field is writing five numbers. Fields
//! that are added later append their bytes to the same buffer.

mod known;
#[cfg(test)]
mod tests;

pub use known::Known;

use crate::decimal;
use crate::span::Span;

/// The positions of one field in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The offset of the name.
    pub name_start: u32,
    /// The offset of the value.
    pub value_start: u32,
    /// The length of the value in bytes.
    pub value_len: u32,
    /// The length of the name in bytes.
    pub name_len: u16,
    /// The well-known name, or `Other`.
    pub known: Known,
}

/// An ordered list of fields. `clear` and `clone_from` keep the capacity, so that a reused value does not
/// allocate.
#[derive(Debug, Default)]
pub struct Headers {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// One bit per `Known` that may be present; with a clear bit `first` needs no search.
    present: u64,
    /// One bit per `Known` that is present more than once; bits may be left over after removals.
    repeated: u64,
}

impl Clone for Headers {
    fn clone(&self) -> Headers {
        Headers {
            text: self.text.clone(),
            fields: self.fields.clone(),
            present: self.present,
            repeated: self.repeated,
        }
    }

    fn clone_from(&mut self, source: &Headers) {
        self.text.clone_from(&source.text);
        self.fields.clone_from(&source.fields);
        self.present = source.present;
        self.repeated = source.repeated;
    }
}

impl Headers {
    /// Makes an empty list, which has not allocated.
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Makes a list with room for a common head, so that filling it allocates nothing more.
    pub fn with_capacity(text: usize, fields: usize) -> Headers {
        Headers {
            text: Vec::with_capacity(text),
            fields: Vec::with_capacity(fields),
            present: 0,
            repeated: 0,
        }
    }

    /// Makes a list of a text and positions in it. A position outside of the text reads as empty.
    pub fn from_raw_parts(text: Vec<u8>, fields: Vec<Field>) -> Headers {
        let mut headers = Headers { text, fields, present: 0, repeated: 0 };
        headers.recount();
        headers
    }

    /// Returns all fields in order: known name, name as spelled, value.
    pub fn iter(&self) -> impl Iterator<Item = (Known, &[u8], &[u8])> + '_ {
        self.fields.iter().map(|field| (field.known, self.name_of(field), self.value_of(field)))
    }

    /// Returns the first value of a well-known field.
    #[inline]
    pub fn first(&self, known: Known) -> Option<&[u8]> {
        if self.present & known.bit() == 0 {
            return None;
        }
        let field = self.fields.iter().find(|field| field.known == known)?;
        Some(self.value_of(field))
    }

    /// Returns all values of a well-known field, in order.
    pub fn all(&self, known: Known) -> impl Iterator<Item = &[u8]> + '_ {
        let fields = if self.present & known.bit() == 0 { &[] } else { self.fields.as_slice() };
        let matching = fields.iter().filter(move |field| field.known == known);
        matching.map(|field| self.value_of(field))
    }

    /// Removes all fields and keeps the text, for callers with spans into it.
    pub fn forget_fields(&mut self) {
        self.fields.clear();
        self.present = 0;
        self.repeated = 0;
    }

    /// Returns the first value of the field of this name, in any case.
    pub fn first_named(&self, name: &[u8]) -> Option<&[u8]> {
        match Known::of(name) {
            Known::Other => {
                let mut fields = self.fields.iter();
                let field = fields.find(|field| self.is_other_named(field, name))?;
                Some(self.value_of(field))
            }
            known => self.first(known),
        }
    }

    /// Returns all values of the field of this name, in any case and in order.
    pub fn all_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        let known = Known::of(name);
        let matching = self.fields.iter().filter(move |field| {
            field.known == known
                && (known != Known::Other || self.name_of(field).eq_ignore_ascii_case(name))
        });
        matching.map(|field| self.value_of(field))
    }

    /// Returns whether the field is present; one bit test for an absent one.
    #[inline]
    pub fn contains(&self, known: Known) -> bool {
        self.present & known.bit() != 0
    }

    /// Returns the second value of the first of these names that is present more than once.
    pub(crate) fn repeated_among(&self, names: &[Known]) -> Option<&[u8]> {
        if self.repeated == 0 {
            return None;
        }
        let suspects = names.iter().filter(|known| self.repeated & known.bit() != 0);
        suspects.filter_map(|known| self.all(*known).nth(1)).next()
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Appends a field as spelled. Beyond 64 kB of name or 4 GB of text the field is not stored: the limits
    /// on heads are far below.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.append(Known::of(name), name, value);
    }

    /// Appends a field that is only written: [`Headers::first`], [`Headers::remove`] and all other searches
    /// by [`Known`] do not find it.
    pub fn push_opaque(&mut self, name: &[u8], value: &[u8]) {
        self.append(Known::Other, name, value);
    }

    /// Appends a field whose name was looked up before: `known` is what [`Known::of`] returns for `name`.
    #[inline]
    pub fn push_as(&mut self, known: Known, name: &[u8], value: &[u8]) {
        self.append(known, name, value);
    }

    /// Appends text that belongs to no field and returns its place, for heads that are not received as text: their
    /// request line is composed. Beyond 4 GB nothing is stored and the place is empty.
    pub fn push_text(&mut self, text: &[u8]) -> Span {
        let start = self.text.len();
        let end = start.saturating_add(text.len());
        if end >= u32::MAX as usize {
            return Span::default();
        }
        self.text.extend_from_slice(text);
        Span::new(start, end)
    }

    /// Appends a well-known field in its canonical spelling; does nothing for `Known::Other`.
    pub fn push_known(&mut self, known: Known, value: &[u8]) {
        if known != Known::Other {
            self.append(known, known.name().as_bytes(), value);
        }
    }

    /// Appends a well-known field whose value is a number in decimal; does nothing for `Known::Other`.
    pub fn push_number(&mut self, known: Known, number: u64) {
        self.push_known(known, decimal::digits(number, &mut [0; decimal::DIGITS_MAX]));
    }

    /// Replaces all fields of this name by one, at the position of the first.
    pub fn set_known(&mut self, known: Known, value: &[u8]) {
        if known == Known::Other {
            return;
        }
        if self.present & known.bit() == 0 {
            return self.push_known(known, value);
        }
        let Some(at) = self.fields.iter().position(|field| field.known == known) else {
            return self.push_known(known, value);
        };
        let before = self.fields.len();
        self.push_known(known, value);
        if self.fields.len() > before {
            self.fields.swap_remove(at);
            let mut position = 0;
            self.fields.retain(|field| {
                position += 1;
                field.known != known || position == at + 1
            });
        }
    }

    /// Removes all fields of a well-known name. Their bytes stay in the buffer until `clear`.
    pub fn remove(&mut self, known: Known) {
        if self.present & known.bit() != 0 && known != Known::Other {
            self.fields.retain(|field| field.known != known);
            self.present &= !known.bit();
        }
    }

    /// Removes all fields of this name, in any case.
    pub fn remove_named(&mut self, name: &[u8]) {
        match Known::of(name) {
            Known::Other => {
                let text = &self.text;
                self.fields.retain(|field| {
                    field.known != Known::Other || !name_in(text, field).eq_ignore_ascii_case(name)
                });
                self.recount();
            }
            known => self.remove(known),
        }
    }

    /// Keeps only the fields for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(Known, &[u8], &[u8]) -> bool) {
        let text = &self.text;
        self.fields.retain(|field| keep(field.known, name_in(text, field), value_in(text, field)));
        self.recount();
    }

    /// Removes all fields and the text; the capacity stays.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.present = 0;
        self.repeated = 0;
    }

    /// Returns the buffer that holds the fields: for a received head, all of its bytes.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the allocated bytes, for accounting and for freeing the memory of a large request.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Frees memory above these bounds.
    pub fn shrink_to(&mut self, text: usize, fields: usize) {
        self.text.shrink_to(text);
        self.fields.shrink_to(fields);
    }

    /// Writes `Name: value\r\n` for each field.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        for (_, name, value) in self.iter() {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Adds a field, for parsers, whose bytes `set_text` will set.
    #[inline]
    pub(crate) fn note(&mut self, field: Field) {
        let bit = field.known.bit();
        self.repeated |= self.present & bit;
        self.present |= bit;
        self.fields.push(field);
    }

    /// Sets the text of the added fields, for parsers.
    #[inline]
    pub(crate) fn set_text(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
    }

    fn append(&mut self, known: Known, name: &[u8], value: &[u8]) {
        let name_start = self.text.len();
        let end = name_start.saturating_add(name.len()).saturating_add(value.len());
        let (Ok(name_len), true) = (u16::try_from(name.len()), end < u32::MAX as usize) else {
            return;
        };
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.note(Field {
            name_start: name_start as u32,
            name_len,
            value_start: (name_start + name.len()) as u32,
            value_len: value.len() as u32,
            known,
        });
    }

    fn is_other_named(&self, field: &Field, name: &[u8]) -> bool {
        field.known == Known::Other && self.name_of(field).eq_ignore_ascii_case(name)
    }

    fn recount(&mut self) {
        (self.present, self.repeated) = (0, 0);
        for field in &self.fields {
            let bit = field.known.bit();
            self.repeated |= self.present & bit;
            self.present |= bit;
        }
    }

    #[inline]
    fn name_of(&self, field: &Field) -> &[u8] {
        name_in(&self.text, field)
    }

    #[inline]
    fn value_of(&self, field: &Field) -> &[u8] {
        value_in(&self.text, field)
    }
}

/// Replaces line ends and zero bytes by spaces, so that a decoded variable does not end its field (RFC 9110 section 5.5).
pub fn blank_breaks(value: &mut [u8]) {
    value.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | 0)).for_each(|byte| *byte = b' ');
}

/// As [`blank_breaks`], of a value that is passed on.
pub fn one_line(mut value: Vec<u8>) -> Vec<u8> {
    blank_breaks(&mut value);
    value
}

fn name_in<'a>(text: &'a [u8], field: &Field) -> &'a [u8] {
    let start = field.name_start as usize;
    text.get(start..start + field.name_len as usize).unwrap_or(&[])
}

fn value_in<'a>(text: &'a [u8], field: &Field) -> &'a [u8] {
    let start = field.value_start as usize;
    text.get(start..start + field.value_len as usize).unwrap_or(&[])
}
