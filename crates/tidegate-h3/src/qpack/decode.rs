//! Sections to fields, and the peer's encoder stream to the table (RFC 9204 sections 4.3 and 4.5).

use std::collections::VecDeque;

use tidegate_codec::Known;
use tidegate_fields::integer::{self, IntegerError};
use tidegate_fields::string::{self, Text};
use tidegate_fields::table::Field;
use tidegate_fields::{Budget, DecodedField, ENTRY_OVERHEAD_BYTES};

use super::dynamic::{DynamicTable, Name};
use super::error::{DecodeError, EncoderStreamError};
use super::static_table::STATIC_TABLE;

/// Bits of the shortest and of the longest Huffman code: a coded string says how long it is at least.
const HUFFMAN_BITS_MAX: u64 = 30;

/// The outcome of a section that is valid as far as it could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All of its fields were passed on.
    Done,
    /// Insertions are missing. The caller keeps the section and decodes it again once [`Decoder::unblocked`] returns its
    /// stream.
    Blocked,
}

/// Decodes the sections that a peer sends on all streams of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY as announced, bytes.
    capacity_max: u32,
    /// SETTINGS_QPACK_BLOCKED_STREAMS as announced.
    blocked_max: u32,
    /// Streams whose section waits, with its Required Insert Count; at most `blocked_max`.
    blocked: Vec<(u64, u64)>,
    /// The same of streams whose section can be decoded now; taken from `blocked`.
    unblocked: VecDeque<(u64, u64)>,
    /// The same of those that were returned by [`Decoder::unblocked`]: a count is read once, since it is sent modulo and
    /// relative to the insertions that are here.
    ready: Vec<(u64, u64)>,
    /// Insertions that the peer's encoder knows to be received.
    reported: u64,
    /// The begin of an instruction of the encoder stream.
    partial: Vec<u8>,
    /// Instructions for the decoder stream.
    output: Vec<u8>,
    /// Strings of the field in progress that were Huffman coded.
    text: Vec<u8>,
}

/// The first two integers of a section (section 4.5.1).
#[derive(Clone, Copy, Debug)]
struct Prefix {
    required: u64,
    base: u64,
}

impl Decoder {
    /// A decoder that announces these two settings: the largest table in bytes, and the number of blocked streams.
    pub fn new(capacity_max: u32, blocked_max: u32) -> Decoder {
        Decoder {
            table: DynamicTable::new(),
            capacity_max,
            blocked_max,
            blocked: Vec::new(),
            unblocked: VecDeque::new(),
            ready: Vec::new(),
            reported: 0,
            partial: Vec::new(),
            output: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Takes bytes of the peer's encoder stream. Each instruction spends one of `budget`: an instruction of one byte may
    /// copy an entry as large as the table.
    ///
    /// # Errors
    /// The connection is over.
    pub fn receive(&mut self, input: &[u8], budget: &mut Budget) -> Result<(), EncoderStreamError> {
        let mut kept = std::mem::take(&mut self.partial);
        let received = match kept.is_empty() {
            true => input,
            false => {
                kept.extend_from_slice(input);
                &kept
            }
        };
        let used = self.instructions(received, budget)?;
        match kept.is_empty() {
            true => kept.extend_from_slice(input.get(used..).unwrap_or(&[])),
            false => drop(kept.drain(..used)),
        }
        self.partial = kept;
        self.confirm_insertions();
        let inserted = self.table.inserted();
        let ready = |(_, required): &(u64, u64)| *required <= inserted;
        let unblocked = self.blocked.extract_if(.., |blocked| ready(blocked));
        self.unblocked.extend(unblocked);
        Ok(())
    }

    /// Returns the next stream whose section can be decoded now.
    pub fn unblocked(&mut self) -> Option<u64> {
        let (stream, required) = self.unblocked.pop_front()?;
        self.ready.push((stream, required));
        Some(stream)
    }

    /// Decodes the section of a stream and calls `sink` with each field. With `Blocked` nothing was passed on.
    ///
    /// # Errors
    /// The section is invalid, and the connection is over.
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<Decoded, DecodeError> {
        let mut input = section;
        let prefix = self.prefix(stream, &mut input)?;
        if prefix.required > self.table.inserted() {
            if self.blocked.iter().any(|(blocked, _)| *blocked == stream) {
                return Ok(Decoded::Blocked);
            }
            if self.blocked.len() >= self.blocked_max as usize {
                return Err(DecodeError::BlockedStreams);
            }
            self.blocked.push((stream, prefix.required));
            return Ok(Decoded::Blocked);
        }
        while let Some(first) = input.first() {
            match first {
                0x80.. => self.indexed(prefix, &mut input, sink)?,
                0x40..0x80 => self.literal_with_name(prefix, &mut input, sink)?,
                0x20..0x40 => self.literal(&mut input, sink)?,
                0x10..0x20 => self.indexed_post_base(prefix, &mut input, sink)?,
                0x00..0x10 => self.literal_post_base(prefix, &mut input, sink)?,
            }
        }
        if prefix.required > 0 {
            // Section Acknowledgment (section 4.4.1).
            integer::encode(&mut self.output, 0x80, 7, stream);
            self.reported = self.reported.max(prefix.required);
        }
        Ok(Decoded::Done)
    }

    /// Gives up the sections of a stream that were not decoded, received or not (section 2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|(blocked, _)| *blocked != stream);
        self.unblocked.retain(|(unblocked, _)| *unblocked != stream);
        self.ready.retain(|(ready, _)| *ready != stream);
        // Without a table no section of the peer refers to it.
        if self.capacity_max > 0 {
            integer::encode(&mut self.output, 0x40, 6, stream);
        }
    }

    /// Moves the instructions for the decoder stream to the end of `into`.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.output);
    }

