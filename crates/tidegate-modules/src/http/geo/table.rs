//! Maps addresses to values: sorted starts of spans, with binary search. Spans may be nested.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Addresses of one family as integers.
pub(super) trait Number: Copy + Ord {
    /// Returns the next address; `None` behind the last one.
    fn next(self) -> Option<Self>;
}

impl Number for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Number for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

/// The index of a value in [`Values`].
pub(super) type ValueId = u32;

/// The distinct values of a table, each stored once: country tables have few values and many networks.
#[derive(Default)]
pub(super) struct Values {
    texts: Vec<Box<[u8]>>,
    ids: HashMap<Box<[u8]>, ValueId>,
}

impl Values {
    /// Returns the index of a value; adds it if it is new.
    pub(super) fn id(&mut self, text: &[u8]) -> ValueId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as ValueId;
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    /// Returns the value of an index from [`Values::id`].
    pub(super) fn text(&self, id: ValueId) -> &[u8] {
        self.texts.get(id as usize).map_or(b"", |text| text)
    }
}

/// The first address of each span, with its value.
struct Spans<A>(Box<[(A, Option<ValueId>)]>);

impl<A: Number> Spans<A> {
    /// Builds spans from (first, last, value) in order of their first address, outer ones before inner ones.
    fn new(nested: impl Iterator<Item = (A, A, ValueId)>) -> Spans<A> {
        let mut starts: Vec<(A, Option<ValueId>)> = Vec::new();
        let mut open: Vec<(A, ValueId)> = Vec::new();
        for (first, last, value) in nested {
            close(&mut starts, &mut open, Some(first));
            mark(&mut starts, first, Some(value));
            open.push((last, value));
        }
        close(&mut starts, &mut open, None);
        Spans(starts.into())
    }

    fn find(&self, address: A) -> Option<ValueId> {
        let behind = self.0.partition_point(|(first, _)| *first <= address);
        self.0.get(behind.checked_sub(1)?)?.1
    }
}

/// Ends the open spans that end before `until`; behind each of them the enclosing one continues.
fn close<A: Number>(
    starts: &mut Vec<(A, Option<ValueId>)>,
    open: &mut Vec<(A, ValueId)>,
    until: Option<A>,
) {
    while let Some((last, _)) = open.last().copied()
        && until.is_none_or(|until| last < until)
    {
        open.pop();
        if let Some(behind) = last.next() {
            mark(starts, behind, open.last().map(|(_, value)| *value));
        }
    }
}

fn mark<A: Number>(starts: &mut Vec<(A, Option<ValueId>)>, at: A, value: Option<ValueId>) {
    match starts.last_mut() {
        Some((last, known)) if *last == at => *known = value,
        _ => starts.push((at, value)),
    }
}

/// A table of addresses of both families.
pub(super) struct Table {
    v4: Spans<u32>,
    v6: Spans<u128>,
    values: Values,
    default: Option<ValueId>,
}

/// Networks by first address and prefix length in bits.
#[derive(Default)]
pub(super) struct Networks {
    pub v4: BTreeMap<(u32, u8), ValueId>,
    pub v6: BTreeMap<(u128, u8), ValueId>,
}

/// IPv4 ranges: first to last address, and value. Databases are usually sorted: as long as they are, this is a
/// list.
#[derive(Default)]
pub(super) struct Ranges {
    sorted: Vec<(u32, u32, ValueId)>,
    /// All ranges, as soon as one was out of order.
    tree: BTreeMap<u32, (u32, ValueId)>,
}

impl Ranges {
    /// Adds a range behind all others; returns `false` if it is out of order.
    pub(super) fn append(&mut self, first: u32, last: u32, value: ValueId) -> bool {
        let is_behind = self.sorted.last().is_none_or(|(_, end, _)| *end < first);
        let may = is_behind && self.tree.is_empty();
        if may {
            self.sorted.push((first, last, value));
        }
        may
    }

    /// Returns all ranges by their first address.
    pub(super) fn tree(&mut self) -> &mut BTreeMap<u32, (u32, ValueId)> {
        let sorted = std::mem::take(&mut self.sorted);
        self.tree.extend(sorted.into_iter().map(|(first, last, value)| (first, (last, value))));
        &mut self.tree
    }
}

impl Table {
    /// Builds a table of networks.
    pub(super) fn of_networks(networks: Networks, values: Values) -> Table {
        let v4 = networks.v4.into_iter().map(|((first, bits), value)| {
            (first, first | u32::MAX.checked_shr(bits.into()).unwrap_or(0), value)
        });
        let v6 = networks.v6.into_iter().map(|((first, bits), value)| {
            (first, first | u128::MAX.checked_shr(bits.into()).unwrap_or(0), value)
        });
        Table { v4: Spans::new(v4), v6: Spans::new(v6), values, default: None }
    }

    /// Builds a table of IPv4 ranges that do not overlap, with a value for all other addresses.
    pub(super) fn of_ranges(ranges: Ranges, default: Option<ValueId>, values: Values) -> Table {
        let of_tree = ranges.tree.into_iter().map(|(first, (last, value))| (first, last, value));
        let v4 = Spans::new(ranges.sorted.into_iter().chain(of_tree));
        Table { v4, v6: Spans::new(std::iter::empty()), values, default }
    }

    /// Returns the value of an address; empty if it has none.
    pub(super) fn find(&self, address: IpAddr) -> &[u8] {
        let found = match address.to_canonical() {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.v6.find(address.to_bits()),
        };
        found.or(self.default).map_or(b"", |id| self.values.text(id))
    }
}
