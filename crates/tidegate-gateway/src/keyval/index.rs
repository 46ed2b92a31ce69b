//! How the records of a zone are found: by the text of their keys, by networks, or by prefixes (`type` of `keyval_zone`).

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use foldhash::quality::RandomState;
use tidegate_conf::network::Network;

/// `type` of `keyval_zone`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Matching {
    /// The keys are equal.
    #[default]
    Text,
    /// The record's key is an address or a network that contains the one searched for.
    Network,
    /// The record's key is a prefix of the one searched for.
    Prefix,
}

/// The places of records by key.
pub(super) enum Index {
    Texts(HashMap<Arc<str>, u32, RandomState>),
    Networks(Box<Networks>),
    Prefixes(BTreeMap<Arc<str>, u32>),
}

/// A key that is neither an address nor a network.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidKey;

impl Index {
    pub(super) fn new(matching: Matching) -> Index {
        match matching {
            Matching::Text => Index::Texts(HashMap::default()),
            Matching::Network => Index::Networks(Box::default()),
            Matching::Prefix => Index::Prefixes(BTreeMap::new()),
        }
    }

    pub(super) fn matching(&self) -> Matching {
        match self {
            Index::Texts(_) => Matching::Text,
            Index::Networks(_) => Matching::Network,
            Index::Prefixes(_) => Matching::Prefix,
        }
    }

    /// Returns the record of this very key.
    ///
    /// # Errors
    /// The key cannot be that of a record.
    pub(super) fn place(&self, key: &str) -> Result<Option<u32>, InvalidKey> {
        Ok(match self {
            Index::Texts(places) => places.get(key).copied(),
            Index::Networks(networks) => networks.places.get(&network(key)?).copied(),
            Index::Prefixes(places) => places.get(key).copied(),
        })
    }

    /// Adds a key that has no record.
    pub(super) fn insert(&mut self, key: &Arc<str>, place: u32) {
        match self {
            Index::Texts(places) => drop(places.insert(key.clone(), place)),
            Index::Networks(networks) => {
                if let Ok(network) = network(key) {
                    networks.insert(network, place);
                }
            }
            Index::Prefixes(places) => drop(places.insert(key.clone(), place)),
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        match self {
            Index::Texts(places) => drop(places.remove(key)),
            Index::Networks(networks) => {
                if let Ok(network) = network(key) {
                    networks.remove(network);
                }
            }
            Index::Prefixes(places) => drop(places.remove(key)),
        }
    }

    /// Returns what `live` makes of the record that matches best: the smallest network, or the longest prefix. `live`
    /// returns nothing for a record that has expired.
    pub(super) fn find<R>(&self, key: &[u8], live: impl Fn(u32) -> Option<R>) -> Option<R> {
        match self {
            Index::Texts(places) => live(*places.get(std::str::from_utf8(key).ok()?)?),
            Index::Networks(networks) => {
                networks.find(network(std::str::from_utf8(key).ok()?).ok()?, live)
            }
            // Keys are UTF-8, so that none reaches into what is not.
            Index::Prefixes(places) => longest(places, valid_start(key), live),
        }
    }
}

/// Networks, with the number of them by bits, so that a search looks only for lengths that there are.
pub(super) struct Networks {
    places: HashMap<Network, u32, RandomState>,
    v4: [u32; 33],
    v6: [u32; 129],
}

impl Default for Networks {
    fn default() -> Networks {
        Networks { places: HashMap::default(), v4: [0; 33], v6: [0; 129] }
    }
}

impl Networks {
    fn lengths(&mut self, network: Network) -> Option<&mut u32> {
        let bits = usize::from(network.bits());
        match network.address().is_ipv4() {
            true => self.v4.get_mut(bits),
            false => self.v6.get_mut(bits),
        }
    }

    fn insert(&mut self, network: Network, place: u32) {
        if self.places.insert(network, place).is_none()
            && let Some(count) = self.lengths(network)
        {
            *count += 1;
        }
    }

    fn remove(&mut self, network: Network) {
        if self.places.remove(&network).is_some()
            && let Some(count) = self.lengths(network)
        {
            *count -= 1;
        }
    }

    fn find<R>(&self, network: Network, live: impl Fn(u32) -> Option<R>) -> Option<R> {
        let lengths: &[u32] = if network.address().is_ipv4() { &self.v4 } else { &self.v6 };
        (0..=network.bits())
            .rev()
            .filter(|bits| lengths[usize::from(*bits)] > 0)
            .find_map(|bits| self.places.get(&network.widened(bits)).and_then(|place| live(*place)))
    }
}

/// Reads an address or a network; an IPv4-mapped IPv6 address is its IPv4 address.
fn network(key: &str) -> Result<Network, InvalidKey> {
    let (network, _) = Network::parse(key).ok_or(InvalidKey)?;
    let canonical = network.address().to_canonical();
    match network.bits() == 128 && canonical.is_ipv4() {
        true => Ok(Network::single(canonical)),
        false => Ok(network),
    }
}

/// Finds the longest key that is a prefix of `text`.
///
/// Invariant: the greatest key that is not above the text shares all of the wanted prefix with it, so that the search
/// goes on with what the two share. It gets shorter with each step.
fn longest<R>(
    places: &BTreeMap<Arc<str>, u32>,
    text: &str,
    live: impl Fn(u32) -> Option<R>,
) -> Option<R> {
    let mut text = text;
    loop {
        let upwards = (Bound::Unbounded, Bound::Included(text));
        let (key, place) = places.range::<str, _>(upwards).next_back()?;
        let shared = match text.starts_with(&**key) {
            true => match live(*place) {
                Some(found) => return Some(found),
                None => key.len().checked_sub(1)?,
            },
            false => key.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count(),
        };
        text = &text[..floor_boundary(text, shared)];
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the part of a text before its first byte that is not UTF-8.
fn valid_start(text: &[u8]) -> &str {
    match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
    }
}