    /// Whether there are instructions for the decoder stream.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// The number of streams that are blocked.
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Gives memory back that the table's entries do not need.
    pub fn shrink(&mut self) {
        self.table.shrink();
        self.partial.shrink_to_fit();
        self.blocked.shrink_to_fit();
        self.unblocked.shrink_to_fit();
        self.ready.shrink_to_fit();
        self.output.shrink_to_fit();
        self.text = Vec::new();
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.table.memory()
            + self.partial.capacity()
            + self.output.capacity()
            + self.text.capacity()
            + self.blocked.capacity() * size_of::<(u64, u64)>()
            + (self.unblocked.capacity() + self.ready.capacity()) * size_of::<(u64, u64)>()
    }

    #[cfg(test)]
    pub(crate) fn table(&self) -> &DynamicTable {
        &self.table
    }

    /// Reads instructions as far as they are complete, and returns the bytes used.
    fn instructions(
        &mut self,
        received: &[u8],
        budget: &mut Budget,
    ) -> Result<usize, EncoderStreamError> {
        let mut rest = received;
        while !rest.is_empty() {
            let mut ahead = rest;
            match self.instruction(&mut ahead) {
                Ok(()) => rest = ahead,
                Err(Stop::Truncated) => break,
                Err(Stop::Error(error)) => return Err(error),
            }
            budget.spend().ok_or(EncoderStreamError::TooMany)?;
        }
        Ok(received.len() - rest.len())
    }

    fn instruction(&mut self, input: &mut &[u8]) -> Result<(), Stop> {
        self.text.clear();
        match input.first() {
            Some(0x80..) => self.insert_with_name(input),
            Some(0x40..0x80) => {
                // Both are here before the first is decoded: the second one may arrive byte by byte.
                let mut ahead = *input;
                self.skip_string(&mut ahead, 5)?;
                self.skip_string(&mut ahead, 7)?;
                let name = self.bounded_string(input, 5)?;
                let value = self.bounded_string(input, 7)?;
                let (name, value) = (name.of(&self.text), value.of(&self.text));
                let inserted = self.table.insert(Known::of(name), Name::Text(name), value);
                inserted.ok_or(Stop::Error(EncoderStreamError::EntrySize))
            }
            Some(0x20..0x40) => {
                let capacity = integer::decode_long(input, 5)?;
                if capacity > u64::from(self.capacity_max) {
                    return Err(Stop::Error(EncoderStreamError::Capacity));
                }
                self.table.set_capacity(capacity as usize);
                Ok(())
            }
            Some(0x00..0x20) => {
                let index = integer::decode_long(input, 5)?;
                let copied = self.absolute(index).and_then(|index| self.table.duplicate(index));
                copied.ok_or(Stop::Error(EncoderStreamError::Index))
            }
            None => Err(Stop::Truncated),
        }
    }

