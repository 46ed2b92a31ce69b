//! The locations of one level as a search structure.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ids::LocationId;
use crate::regex::{Regex, RegexList};

/// Locations by name. The names come from the configuration, so the hash need not resist attacks.
pub(crate) type ByName = HashMap<Vec<u8>, LocationId, foldhash::fast::RandomState>;

/// The locations of one level (a server or an outer location).
#[derive(Default)]
pub struct LocationSet {
    pub(crate) exact: ByName,
    /// Sorted by name; each entry has the index of the longest other entry that is its prefix.
    prefixes: Vec<Prefix>,
    pub(crate) regexes: RegexList<LocationId>,
    /// Prefix locations of gateways by name without the final slash, where no other location has that name.
    redirects: ByName,
    /// Lengths of the names in `redirects` modulo 64, one bit each: most paths are excluded by their length.
    redirect_lengths: u64,
}

struct Prefix {
    name: Vec<u8>,
    location: LocationId,
    parent: Option<usize>,
}

impl LocationSet {
    /// Builds the search structure. `redirects` has locations by name without the final slash; clients that request
    /// such a name are redirected, unless a prefix location has that name.
    pub fn new(
        exact: HashMap<Vec<u8>, LocationId>,
        mut prefixes: Vec<(Vec<u8>, LocationId)>,
        regexes: Vec<(Arc<Regex>, LocationId)>,
        mut redirects: HashMap<Vec<u8>, LocationId>,
    ) -> LocationSet {
        for (name, _) in &prefixes {
            redirects.remove(name);
        }
        prefixes.sort_by(|a, b| a.0.cmp(&b.0));
        let mut sorted: Vec<Prefix> = Vec::with_capacity(prefixes.len());
        for (name, location) in prefixes {
            let mut parent = sorted.len().checked_sub(1);
            while let Some(index) = parent
                && !name.starts_with(&sorted[index].name)
            {
                parent = sorted[index].parent;
            }
            sorted.push(Prefix { name, location, parent });
        }
        let lengths = redirects.keys().map(|name| length_bit(name));
        let redirect_lengths = lengths.fold(0, |all, bit| all | bit);
        let exact = exact.into_iter().collect();
        let regexes = regexes.into_iter().collect();
        let redirects = redirects.into_iter().collect();
        LocationSet { exact, prefixes: sorted, regexes, redirects, redirect_lengths }
    }

    /// Returns the longest prefix location of `path`.
    pub(crate) fn longest_prefix(&self, path: &[u8]) -> Option<LocationId> {
        let above = self.prefixes.partition_point(|prefix| prefix.name.as_slice() <= path);
        let mut candidate = above.checked_sub(1);
        while let Some(index) = candidate {
            let prefix = &self.prefixes[index];
            if path.starts_with(&prefix.name) {
                return Some(prefix.location);
            }
            candidate = prefix.parent;
        }
        None
    }

    /// Returns the location whose name is `path` and a slash, if the client is to be redirected there.
    pub(crate) fn redirect(&self, path: &[u8]) -> Option<LocationId> {
        let may_be = self.redirect_lengths & length_bit(path) != 0;
        may_be.then(|| self.redirects.get(path).copied()).flatten()
    }

    /// Returns whether there are no locations.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.regexes.is_empty()
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}
