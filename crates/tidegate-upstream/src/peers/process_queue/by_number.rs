//! Values by a number. New numbers are nearly always the largest, and the smallest leave first.

use std::collections::VecDeque;

/// Values in the order of their numbers. Adding one at the end and taking the first one take a constant time; a value in
/// the middle is found in logarithmic time, and those behind it move up.
#[derive(Debug)]
pub(super) struct ByNumber<T>(VecDeque<(u64, T)>);

impl<T> ByNumber<T> {
    pub(super) const fn new() -> ByNumber<T> {
        ByNumber(VecDeque::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a value, in place of another one with this number.
    pub(super) fn insert(&mut self, number: u64, value: T) {
        if self.0.back().is_none_or(|(last, _)| *last < number) {
            return self.0.push_back((number, value));
        }
        match self.place(number) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (number, value)),
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number).ok()?;
        self.0.remove(place).map(|(_, value)| value)
    }

    /// Returns the smallest number.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.front().map(|(number, _)| *number)
    }

    /// Takes out the value with the smallest number.
    pub(super) fn pop_first(&mut self) -> Option<(u64, T)> {
        self.0.pop_front()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.0.iter_mut().map(|(number, value)| (*number, value))
    }

    /// Takes out all values.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.0.drain(..).map(|(_, value)| value)
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(other, _)| *other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_map(changes in prop::collection::vec((0..3_u8, 0..24_u64), 0..80)) {
            let (mut ours, mut model) = (ByNumber::new(), BTreeMap::new());
            for (at, (change, number)) in changes.into_iter().enumerate() {
                match change {
                    0 => {
                        ours.insert(number, at);
                        model.insert(number, at);
                    }
                    1 => prop_assert_eq!(ours.remove(number), model.remove(&number)),
                    _ => prop_assert_eq!(ours.pop_first(), model.pop_first()),
                }
                prop_assert_eq!(ours.first(), model.keys().next().copied());
                prop_assert_eq!(ours.len(), model.len());
                let all: Vec<_> = ours.iter_mut().map(|(number, value)| (number, *value)).collect();
                prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            }
            prop_assert_eq!(ours.drain().collect::<Vec<_>>(), model.into_values().collect::<Vec<_>>());
        }
    }
}
