//! The dynamic table (RFC 7541 section 2.3.2, RFC 9204 section 3.2): the newest entry has the lowest index, the oldest
//! is evicted first.
//!
//! Names and values lie behind each other in one text. Eviction moves only the begin of what is used; the text is
//! moved to the front once half of it is unused, so that an insertion costs its own bytes, and memory is bounded by
//! about twice the table's size.

use std::collections::VecDeque;

use tidegate_codec::Known;

use crate::field::ENTRY_OVERHEAD_BYTES;

/// Where one entry's name and value are.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Offset of the name; the value is behind it.
    start: u32,
    name_len: u32,
    value_len: u32,
    known: Known,
    is_static: bool,
}

impl Entry {
    fn size(&self) -> usize {
        self.name_len as usize + self.value_len as usize + ENTRY_OVERHEAD_BYTES
    }
}

/// A dynamic table.
#[derive(Clone, Debug)]
pub struct Table {
    text: Vec<u8>,
    /// The newest in front.
    entries: VecDeque<Entry>,
    /// Bytes by RFC 7541 section 4.1.
    size: usize,
    size_max: usize,
}

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name's id.
    pub known: Known,
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The name is of the static table.
    pub is_static: bool,
}

/// Where the name of a new entry is from.
#[derive(Clone, Copy, Debug)]
pub enum NameSource<'a> {
    /// These bytes, which become lower case.
    Text(&'a [u8]),
    /// The static table.
    Static(&'a [u8]),
    /// The entry with this index, 0 the newest.
    Entry(usize),
}

impl Table {
    /// A table without entries, whose entries may count `size_max` bytes.
    pub fn new(size_max: usize) -> Table {
        Table { text: Vec::new(), entries: VecDeque::new(), size: 0, size_max }
    }

    /// Bytes that the entries may count.
    pub fn size_max(&self) -> usize {
        self.size_max
    }

    /// Bytes that the entries count (RFC 7541 section 4.1).
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Returns an entry by its index, 0 the newest.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<Field<'_>> {
        let entry = self.entries.get(index)?;
        let Entry { known, is_static, .. } = *entry;
        Some(Field { known, name: self.name_of(entry), value: self.value_of(entry), is_static })
    }

    /// Returns the index of an entry with this field, or else of one with this name.
    pub fn find(&self, known: Known, name: &[u8], value: &[u8]) -> Option<Found> {
        let mut named = None;
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.known != known
                || (known == Known::Other && !self.name_of(entry).eq_ignore_ascii_case(name))
            {
                continue;
            }
            if self.value_of(entry) == value {
                return Some(Found::Field(index));
            }
            named = named.or(Some(Found::Name(index)));
        }
        named
    }

    /// Adds an entry in front and evicts what no longer fits (RFC 7541 section 4.4). One that does not fit by itself
    /// empties the table.
    pub fn insert(&mut self, known: Known, name: NameSource<'_>, value: &[u8]) {
        let start = self.text.len();
        let mut is_static = false;
        match name {
            NameSource::Static(name) => {
                self.text.extend_from_slice(name);
                is_static = true;
            }
            NameSource::Text(name) => {
                self.text.extend_from_slice(name);
                self.text[start..].make_ascii_lowercase();
            }
            NameSource::Entry(index) => {
                if let Some(entry) = self.entries.get(index) {
                    let from = entry.start as usize;
                    is_static = entry.is_static;
                    // The name is copied before its entry may be evicted.
                    self.text.extend_from_within(from..from + entry.name_len as usize);
                }
            }
        }
        let name_len = self.text.len() - start;
        let size = name_len + value.len() + ENTRY_OVERHEAD_BYTES;
        if size > self.size_max {
            return self.clear();
        }
        self.text.extend_from_slice(value);
        self.evict_to(self.size_max - size);
        self.size += size;
        self.entries.push_front(Entry {
            start: start as u32,
            name_len: name_len as u32,
            value_len: value.len() as u32,
            known,
            is_static,
        });
        self.compact();
    }

    /// Adds a copy of an entry in front, as [`Table::insert`] does.
    pub fn duplicate(&mut self, index: usize) {
        let Some(Entry { start, name_len, value_len, known, .. }) =
            self.entries.get(index).copied()
        else {
            return;
        };
        let value = start as usize + name_len as usize;
        let value = self.text.get(value..value + value_len as usize).unwrap_or(&[]).to_vec();
        self.insert(known, NameSource::Entry(index), &value);
    }

    /// Returns the bytes that an entry counts; 0 where there is none.
    pub fn size_of(&self, index: usize) -> usize {
        self.entries.get(index).map_or(0, Entry::size)
    }

    /// Changes the size and evicts what no longer fits (RFC 7541 section 4.3).
    pub fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict_to(size_max);
        self.compact();
    }

    /// Gives memory back that no entry needs.
    pub fn shrink(&mut self) {
        self.move_to_front();
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.size = 0;
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size {
            let Some(evicted) = self.entries.pop_back() else { return };
            self.size -= evicted.size();
        }
    }

    fn unused(&self) -> usize {
        self.entries.back().map_or(self.text.len(), |oldest| oldest.start as usize)
    }

    fn compact(&mut self) {
        let unused = self.unused();
        if unused > 0 && unused >= self.text.len() - unused {
            self.move_to_front();
        }
    }

    fn move_to_front(&mut self) {
        let unused = self.unused();
        self.text.drain(..unused);
        for entry in &mut self.entries {
            entry.start -= unused as u32;
        }
    }

    fn name_of(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        self.text.get(start..start + entry.name_len as usize).unwrap_or(&[])
    }

    fn value_of(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize + entry.name_len as usize;
        self.text.get(start..start + entry.value_len as usize).unwrap_or(&[])
    }
}

/// What a search in the table found, with the index of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Name and value.
    Field(usize),
    /// The name alone.
    Name(usize),
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tidegate_codec::Known;

    use super::{NameSource, Table};

    /// Entries of a table, the newest first.
    fn entries(table: &Table) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (0..table.len())
            .filter_map(|index| table.entry(index))
            .map(|field| (text(field.name), text(field.value)))
            .collect()
    }

    proptest! {
        #[test]
        fn a_table_is_a_queue_with_a_size(
            steps in vec(("[a-z]{1,20}", "[a-z]{0,60}", 0usize..400), 1..60)
        ) {
            let mut table = Table::new(400);
            let mut model: Vec<(String, String)> = Vec::new();
            let size = |model: &[(String, String)]| -> usize {
                model.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
            };
            for (name, value, size_max) in steps {
                if size_max % 7 == 0 {
                    table.set_size_max(size_max);
                }
                let known = Known::of(name.as_bytes());
                table.insert(known, NameSource::Text(name.as_bytes()), value.as_bytes());
                model.insert(0, (name, value));
                while size(&model) > table.size_max() {
                    model.pop();
                }
                prop_assert_eq!(entries(&table), model.clone());
                prop_assert_eq!(table.size(), size(&model));
                prop_assert!(table.capacity() < 4096);
            }
        }
    }
}