    /// Insert with Name Reference (section 4.3.2).
    fn insert_with_name(&mut self, input: &mut &[u8]) -> Result<(), Stop> {
        let is_static = input.first().is_some_and(|first| first & 0x40 != 0);
        let index = integer::decode_long(input, 6)?;
        let value = self.bounded_string(input, 7)?;
        let unknown = Stop::Error(EncoderStreamError::Index);
        let (known, name) = if is_static {
            let (known, name, _) = static_entry(index).ok_or(unknown)?;
            (*known, Name::Static(name.as_bytes()))
        } else {
            let absolute = self.absolute(index).ok_or(unknown)?;
            let entry = self.table.entry(absolute).ok_or(unknown)?;
            (entry.known, Name::Entry(absolute))
        };
        let inserted = self.table.insert(known, name, value.of(&self.text));
        inserted.ok_or(Stop::Error(EncoderStreamError::EntrySize))
    }

    /// The absolute index of an entry that the encoder stream names (section 3.2.5).
    fn absolute(&self, relative: u64) -> Option<u64> {
        self.table.inserted().checked_sub(1)?.checked_sub(relative)
    }

    /// Passes over a string of the encoder stream. One that cannot fit into the table is refused before it is here, so that
    /// an instruction in progress is no larger than about four tables for each string.
    fn skip_string(&self, input: &mut &[u8], prefix_bits: u32) -> Result<(), Stop> {
        let is_coded = input.first().is_some_and(|first| first & 1 << prefix_bits != 0);
        let length = integer::decode_long(input, prefix_bits)?;
        let shortest = match is_coded {
            true => length.saturating_mul(8) / HUFFMAN_BITS_MAX,
            false => length,
        };
        if shortest.saturating_add(ENTRY_OVERHEAD_BYTES as u64) > self.table.capacity() as u64 {
            return Err(Stop::Error(EncoderStreamError::EntrySize));
        }
        *input = usize::try_from(length)
            .ok()
            .and_then(|length| input.get(length..))
            .ok_or(Stop::Truncated)?;
        Ok(())
    }

