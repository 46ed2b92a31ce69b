//! ISO base media files as bytes: boxes, their headers, and the tables of a track (ISO/IEC 14496-12).

use std::fmt;

/// The type of a box: four letters.
pub(super) type BoxType = [u8; 4];

/// Why a file cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mp4Error {
    /// A box is smaller than its header, or ends behind the box that contains it: its size in bytes.
    AtomSmall(u64),
    AtomLarge(u64),
    /// A box ends before its own contents do.
    TooSmall(BoxType),
    /// A box is, or would become, larger than the format allows.
    TooLarge(BoxType),
    Duplicate(BoxType),
    Missing(BoxType),
    /// The index has this number of bytes, more than `mp4_max_buffer_size`.
    Index(u64),
    /// More boxes than any real file has.
    Boxes,
    /// The video ends before the part begins.
    Exceeds,
    NoData,
    /// The part begins behind the end of this box's table.
    StartOut(BoxType),
    /// The part ends behind the end of this box's table.
    EndOut(BoxType),
    /// The table contradicts itself.
    Malformed(BoxType),
}

impl Mp4Error {
    /// Returns nginx's log message.
    pub(super) fn about(&self, path: &str) -> String {
        match self {
            Mp4Error::Duplicate(_)
            | Mp4Error::Missing(_)
            | Mp4Error::NoData
            | Mp4Error::StartOut(_)
            | Mp4Error::EndOut(_) => format!("{self} in \"{path}\""),
            _ => format!("\"{path}\" {self}"),
        }
    }
}

impl fmt::Display for Mp4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy;
        match self {
            Mp4Error::AtomSmall(size) => write!(f, "mp4 atom is too small:{size}"),
            Mp4Error::AtomLarge(size) => write!(f, "mp4 atom too large:{size}"),
            Mp4Error::TooSmall(kind) => write!(f, "mp4 {} atom too small", name(kind)),
            Mp4Error::TooLarge(kind) => write!(f, "mp4 {} atom too large", name(kind)),
            Mp4Error::Duplicate(kind) => write!(f, "duplicate mp4 {} atom", name(kind)),
            Mp4Error::Missing(kind) => write!(f, "no mp4 {} atoms were found", name(kind)),
            Mp4Error::Index(size) => {
                write!(f, "mp4 moov atom is too large:{size}, ")?;
                f.write_str("you may want to increase mp4_max_buffer_size")
            }
            Mp4Error::Boxes => f.write_str("mp4 file has too many atoms"),
            Mp4Error::Exceeds => f.write_str("mp4 start time exceeds file duration"),
            Mp4Error::NoData => f.write_str("no data between start time and end time"),
            Mp4Error::StartOut(kind) => write!(f, "start time is out mp4 {} atom", name(kind)),
            Mp4Error::EndOut(kind) => write!(f, "end time is out mp4 {} atom", name(kind)),
            Mp4Error::Malformed(kind) => write!(f, "mp4 {} atom is malformed", name(kind)),
        }
    }
}

impl std::error::Error for Mp4Error {}

/// The header of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: BoxType,
    /// Bytes of the header itself: 8, or 16 with a 64-bit size.
    pub length: u64,
    /// Bytes of the box with its header.
    pub size: u64,
}

impl Header {
    /// Parses the header at the beginning of `bytes`, of a box with at most `room` bytes. A size of zero means all
    /// of them.
    ///
    /// # Errors
    /// The box is smaller than its header or larger than `room`.
    pub(super) fn parse(bytes: &[u8], room: u64) -> Result<Header, Mp4Error> {
        let kind = bytes.get(4..8).and_then(|kind| kind.try_into().ok()).unwrap_or(*b"????");
        let (length, size) = match be32(bytes, 0).ok_or(Mp4Error::TooSmall(kind))? {
            0 => (8, room),
            1 => (16, be64(bytes, 8).ok_or(Mp4Error::TooSmall(kind))?),
            size => (8, u64::from(size)),
        };
        if size < length || bytes.len() < 8 {
            return Err(Mp4Error::AtomSmall(size));
        }
        if size > room {
            return Err(Mp4Error::AtomLarge(size));
        }
        Ok(Header { kind, length, size })
    }
}

