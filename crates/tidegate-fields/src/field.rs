//! One field, as a decoder passes it on and as an encoder takes it.

use tidegate_codec::Known;

/// Bytes that each entry of a table counts beside its name and value (RFC 7541 section 4.1, RFC 9204 section 3.2.1);
/// also what a field of a list counts (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
pub const ENTRY_OVERHEAD_BYTES: usize = 32;

/// One field of a field section. Nothing of it has been checked: names may be upper case, values may have line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedField<'a> {
    /// The name's id, by [`Known::of`].
    pub known: Known,
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The sender demands that no table ever holds it (RFC 7541 section 7.1.3).
    pub never_indexed: bool,
    /// The name is of the static table, and so a valid one.
    pub is_static: bool,
}

/// What the tables are to do with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// It is added to the dynamic table: it is likely to be sent again.
    Incremental,
    /// It is written out, unless the static table has it.
    Without,
    /// It is written out, and intermediaries have to do the same: a secret that could be guessed by the size of
    /// what is sent (RFC 7541 section 7.1).
    Never,
}

/// An encoder of field sections: HPACK's or QPACK's.
pub trait FieldEncoder {
    /// Appends a field to the section in `out`. `known` is what [`Known::of`] returns for the name, which is sent in
    /// lower case.
    fn field(
        &mut self,
        known: Known,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
        out: &mut Vec<u8>,
    );

    /// Whether strings have the Huffman code, if lines of the section that was begun depend on nothing but that and the
    /// fields: they may be kept for other sections. `None` where tables are used.
    fn code(&self) -> Option<bool> {
        None
    }
}
