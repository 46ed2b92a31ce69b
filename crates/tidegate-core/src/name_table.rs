//! Values by name, for tables of a million names: names stand in one buffer, and a name costs its bytes, its value and
//! about twenty bytes more.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A table of names. The names come from the configuration, so the hash need not resist attacks.
#[derive(Clone, Debug)]
pub(crate) struct NameTable<V> {
    /// All names, one behind the other.
    text: Vec<u8>,
    /// The ends of the names in `text`, and their values.
    entries: Vec<(usize, V)>,
    /// Places in `entries` by the hash of their names.
    places: HashTable<usize>,
    hasher: RandomState,
    /// The bytes of the longest name: no longer one is searched for, so that it costs nothing.
    longest: usize,
}

impl<V> Default for NameTable<V> {
    fn default() -> NameTable<V> {
        NameTable {
            text: Vec::new(),
            entries: Vec::new(),
            places: HashTable::new(),
            hasher: RandomState::default(),
            longest: 0,
        }
    }
}

impl<V> NameTable<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&V> {
        // Most tables of wildcards are empty, and clients send names of any length.
        if self.is_empty() || name.len() > self.longest {
            return None;
        }
        let place = self.place(self.hasher.hash_one(name), name)?;
        self.entries.get(place).map(|(_, value)| value)
    }

    /// Adds a name.
    ///
    /// # Errors
    /// The value that it has already.
    pub(crate) fn add(&mut self, name: &[u8], value: V) -> Result<(), &V> {
        let hash = self.hasher.hash_one(name);
        if let Some(place) = self.place(hash, name) {
            return Err(&self.entries[place].1);
        }
        self.longest = self.longest.max(name.len());
        self.text.extend_from_slice(name);
        let place = self.entries.len();
        self.entries.push((self.text.len(), value));
        let NameTable { text, entries, places, hasher, .. } = self;
        places.insert_unique(hash, place, |place| hasher.hash_one(name_at(text, entries, *place)));
        Ok(())
    }

    fn place(&self, hash: u64, name: &[u8]) -> Option<usize> {
        let is_it = |place: &usize| name_at(&self.text, &self.entries, *place) == name;
        self.places.find(hash, is_it).copied()
    }
}

fn name_at<'t, V>(text: &'t [u8], entries: &[(usize, V)], place: usize) -> &'t [u8] {
    let end = |place: usize| entries.get(place).map_or(0, |(end, _)| *end);
    let begin = place.checked_sub(1).map_or(0, end);
    text.get(begin..end(place)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_whose_first_value_stays(names in prop::collection::vec("[ab]{0,4}", 0..60)) {
            let (mut table, mut expected) = (NameTable::default(), HashMap::new());
            prop_assert!(table.is_empty() && table.get(b"").is_none());
            for (value, name) in names.iter().enumerate() {
                let known = expected.get(name).copied();
                prop_assert_eq!(table.add(name.as_bytes(), value).err().copied(), known);
                expected.entry(name.clone()).or_insert(value);
            }
            for name in names.iter().map(String::as_str).chain(["abab", "", "x"]) {
                prop_assert_eq!(table.get(name.as_bytes()), expected.get(name));
            }
        }
    }
}
