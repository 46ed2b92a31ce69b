//! Databases in the legacy GeoIP format (`*.dat`): the country, city or organisation of an address.
//!
//! A file is a binary tree. A node is a pair of little-endian numbers: the next node for each value of the
//! address's next bit, or, from a certain number on, a leaf. Records of cities and names of organisations are
//! behind the tree. The last bytes give the kind of database and the number of nodes.

mod names;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};

pub(crate) use names::{Country, country, region_name};

/// A parsed database.
#[derive(Debug)]
pub(crate) struct Database {
    bytes: Vec<u8>,
    /// MaxMind's number of this kind of database.
    pub edition: u8,
    kind: DatabaseKind,
    /// Number of nodes; a number from this on is a leaf.
    nodes: usize,
    /// Bytes of a number in a node.
    width: usize,
    /// Whether addresses have 128 bits; IPv4 addresses are mapped ones.
    is_v6: bool,
}

/// The contents of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Country,
    Name,
    City,
}

/// The record of a city. Texts are in ISO 8859-1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct City<'a> {
    pub country: u8,
    pub region: &'a [u8],
    pub name: &'a [u8],
    pub postal_code: &'a [u8],
    /// Degrees times 10000.
    pub latitude: i32,
    pub longitude: i32,
    pub dma_code: u32,
    pub area_code: u32,
}

/// The first leaf number of country databases.
const COUNTRY_LEAVES: usize = 0xff_ff00;
/// Number of offsets from the end at which a database's description is searched.
const DESCRIPTION_PLACES: usize = 20;
/// Bytes of the longest text of a record.
const TEXT_BYTES_MAX: usize = 300;
/// The only country with area codes: the United States.
const AREAS_COUNTRY: u8 = 225;

impl Database {
    /// Parses a database; `None` if it is invalid, or of a kind without locations.
    pub(crate) fn parse(bytes: Vec<u8>) -> Option<Database> {
        let mut edition = 1;
        let mut behind: &[u8] = &[];
        for back in 0..DESCRIPTION_PLACES {
            let Some(start) = bytes.len().checked_sub(3 + back) else { break };
            if bytes[start..start + 3] == [0xff; 3] {
                behind = &bytes[start + 3..];
                edition = *behind.first()?;
                // Old files have an offset in this number.
                edition = edition.checked_sub(105).unwrap_or(edition);
                break;
            }
        }
        let (kind, width, is_v6) = match edition {
            1 | 8 | 10 => (DatabaseKind::Country, 3, false),
            12 => (DatabaseKind::Country, 3, true),
            2 | 6 => (DatabaseKind::City, 3, false),
            30 | 31 => (DatabaseKind::City, 3, true),
            4 | 5 | 11 => (DatabaseKind::Name, 4, false),
            9 => (DatabaseKind::Name, 3, false),
            22..=24 => (DatabaseKind::Name, 4, true),
            21 => (DatabaseKind::Name, 3, true),
            _ => return None,
        };
        let nodes = match (kind, behind.get(1..4)) {
            (DatabaseKind::Country, _) => COUNTRY_LEAVES,
            (_, Some(number)) => little_endian(number),
            _ => return None,
        };
        let found = Database { bytes, edition, kind, nodes, width, is_v6 };
        found.is_sound().then_some(found)
    }

    pub(crate) fn kind(&self) -> DatabaseKind {
        self.kind
    }

    /// Checks that a few addresses of each large network lead to valid leaves; in a file of another format they do
    /// not.
    fn is_sound(&self) -> bool {
        (0..=255).all(|first| match self.leaf(IpAddr::V4(Ipv4Addr::new(first, 1, 2, 3))) {
            None => false,
            Some(leaf) if self.kind == DatabaseKind::Country => leaf - self.nodes <= 255,
            Some(leaf) => leaf == self.nodes || self.place(leaf) < self.bytes.len(),
        })
    }

    /// Returns the country number of an address; `None` if it is unknown. For country databases only.
    pub(crate) fn country(&self, address: IpAddr) -> Option<u8> {
        let leaf = self.leaf(address).filter(|_| self.kind == DatabaseKind::Country)?;
        u8::try_from(leaf - self.nodes).ok().filter(|number| *number > 0)
    }

    /// Returns the name of an address, in ISO 8859-1. For name databases only.
    pub(crate) fn name(&self, address: IpAddr) -> Option<&[u8]> {
        let record = self.record(address).filter(|_| self.kind == DatabaseKind::Name)?;
        Some(text(record)?.0)
    }

    /// Returns the city record of an address. For city databases only.
    pub(crate) fn city(&self, address: IpAddr) -> Option<City<'_>> {
        let record = self.record(address).filter(|_| self.kind == DatabaseKind::City)?;
        let (country, rest) = record.split_first()?;
        let (region, rest) = text(rest)?;
        let (name, rest) = text(rest)?;
        let (postal_code, rest) = text(rest)?;
        let degrees = |number: &[u8]| little_endian(number) as i32 - 180 * 10_000;
        let (latitude, longitude) = (degrees(rest.get(..3)?), degrees(rest.get(3..6)?));
        let has_areas = matches!(self.edition, 2 | 30) && *country == AREAS_COUNTRY;
        let areas = rest.get(6..9).filter(|_| has_areas).map_or(0, little_endian) as u32;
        Some(City {
            country: *country,
            region,
            name,
            postal_code,
            latitude,
            longitude,
            dma_code: areas / 1000,
            area_code: areas % 1000,
        })
    }

    fn record(&self, address: IpAddr) -> Option<&[u8]> {
        let leaf = self.leaf(address).filter(|leaf| *leaf > self.nodes)?;
        self.bytes.get(self.place(leaf)..)
    }

    /// Returns the offset of a leaf's record: leaves count from the number of nodes on, records from the end of the
    /// tree.
    fn place(&self, leaf: usize) -> usize {
        leaf + (2 * self.width - 1) * self.nodes
    }

    /// Returns the leaf of an address, at least `nodes`. An IPv6 address in an IPv4 database counts as
    /// 255.255.255.255, as in nginx.
    fn leaf(&self, address: IpAddr) -> Option<usize> {
        let (bits, count) = match (self.is_v6, address.to_canonical()) {
            (false, IpAddr::V4(address)) => (u128::from(address.to_bits()), 32),
            (false, IpAddr::V6(_)) => (u128::from(u32::MAX), 32),
            (true, IpAddr::V4(address)) => (address.to_ipv6_mapped().to_bits(), 128),
            (true, IpAddr::V6(address)) => (address.to_bits(), 128),
        };
        let mut node = 0;
        for bit in (0..count).rev() {
            let right = (bits >> bit & 1) as usize;
            let start = (2 * node + right) * self.width;
            let number = little_endian(self.bytes.get(start..start + self.width)?);
            if number >= self.nodes {
                return Some(number);
            }
            node = number;
        }
        None
    }
}

fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// Splits off a text that ends with a zero byte.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(TEXT_BYTES_MAX).position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Runs the parser on arbitrary bytes, for fuzzing: lookups must end and stay inside of the file.
#[doc(hidden)]
pub fn fuzz_geoip(data: &[u8]) {
    let Some(database) = Database::parse(data.to_vec()) else { return };
    for address in ["0.0.0.0", "192.0.2.1", "255.255.255.255", "::", "2001:db8::1"] {
        let Ok(address) = address.parse() else { continue };
        let _ = (database.country(address), database.name(address), database.city(address));
    }
}
