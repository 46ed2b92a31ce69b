//! Fields to sections, and insertions for the encoder stream (RFC 9204 sections 2.1 and 4.3 to 4.5).

use tidegate_codec::Known;
use tidegate_fields::integer::{self, IntegerError};
use tidegate_fields::string::{self, Form};
use tidegate_fields::{ENTRY_OVERHEAD_BYTES, FieldEncoder, Indexing};

use super::dynamic::{DynamicTable, Found, Name, entry_size};
use super::error::DecoderStreamError;
use super::static_table::{index_of_field, index_of_name};

/// Sections that use the table and are not acknowledged; with more, sections do without the table.
const SECTIONS_MAX: usize = 128;

/// A section that was sent and not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Section {
    stream: u64,
    /// Its Required Insert Count.
    required: u64,
    /// The oldest entry that it uses.
    oldest: u64,
}

/// Encodes the sections of all streams of a connection.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    /// The table here may have at most this, bytes.
    bytes_max: u32,
    huffman: bool,
    /// The peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY, bytes.
    peer_capacity: u64,
    /// The peer's SETTINGS_QPACK_BLOCKED_STREAMS.
    peer_blocked: u64,
    /// Insertions that the peer has confirmed.
    known_received: u64,
    sections: Vec<Section>,
    current: Current,
    /// Instructions for the encoder stream.
    output: Vec<u8>,
    /// The begin of an instruction of the decoder stream.
    partial: Vec<u8>,
}

/// The section in progress.
#[derive(Clone, Copy, Debug)]
struct Current {
    stream: u64,
    /// Insertions before the section.
    base: u64,
    /// The newest entry that it uses, plus one.
    required: u64,
    /// The oldest entry that it uses.
    oldest: u64,
    /// It may use entries that the peer has not confirmed.
    may_block: bool,
    /// It may use the table.
    is_tabled: bool,
}