    /// Reads a string of the encoder stream, once all of it is here.
    fn bounded_string<'a>(
        &mut self,
        input: &mut &'a [u8],
        prefix_bits: u32,
    ) -> Result<Text<'a>, Stop> {
        self.skip_string(&mut &**input, prefix_bits)?;
        string::decode(input, prefix_bits, &mut self.text).map_err(|error| match error {
            string::StringError::Truncated => Stop::Truncated,
            string::StringError::Integer => Stop::Error(EncoderStreamError::Integer),
            string::StringError::Huffman => Stop::Error(EncoderStreamError::Huffman),
        })
    }

    /// Insert Count Increment, for what no acknowledgment has confirmed (section 4.4.3).
    fn confirm_insertions(&mut self) {
        let increment = self.table.inserted() - self.reported;
        if increment > 0 {
            integer::encode(&mut self.output, 0x00, 6, increment);
            self.reported += increment;
        }
    }

    /// Reads the prefix of a section (section 4.5.1).
    fn prefix(&mut self, stream: u64, input: &mut &[u8]) -> Result<Prefix, DecodeError> {
        let encoded = integer::decode_long(input, 8)?;
        let ready = self.ready.iter().position(|(ready, _)| *ready == stream);
        let required = match ready {
            Some(at) => self.ready.swap_remove(at).1,
            None => self.required_insert_count(encoded)?,
        };
        let is_negative = input.first().is_some_and(|first| first & 0x80 != 0);
        let delta = integer::decode_long(input, 7)?;
        let base = match is_negative {
            true => required.checked_sub(delta).and_then(|base| base.checked_sub(1)),
            false => required.checked_add(delta),
        };
        Ok(Prefix { required, base: base.ok_or(DecodeError::Base)? })
    }

    /// The count is sent modulo twice the number of entries that the largest table can have (section 4.5.1.1).
    fn required_insert_count(&self, encoded: u64) -> Result<u64, DecodeError> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = u64::from(self.capacity_max) / ENTRY_OVERHEAD_BYTES as u64;
        let full_range = 2 * entries_max;
        if encoded > full_range {
            return Err(DecodeError::RequiredInsertCount);
        }
        let most = self.table.inserted() + entries_max;
        let required = most / full_range * full_range + encoded - 1;
        match required > most {
            true if required <= full_range => Err(DecodeError::RequiredInsertCount),
            true => Ok(required - full_range),
            false if required == 0 => Err(DecodeError::RequiredInsertCount),
            false => Ok(required),
        }
    }

    /// Indexed Field Line (section 4.5.2).
    #[inline]
    fn indexed(
        &self,
        prefix: Prefix,
        input: &mut &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), DecodeError> {
        let is_static = input.first().is_some_and(|first| first & 0x40 != 0);
        let index = integer::decode_long(input, 6)?;
        let field = match is_static {
            true => static_field(index)?,
            false => self.relative(prefix, index)?,
        };
        sink(decoded(field));
        Ok(())
    }

    /// Indexed Field Line with Post-Base Index (section 4.5.3).
    fn indexed_post_base(
        &self,
        prefix: Prefix,
        input: &mut &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), DecodeError> {
        let index = integer::decode_long(input, 4)?;
        sink(decoded(self.post_base(prefix, index)?));
        Ok(())
    }

    /// Literal Field Line with Name Reference (section 4.5.4).
    fn literal_with_name(
        &mut self,
        prefix: Prefix,
        input: &mut &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), DecodeError> {
        let first = input.first().copied().unwrap_or(0);
        let index = integer::decode_long(input, 4)?;
        self.text.clear();
        let value = string::decode(input, 7, &mut self.text)?;
        let name = match first & 0x10 != 0 {
            true => static_field(index)?,
            false => self.relative(prefix, index)?,
        };
        let (value, never_indexed) = (value.of(&self.text), first & 0x20 != 0);
        sink(DecodedField { value, never_indexed, ..decoded(name) });
        Ok(())
    }

    /// Literal Field Line with Post-Base Name Reference (section 4.5.5).
    fn literal_post_base(
        &mut self,
        prefix: Prefix,
        input: &mut &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), DecodeError> {
        let never_indexed = input.first().is_some_and(|first| first & 0x08 != 0);
        let index = integer::decode_long(input, 3)?;
        self.text.clear();
        let value = string::decode(input, 7, &mut self.text)?;
        let name = self.post_base(prefix, index)?;
        let value = value.of(&self.text);
        sink(DecodedField { value, never_indexed, ..decoded(name) });
        Ok(())
    }

    /// Literal Field Line with Literal Name (section 4.5.6).
    fn literal(
        &mut self,
        input: &mut &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), DecodeError> {
        let never_indexed = input.first().is_some_and(|first| first & 0x10 != 0);
        self.text.clear();
        let name = string::decode(input, 3, &mut self.text)?;
        let value = string::decode(input, 7, &mut self.text)?;
        let (name, value) = (name.of(&self.text), value.of(&self.text));
        sink(DecodedField { known: Known::of(name), name, value, never_indexed, is_static: false });
        Ok(())
    }

    fn relative(&self, prefix: Prefix, index: u64) -> Result<Field<'_>, DecodeError> {
        let absolute = prefix.base.checked_sub(1).and_then(|base| base.checked_sub(index));
        self.referenced(prefix, absolute)
    }

    fn post_base(&self, prefix: Prefix, index: u64) -> Result<Field<'_>, DecodeError> {
        self.referenced(prefix, prefix.base.checked_add(index))
    }

    /// An entry that a section uses has to be announced by its Required Insert Count (section 2.2.1).
    fn referenced(&self, prefix: Prefix, absolute: Option<u64>) -> Result<Field<'_>, DecodeError> {
        let announced = absolute.filter(|absolute| *absolute < prefix.required);
        announced.and_then(|absolute| self.table.entry(absolute)).ok_or(DecodeError::Index)
    }
}

/// What stops the reading of an instruction.
#[derive(Clone, Copy)]
enum Stop {
    /// The rest of it is missing.
    Truncated,
    Error(EncoderStreamError),
}

impl From<IntegerError> for Stop {
    fn from(error: IntegerError) -> Stop {
        match error {
            IntegerError::Truncated => Stop::Truncated,
            IntegerError::Overflow => Stop::Error(EncoderStreamError::Integer),
        }
    }
}

fn static_entry(index: u64) -> Option<&'static super::static_table::StaticEntry> {
    STATIC_TABLE.get(usize::try_from(index).ok()?)
}

fn static_field(index: u64) -> Result<Field<'static>, DecodeError> {
    let (known, name, value) = static_entry(index).ok_or(DecodeError::Index)?;
    let (name, value) = (name.as_bytes(), value.as_bytes());
    Ok(Field { known: *known, name, value, is_static: true })
}

fn decoded(field: Field<'_>) -> DecodedField<'_> {
    let Field { known, name, value, is_static } = field;
    DecodedField { known, name, value, never_indexed: false, is_static }
}