/// A box inside another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    pub kind: BoxType,
    /// The box with its header.
    pub whole: &'a [u8],
    pub content: &'a [u8],
}

/// Iterator over the boxes in a box's contents.
pub(super) struct Children<'a>(pub &'a [u8]);

impl<'a> Iterator for Children<'a> {
    type Item = Result<Child<'a>, Mp4Error>;

    fn next(&mut self) -> Option<Self::Item> {
        // There may be four zero bytes at the end (QuickTime).
        if self.0.is_empty() || be32(self.0, 0) == Some(0) {
            return None;
        }
        let child = Header::parse(self.0, self.0.len() as u64).and_then(|header| {
            let too_large = Mp4Error::TooLarge(header.kind);
            let size = usize::try_from(header.size).map_err(|_| too_large)?;
            let (whole, rest) = self.0.split_at_checked(size).ok_or(too_large)?;
            let start = usize::try_from(header.length).map_err(|_| too_large)?;
            let content = whole.get(start..).ok_or(too_large)?;
            self.0 = rest;
            Ok(Child { kind: header.kind, whole, content })
        });
        if child.is_err() {
            self.0 = &[];
        }
        Some(child)
    }
}

/// Returns the contents of the only box of this type.
///
/// # Errors
/// There are two of them, or a box beside it cannot be parsed.
pub(super) fn find(content: &[u8], kind: BoxType) -> Result<Option<&[u8]>, Mp4Error> {
    let mut found = None;
    for child in Children(content) {
        let child = child?;
        if child.kind == kind && found.replace(child.content).is_some() {
            return Err(Mp4Error::Duplicate(kind));
        }
    }
    Ok(found)
}

/// Does the same for a mandatory box.
///
/// # Errors
/// Those of [`find`], or there is none.
pub(super) fn need(content: &[u8], kind: BoxType) -> Result<&[u8], Mp4Error> {
    find(content, kind)?.ok_or(Mp4Error::Missing(kind))
}

/// A table: rows of 32-bit numbers (or of one 64-bit number).
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Table<'a> {
    /// Parses the rows behind their number, which is at `count_at` in the box's contents. `width` is in bytes and
    /// not zero.
    ///
    /// # Errors
    /// [`Mp4Error::TooSmall`] when there are fewer.
    pub(super) fn parse(
        content: &'a [u8],
        kind: BoxType,
        count_at: usize,
        width: usize,
    ) -> Result<Table<'a>, Mp4Error> {
        let too_small = Mp4Error::TooSmall(kind);
        let count = be32(content, count_at).ok_or(too_small)?;
        let size = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
        let rows = content.get(count_at.saturating_add(4)..).ok_or(too_small)?;
        let bytes = rows.get(..size.ok_or(too_small)?).ok_or(too_small)?;
        Ok(Table { bytes, width })
    }

    pub(super) fn len(&self) -> u64 {
        (self.bytes.len() / self.width) as u64
    }

    /// Returns the rows in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = TableRow<'a>> + use<'a> {
        self.bytes.chunks_exact(self.width).map(TableRow)
    }

    /// Returns the rows from `first` on, up to but without `last`; fewer where the table ends.
    pub(super) fn part(&self, first: u64, last: u64) -> Table<'a> {
        let at =
            |row: u64| usize::try_from(row.min(self.len())).unwrap_or(0).saturating_mul(self.width);
        Table { bytes: self.bytes.get(at(first)..at(last)).unwrap_or_default(), width: self.width }
    }

    pub(super) fn row(&self, index: u64) -> Option<TableRow<'a>> {
        self.part(index, index.saturating_add(1)).rows().next()
    }

    /// Returns the bytes of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// A row of a table. Columns that it does not have are zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableRow<'a>(&'a [u8]);

impl TableRow<'_> {
    /// Returns the 32-bit number in a column.
    pub(super) fn number(&self, column: usize) -> u32 {
        be32(self.0, column.saturating_mul(4)).unwrap_or(0)
    }

    /// Returns the row as one number of 32 or 64 bits.
    pub(super) fn wide(&self) -> u64 {
        be64(self.0, 0).unwrap_or_else(|| u64::from(self.number(0)))
    }
}

/// Reads the big-endian 32-bit number at an offset.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

/// Reads the big-endian 64-bit number at an offset.
pub(super) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(word.try_into().ok()?))
}