impl Encoder {
    /// An encoder whose table has at most `table_bytes` bytes, 0 for none, and which takes the Huffman code for strings
    /// that it does not make longer if `huffman` is set. There is no table before [`Encoder::limit`].
    pub fn new(table_bytes: u32, huffman: bool) -> Encoder {
        Encoder {
            table: DynamicTable::new(),
            bytes_max: table_bytes,
            huffman,
            peer_capacity: 0,
            peer_blocked: 0,
            known_received: 0,
            sections: Vec::new(),
            current: Current {
                stream: 0,
                base: 0,
                required: 0,
                oldest: u64::MAX,
                may_block: false,
                is_tabled: false,
            },
            output: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Takes the peer's settings: the largest table in bytes, and the number of streams that may be blocked.
    pub fn limit(&mut self, capacity: u64, blocked: u64) {
        self.peer_capacity = capacity;
        self.peer_blocked = blocked;
        let capacity = capacity.min(u64::from(self.bytes_max));
        if capacity > self.table.capacity() as u64 {
            self.table.set_capacity(capacity as usize);
            integer::encode(&mut self.output, 0x20, 5, capacity);
        }
    }

    /// Begins a section of a stream.
    pub fn begin(&mut self, stream: u64) {
        let is_tabled = self.table.capacity() > 0 && self.sections.len() < SECTIONS_MAX;
        self.current = Current {
            stream,
            base: self.table.inserted(),
            required: 0,
            oldest: u64::MAX,
            may_block: is_tabled && self.may_block(stream),
            is_tabled,
        };
    }

    /// Appends a field line to `out`. `known` is what [`Known::of`] returns for the name, which is sent in lower case.
    #[inline]
    pub fn field(
        &mut self,
        known: Known,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
        out: &mut Vec<u8>,
    ) {
        let name_index = index_of_name(known, name);
        if let Some(index) = name_index.and_then(|index| index_of_field(index, value)) {
            return integer::encode(out, 0xc0, 6, index);
        }
        let wants_table = indexing == Indexing::Incremental && self.current.is_tabled;
        if wants_table && self.by_table(known, name_index, name, value, out) {
            return;
        }
        let never = indexing == Indexing::Never;
        match name_index {
            Some(index) => {
                integer::encode(out, if never { 0x70 } else { 0x50 }, 4, index);
            }
            None => {
                let first = if never { 0x30 } else { 0x20 };
                let form = Form { first, prefix_bits: 3, huffman: self.huffman, lower: true };
                string::encode(out, form, name);
            }
        }
        string::encode(out, self.value_form(), value);
    }

    /// Ends the section: appends its prefix, which is sent before the field lines, to `prefix`.
    pub fn finish(&mut self, prefix: &mut Vec<u8>) {
        let Current { stream, base, required, oldest, .. } = self.current;
        self.current.is_tabled = false;
        if required == 0 {
            return prefix.extend_from_slice(&[0, 0]);
        }
        // Not zero: only a table that the peer allows has entries.
        let full_range = (2 * (self.peer_capacity / ENTRY_OVERHEAD_BYTES as u64)).max(1);
        integer::encode(prefix, 0, 8, required % full_range + 1);
        match base.checked_sub(required) {
            Some(delta) => integer::encode(prefix, 0x00, 7, delta),
            None => integer::encode(prefix, 0x80, 7, required - base - 1),
        }
        self.sections.push(Section { stream, required, oldest });
    }

    /// Takes bytes of the peer's decoder stream.
    ///
    /// # Errors
    /// The connection is over.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), DecoderStreamError> {
        let mut kept = std::mem::take(&mut self.partial);
        kept.extend_from_slice(input);
        let mut rest = kept.as_slice();
        while !rest.is_empty() {
            let mut ahead = rest;
            match self.instruction(&mut ahead) {
                Ok(done) => done?,
                Err(IntegerError::Truncated) => break,
                Err(IntegerError::Overflow) => return Err(DecoderStreamError::Integer),
            }
            rest = ahead;
        }
        let used = kept.len() - rest.len();
        kept.drain(..used);
        self.partial = kept;
        Ok(())
    }

    /// Moves the instructions for the encoder stream to the end of `into`. They are to be sent before the sections that
    /// were encoded since: else these sections could block for ever (RFC 9204 section 2.1.3).
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.output);
    }

    /// Whether there are instructions for the encoder stream.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Gives memory back that the table's entries do not need.
    pub fn shrink(&mut self) {
        self.table.shrink();
        self.sections.shrink_to_fit();
        self.output.shrink_to_fit();
        self.partial.shrink_to_fit();
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.table.memory()
            + self.sections.capacity() * size_of::<Section>()
            + self.output.capacity()
            + self.partial.capacity()
    }

    #[cfg(test)]
    pub(crate) fn table(&self) -> &DynamicTable {
        &self.table
    }

    /// Sends a field by the dynamic table, or inserts it. `false` where the field line is still to be written.
    fn by_table(
        &mut self,
        known: Known,
        static_name: Option<u32>,
        name: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let named = match self.table.find(known, name, value) {
            Some(Found::Field(absolute)) => return self.reference(absolute, out),
            Some(Found::Name(absolute)) => Some(absolute),
            None => None,
        };
        let size = entry_size(name.len(), value.len());
        if size > self.table.capacity() || !self.table.has_room(size, self.evictable()) {
            return false;
        }
        match (static_name, named) {
            (Some(index), _) => integer::encode(&mut self.output, 0xc0, 6, index),
            (None, Some(absolute)) => {
                let relative = self.table.inserted() - 1 - absolute;
                integer::encode(&mut self.output, 0x80, 6, relative);
            }
            (None, None) => {
                let huffman = self.huffman;
                let form = Form { first: 0x40, prefix_bits: 5, huffman, lower: true };
                string::encode(&mut self.output, form, name);
            }
        }
        let form = self.value_form();
        string::encode(&mut self.output, form, value);
        let absolute = self.table.inserted();
        let inserted = self.table.insert(known, Name::Text(name), value);
        inserted.is_some() && self.reference(absolute, out)
    }

    /// Appends a field line that uses an entry, unless the section would have to wait for it and may not.
    fn reference(&mut self, absolute: u64, out: &mut Vec<u8>) -> bool {
        let current = &mut self.current;
        if absolute >= self.known_received && !current.may_block {
            return false;
        }
        current.required = current.required.max(absolute + 1);
        current.oldest = current.oldest.min(absolute);
        match absolute.checked_sub(current.base) {
            Some(index) => integer::encode(out, 0x10, 4, index),
            None => integer::encode(out, 0x80, 6, current.base - 1 - absolute),
        }
        true
    }

    /// Entries before this one may be evicted: they are confirmed, and no section that is in progress uses them (section
    /// 2.1.1).
    fn evictable(&self) -> u64 {
        let used = self.sections.iter().map(|section| section.oldest);
        used.fold(self.known_received.min(self.current.oldest), u64::min)
    }

    /// Whether a section of this stream may have to wait: it does already, or the peer allows one more (section 2.1.2).
    fn may_block(&self, stream: u64) -> bool {
        let (mut blocked, known) = (0, self.known_received);
        for (at, section) in self.sections.iter().enumerate() {
            if section.required <= known {
                continue;
            }
            if section.stream == stream {
                return true;
            }
            let earlier = self.sections.iter().take(at);
            let mut same = earlier.filter(|earlier| earlier.stream == section.stream);
            blocked += u64::from(!same.any(|earlier| earlier.required > known));
        }
        blocked < self.peer_blocked
    }

    fn value_form(&self) -> Form {
        Form { first: 0, prefix_bits: 7, huffman: self.huffman, lower: false }
    }

    /// Reads one instruction of the decoder stream (section 4.4).
    fn instruction(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Result<(), DecoderStreamError>, IntegerError> {
        Ok(match input.first() {
            Some(0x80..) => {
                let stream = integer::decode_long(input, 7)?;
                self.acknowledged(stream)
            }
            Some(0x40..0x80) => {
                let stream = integer::decode_long(input, 6)?;
                self.sections.retain(|section| section.stream != stream);
                Ok(())
            }
            Some(0x00..0x40) => {
                let increment = integer::decode_long(input, 6)?;
                let unconfirmed = self.table.inserted() - self.known_received;
                match increment {
                    0 => Err(DecoderStreamError::Increment),
                    _ if increment > unconfirmed => Err(DecoderStreamError::Increment),
                    _ => {
                        self.known_received += increment;
                        Ok(())
                    }
                }
            }
            None => return Err(IntegerError::Truncated),
        })
    }

    /// The oldest section of the stream was decoded.
    fn acknowledged(&mut self, stream: u64) -> Result<(), DecoderStreamError> {
        let found = self.sections.iter().position(|section| section.stream == stream);
        let section = self.sections.remove(found.ok_or(DecoderStreamError::Acknowledgment)?);
        self.known_received = self.known_received.max(section.required);
        Ok(())
    }
}

impl FieldEncoder for Encoder {
    #[inline]
    fn field(
        &mut self,
        known: Known,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
        out: &mut Vec<u8>,
    ) {
        Encoder::field(self, known, name, value, indexing, out);
    }

    #[inline]
    fn code(&self) -> Option<bool> {
        (!self.current.is_tabled).then_some(self.huffman)
    }
}
