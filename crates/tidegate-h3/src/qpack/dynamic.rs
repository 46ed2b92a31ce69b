//! The dynamic table with absolute indices: the first entry ever inserted is 0 (RFC 9204 section 3.2.4).

use tidegate_codec::Known;
use tidegate_fields::ENTRY_OVERHEAD_BYTES;
use tidegate_fields::table::{self, Field, NameSource, Table};

/// A table, and the number of entries ever inserted into it.
#[derive(Debug)]
pub(crate) struct DynamicTable {
    table: Table,
    inserted: u64,
}

/// The entry that a search found, by its absolute index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Name and value.
    Field(u64),
    /// The name alone.
    Name(u64),
}

impl DynamicTable {
    /// A table of capacity 0, as each connection begins (section 3.2.3).
    pub(crate) fn new() -> DynamicTable {
        DynamicTable { table: Table::new(0), inserted: 0 }
    }

    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Bytes that the entries may count.
    pub(crate) fn capacity(&self) -> usize {
        self.table.size_max()
    }

    pub(crate) fn set_capacity(&mut self, bytes: usize) {
        self.table.set_size_max(bytes);
    }

    /// The absolute index of the oldest entry; that of the next one if the table is empty.
    pub(crate) fn oldest(&self) -> u64 {
        self.inserted - self.table.len() as u64
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.table.size()
    }

    /// Returns an entry that was inserted and not evicted.
    #[inline]
    pub(crate) fn entry(&self, absolute: u64) -> Option<Field<'_>> {
        self.table.entry(self.place(absolute)?)
    }

    pub(crate) fn find(&self, known: Known, name: &[u8], value: &[u8]) -> Option<Found> {
        let absolute = |place: usize| self.inserted - 1 - place as u64;
        Some(match self.table.find(known, name, value)? {
            table::Found::Field(place) => Found::Field(absolute(place)),
            table::Found::Name(place) => Found::Name(absolute(place)),
        })
    }

    /// Adds an entry, whose name may be that of an entry. `None` where it is larger than the table.
    pub(crate) fn insert(&mut self, known: Known, name: Name<'_>, value: &[u8]) -> Option<()> {
        let (source, name_len) = match name {
            Name::Text(name) => (NameSource::Text(name), name.len()),
            Name::Static(name) => (NameSource::Static(name), name.len()),
            Name::Entry(absolute) => {
                let place = self.place(absolute)?;
                (NameSource::Entry(place), self.table.entry(place)?.name.len())
            }
        };
        if entry_size(name_len, value.len()) > self.capacity() {
            return None;
        }
        self.table.insert(known, source, value);
        self.inserted += 1;
        Some(())
    }

    /// Adds a copy of an entry. `None` where there is none.
    pub(crate) fn duplicate(&mut self, absolute: u64) -> Option<()> {
        self.table.duplicate(self.place(absolute)?);
        self.inserted += 1;
        Some(())
    }

    /// Whether an entry of `size` bytes fits if only entries before `limit` are evicted.
    pub(crate) fn has_room(&self, size: usize, limit: u64) -> bool {
        let mut free = self.capacity().saturating_sub(self.table.size());
        let mut absolute = self.oldest();
        while free < size && absolute < limit {
            free += self.place(absolute).map_or(0, |place| self.table.size_of(place));
            absolute += 1;
        }
        free >= size
    }

    /// Bytes allocated.
    pub(crate) fn memory(&self) -> usize {
        self.table.capacity()
    }

    pub(crate) fn shrink(&mut self) {
        self.table.shrink();
    }

    /// The place in the table, 0 the newest. One that was evicted is beyond the table's end.
    fn place(&self, absolute: u64) -> Option<usize> {
        let place = self.inserted.checked_sub(1)?.checked_sub(absolute)?;
        usize::try_from(place).ok().filter(|place| *place < self.table.len())
    }
}

/// The origin of a new entry's name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'a> {
    Text(&'a [u8]),
    Static(&'a [u8]),
    /// An entry by its absolute index.
    Entry(u64),
}

/// The bytes that an entry counts (section 3.2.1).
pub(crate) fn entry_size(name_len: usize, value_len: usize) -> usize {
    name_len.saturating_add(value_len).saturating_add(ENTRY_OVERHEAD_BYTES)
}
