//! Values by host name: exact names, then the longest leading wildcard, then the longest trailing one, as for
//! `server_name`, `map` with `hostnames` and `valid_referers`.

#[cfg(test)]
mod tests;

use crate::name_table::NameTable;

/// A table of names in lower case.
#[derive(Clone, Debug)]
pub struct HostNames<V> {
    exact: NameTable<V>,
    /// `*.example.com` without `*.`.
    suffixes: NameTable<V>,
    /// `www.example.*` without `.*`.
    prefixes: NameTable<V>,
}

/// Why a name was not added.
#[derive(Debug, PartialEq, Eq)]
pub enum AddNameError<'t, V> {
    /// A wildcard is where none may be.
    Invalid,
    /// The name is in the table already, with this value.
    Known(&'t V),
}

impl<V> Default for HostNames<V> {
    fn default() -> HostNames<V> {
        HostNames {
            exact: NameTable::default(),
            suffixes: NameTable::default(),
            prefixes: NameTable::default(),
        }
    }
}

impl<V: Clone + PartialEq> HostNames<V> {
    /// Adds a name in lower case: `example.com`, `*.example.com`, `.example.com` (the name and all below
    /// it), `www.example.*`.
    ///
    /// # Errors
    /// For bad wildcards and for names that are in the table; the earlier value stays. Of `.example.com` both parts are
    /// added or, where one of them has another value, neither is.
    pub fn add(&mut self, name: &[u8], value: V) -> Result<(), AddNameError<'_, V>> {
        let is_plain = |name: &[u8]| !name.is_empty() && !name.contains(&b'*');
        match name {
            [b'*', b'.', suffix @ ..] if is_plain(suffix) => put(&mut self.suffixes, suffix, value),
            [b'.', suffix @ ..] if is_plain(suffix) => self.add_both(suffix, value),
            [prefix @ .., b'.', b'*'] if is_plain(prefix) => put(&mut self.prefixes, prefix, value),
            name if name.contains(&b'*') => Err(AddNameError::Invalid),
            name => self.add_exact(name, value),
        }
    }

    /// Adds a name and all names below it.
    fn add_both(&mut self, name: &[u8], value: V) -> Result<(), AddNameError<'_, V>> {
        let other = |names: &NameTable<V>| names.get(name).is_some_and(|known| *known != value);
        match (other(&self.exact), other(&self.suffixes)) {
            (true, _) => put(&mut self.exact, name, value),
            (false, true) => put(&mut self.suffixes, name, value),
            (false, false) => {
                let below = put(&mut self.suffixes, name, value.clone());
                let own = put(&mut self.exact, name, value);
                below.and(own)
            }
        }
    }

    /// Adds a name without wildcard.
    ///
    /// # Errors
    /// When the name is in the table already.
    pub fn add_exact(&mut self, name: &[u8], value: V) -> Result<(), AddNameError<'_, V>> {
        put(&mut self.exact, name, value)
    }

    /// Returns the value for a host in lower case.
    pub fn find(&self, host: &[u8]) -> Option<&V> {
        if let Some(value) = self.exact.get(host) {
            return Some(value);
        }
        if host.is_empty() || self.suffixes.is_empty() && self.prefixes.is_empty() {
            return None;
        }
        let dots = || host.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let leading = dots().find_map(|dot| self.suffixes.get(&host[dot + 1..]));
        leading.or_else(|| dots().filter_map(|dot| self.prefixes.get(&host[..dot])).next_back())
    }
}

fn put<'t, V>(
    names: &'t mut NameTable<V>,
    name: &[u8],
    value: V,
) -> Result<(), AddNameError<'t, V>> {
    names.add(name, value).map_err(AddNameError::Known)
}
