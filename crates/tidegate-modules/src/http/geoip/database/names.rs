//! Names of countries and regions by the numbers and codes in databases.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A country.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Country {
    /// Code of two letters (ISO 3166-1).
    pub code: &'static str,
    /// Code of three letters (ISO 3166-1).
    pub code3: &'static str,
    /// Code of two letters.
    pub continent: &'static str,
    pub name: &'static str,
}

/// Code, code of three letters, continent and name, in the order of the databases' numbers.
const COUNTRIES: &str = include_str!("countries.tsv");
/// Country, code (FIPS 10-4; ISO 3166-2 in the United States and Canada) and name.
const REGIONS: &str = include_str!("regions.tsv");

static BY_NUMBER: LazyLock<Vec<Country>> = LazyLock::new(|| {
    let read = |line: &'static str| {
        let mut parts = line.split('\t');
        let (code, code3) = (parts.next()?, parts.next()?);
        Some(Country { code, code3, continent: parts.next()?, name: parts.next()? })
    };
    COUNTRIES.lines().filter_map(read).collect()
});

static BY_CODES: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
    let read = |line: &'static str| {
        let mut parts = line.split('\t');
        Some(((parts.next()?, parts.next()?), parts.next()?))
    };
    REGIONS.lines().filter_map(read).collect()
});

/// Returns the country with a number; `None` for 0 and for unassigned numbers.
pub(crate) fn country(number: u8) -> Option<Country> {
    BY_NUMBER.get(usize::from(number)).copied().filter(|_| number > 0)
}

/// Returns the name of a region of a country.
pub(crate) fn region_name(country: &str, region: &str) -> Option<&'static str> {
    BY_CODES.get(&(country, region)).copied()
}
