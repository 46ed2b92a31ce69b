//! Fields to header blocks (RFC 7541 sections 4.2 and 6).

use tidegate_codec::Known;
use tidegate_fields::string::{self, Form};
use tidegate_fields::table::{Found, NameSource, Table};
use tidegate_fields::{FieldEncoder, Indexing, integer};

use super::TABLE_BYTES_DEFAULT;
use super::static_table::{STATIC_TABLE, index_of_field, index_of_name};

/// Encodes the header blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    /// Made with its first entry: responses have none.
    table: Option<Box<Table>>,
    /// The size of the table, bytes.
    size: u32,
    /// What the table may have at most here, bytes.
    bytes_max: u32,
    /// The size of the table that the peer's decoder has.
    announced: u32,
    huffman: bool,
    /// Sizes that the next block begins with: the smallest since the last block, and the present one.
    updates: Option<(u32, u32)>,
}

impl Encoder {
    /// An encoder whose table has at most `table_bytes` bytes, 0 for none, and which takes the Huffman code for
    /// strings that it does not make longer if `huffman` is set.
    pub fn new(table_bytes: u32, huffman: bool) -> Encoder {
        let size = table_bytes.min(TABLE_BYTES_DEFAULT);
        // Without entries of ours both tables stay empty, whatever their sizes.
        let updates = (0 < size && size < TABLE_BYTES_DEFAULT).then_some((size, size));
        let announced = TABLE_BYTES_DEFAULT;
        Encoder { table: None, size, bytes_max: table_bytes, announced, huffman, updates }
    }

    /// Takes the peer's SETTINGS_HEADER_TABLE_SIZE, bytes. The next block carries the size that is used if that
    /// changes, or if the peer waits for it, as its own became smaller (RFC 7541 section 4.2).
    pub fn limit(&mut self, table_bytes: u32) {
        let size = table_bytes.min(self.bytes_max);
        let is_same = size == self.size && table_bytes >= self.announced;
        if is_same && self.updates.is_none() {
            return;
        }
        let smallest = self.updates.map_or(size, |(smallest, _)| smallest.min(size));
        self.updates = Some((smallest, size));
        self.size = size;
        if let Some(table) = &mut self.table {
            table.set_size_max(size as usize);
        }
    }

    /// Begins a block: appends the size updates that are due.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let Some((smallest, size)) = self.updates.take() else { return };
        if smallest < size {
            integer::encode(out, 0x20, 5, smallest);
        }
        integer::encode(out, 0x20, 5, size);
        self.announced = size;
    }

    /// Appends a field. `known` is what [`Known::of`] returns for the name, which is sent in lower case.
    #[inline]
    pub fn field(
        &mut self,
        known: Known,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
        out: &mut Vec<u8>,
    ) {
        let mut name_index = index_of_name(known, name);
        if let Some(index) = index_of_field(name_index, value) {
            return integer::encode(out, 0x80, 7, index);
        }
        let tabled = indexing == Indexing::Incremental && self.size > 0;
        if tabled && let Some(table) = &self.table {
            match table.find(known, name, value) {
                Some(Found::Field(index)) => return integer::encode(out, 0x80, 7, dynamic(index)),
                Some(Found::Name(index)) if name_index == 0 => name_index = dynamic(index),
                Some(Found::Name(_)) | None => {}
            }
        }
        match (tabled, indexing) {
            (true, _) => integer::encode(out, 0x40, 6, name_index),
            (false, Indexing::Never) => integer::encode(out, 0x10, 4, name_index),
            (false, _) => integer::encode(out, 0x00, 4, name_index),
        }
        if name_index == 0 {
            self.string(name, true, out);
        }
        self.string(value, false, out);
        if tabled {
            let new = || Box::new(Table::new(self.size as usize));
            let table = self.table.get_or_insert_with(new);
            table.insert(known, NameSource::Text(name), value);
        }
    }

    /// Gives memory back that the table's entries do not need.
    pub fn shrink(&mut self) {
        if let Some(table) = &mut self.table {
            table.shrink();
        }
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.table.as_ref().map_or(0, |table| size_of::<Table>() + table.capacity())
    }

    #[cfg(test)]
    pub(crate) fn table(&self) -> Table {
        self.table.as_deref().cloned().unwrap_or_else(|| Table::new(self.size as usize))
    }

    /// Appends a string literal (RFC 7541 section 5.2), in lower case if `lower` is set.
    fn string(&self, text: &[u8], lower: bool, out: &mut Vec<u8>) {
        let form = Form { first: 0, prefix_bits: 7, huffman: self.huffman, lower };
        string::encode(out, form, text);
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
}

/// The index of an entry of the dynamic table on the wire.
fn dynamic(index: usize) -> u32 {
    (STATIC_TABLE.len() + 1 + index) as u32
}
