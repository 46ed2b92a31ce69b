//! Names of the countries and regions that databases give numbers and codes of.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A country.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Country {
    /// Two letters (ISO 3166-1).
    pub code: &'static str,
    /// Three letters.
    pub code3: &'static str,
    /// Two letters.
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

/// The country with a number; `None` for 0 and for numbers that nobody has.
pub(crate) fn country(number: u8) -> Option<Country> {
    BY_NUMBER.get(usize::from(number)).copied().filter(|_| number > 0)
}

/// The name of a country's region.
pub(crate) fn region_name(country: &str, region: &str) -> Option<&'static str> {
    BY_CODES.get(&(country, region)).copied()
}
