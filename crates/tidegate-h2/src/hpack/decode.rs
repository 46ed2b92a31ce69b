//! Header blocks to fields (RFC 7541 sections 3 and 6).

use std::fmt;
use std::ops::ControlFlow;

use tidegate_codec::Known;
use tidegate_fields::DecodedField;
use tidegate_fields::integer::{self, IntegerError};
use tidegate_fields::string::{self, StringError};
use tidegate_fields::table::{Field, NameSource, Table};

use super::TABLE_BYTES_DEFAULT;
use super::static_table::STATIC_TABLE;

/// Changes of the table's size at the begin of a block: two are enough for any change of a setting (RFC 7541
/// section 4.2).
const SIZE_UPDATES_MAX: usize = 2;

/// Why a block cannot be decoded. Each ends the connection with COMPRESSION_ERROR, as the table is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// The block ends within a field.
    Truncated,
    /// An integer above 32 bits.
    Integer,
    /// No entry has this index.
    Index,
    /// A string is no Huffman code.
    Huffman,
    /// A size of the table above what was announced.
    SizeUpdate,
    /// A size update behind a field, or a third one.
    SizeUpdatePlace,
    /// The announced size was reduced, and the block after its acknowledgement does not begin with a size update.
    SizeUpdateMissing,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the block is incomplete",
            DecodeError::Integer => "integer above 32 bits",
            DecodeError::Index => "index beyond the tables",
            DecodeError::Huffman => "invalid Huffman code",
            DecodeError::SizeUpdate => "table size above the announced one",
            DecodeError::SizeUpdatePlace => "table size update out of place",
            DecodeError::SizeUpdateMissing => "table size update missing",
        })
    }
}

impl std::error::Error for DecodeError {}

impl From<IntegerError> for DecodeError {
    fn from(error: IntegerError) -> DecodeError {
        match error {
            IntegerError::Truncated => DecodeError::Truncated,
            IntegerError::Overflow => DecodeError::Integer,
        }
    }
}

impl From<StringError> for DecodeError {
    fn from(error: StringError) -> DecodeError {
        match error {
            StringError::Truncated => DecodeError::Truncated,
            StringError::Integer => DecodeError::Integer,
            StringError::Huffman => DecodeError::Huffman,
        }
    }
}

/// Decodes the header blocks of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// SETTINGS_HEADER_TABLE_SIZE as announced and acknowledged, bytes.
    announced: usize,
    update_due: bool,
    /// Strings of the field in progress that were Huffman coded.
    text: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder with a table of 4,096 bytes, as each connection begins.
    pub fn new() -> Decoder {
        let announced = TABLE_BYTES_DEFAULT as usize;
        Decoder { table: Table::new(announced), announced, update_due: false, text: Vec::new() }
    }

    /// Takes a new SETTINGS_HEADER_TABLE_SIZE, bytes, once the peer has acknowledged it. Where it is smaller than the
    /// table, the next block has to begin with a size update.
    pub fn announce(&mut self, table_bytes: u32) {
        self.announced = table_bytes as usize;
        self.update_due = self.announced < self.table.size_max();
    }

    /// Decodes a whole block and calls `sink` with each field.
    ///
    /// # Errors
    /// The block is invalid, and the connection cannot go on.
    pub fn decode(
        &mut self,
        block: &[u8],
        sink: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), DecodeError> {
        let mut each = |field: DecodedField<'_>| {
            sink(field);
            ControlFlow::Continue(())
        };
        self.decode_until(block, &mut each).map(drop)
    }

    /// Decodes a block until `sink` breaks off: the connection cannot go on then, as the table is lost.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_until(
        &mut self,
        block: &[u8],
        sink: &mut impl FnMut(DecodedField<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let mut input = block;
        self.size_updates(&mut input)?;
        while let Some(first) = input.first() {
            let flow = match first {
                0x80.. => self.indexed(&mut input, sink)?,
                0x40..0x80 => self.literal(&mut input, 6, true, sink)?,
                0x20..0x40 => return Err(DecodeError::SizeUpdatePlace),
                0x00..0x20 => self.literal(&mut input, 4, false, sink)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Gives memory back that the table's entries do not need.
    pub fn shrink(&mut self) {
        self.text = Vec::new();
        self.table.shrink();
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.table.capacity()
    }

    #[cfg(test)]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    fn size_updates(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let mut updates = 0;
        while let Some(0x20..0x40) = input.first() {
            let size = integer::decode(input, 5)? as usize;
            updates += 1;
            if updates > SIZE_UPDATES_MAX {
                return Err(DecodeError::SizeUpdatePlace);
            }
            if size > self.announced {
                return Err(DecodeError::SizeUpdate);
            }
            self.table.set_size_max(size);
            self.update_due = false;
        }
        match self.update_due {
            true => Err(DecodeError::SizeUpdateMissing),
            false => Ok(()),
        }
    }

    #[inline]
    fn indexed(
        &mut self,
        input: &mut &[u8],
        sink: &mut impl FnMut(DecodedField<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let index = integer::decode(input, 7)?;
        let Field { known, name, value, is_static } = self.entry(index)?;
        Ok(sink(DecodedField { known, name, value, never_indexed: false, is_static }))
    }

    fn literal(
        &mut self,
        input: &mut &[u8],
        prefix_bits: u32,
        indexing: bool,
        sink: &mut impl FnMut(DecodedField<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let never_indexed = !indexing && input.first().is_some_and(|first| first & 0x10 != 0);
        let index = integer::decode(input, prefix_bits)?;
        self.text.clear();
        let new_name = match index {
            0 => Some(string::decode(input, 7, &mut self.text)?),
            _ => None,
        };
        let value = string::decode(input, 7, &mut self.text)?;
        let (known, name, is_static) = match new_name {
            Some(name) => {
                let name = name.of(&self.text);
                (Known::of(name), name, false)
            }
            None => {
                let Field { known, name, is_static, .. } = self.entry(index)?;
                (known, name, is_static)
            }
        };
        let value = value.of(&self.text);
        let flow = sink(DecodedField { known, name, value, never_indexed, is_static });
        if indexing {
            let source = match (new_name, dynamic_index(index)) {
                (Some(name), _) => NameSource::Text(name.of(&self.text)),
                (None, Some(index)) => NameSource::Entry(index),
                (None, None) => NameSource::Static(static_name(index)),
            };
            self.table.insert(known, source, value);
        }
        Ok(flow)
    }

    #[inline]
    fn entry(&self, index: u32) -> Result<Field<'_>, DecodeError> {
        let index = (index as usize).checked_sub(1).ok_or(DecodeError::Index)?;
        match STATIC_TABLE.get(index) {
            Some((known, name, value)) => Ok(Field {
                known: *known,
                name: name.as_bytes(),
                value: value.as_bytes(),
                is_static: true,
            }),
            None => self.table.entry(index - STATIC_TABLE.len()).ok_or(DecodeError::Index),
        }
    }
}

/// The index within the dynamic table, 0 the newest.
fn dynamic_index(index: u32) -> Option<usize> {
    (index as usize).checked_sub(STATIC_TABLE.len() + 1)
}

fn static_name(index: u32) -> &'static [u8] {
    let entry = (index as usize).checked_sub(1).and_then(|index| STATIC_TABLE.get(index));
    entry.map_or(b"", |(_, name, _)| name.as_bytes())
}
