//! A MaxMind DB file, and values of it as text.

use std::fmt;
use std::net::IpAddr;

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A parsed file.
pub(crate) struct Database(Reader<Vec<u8>>);

/// The keys that lead to a value: names of maps, numbers in lists.
#[derive(Clone, Debug)]
pub(crate) struct DatabasePath(Vec<String>);

impl DatabasePath {
    pub(super) fn new(keys: impl Iterator<Item = String>) -> DatabasePath {
        DatabasePath(keys.collect())
    }

    /// Returns the elements; numbers count from the first element of a list, negative ones from the last.
    fn elements(&self, numbers: bool) -> Vec<PathElement<'_>> {
        let elements = self.0.iter().map(|key| match key.parse::<isize>() {
            Ok(number) if numbers => PathElement::from(number),
            _ => PathElement::Key(key),
        });
        elements.collect()
    }
}

impl Database {
    /// Parses a file.
    ///
    /// # Errors
    /// The reason, for messages.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Database, String> {
        Reader::from_source(bytes).map(Database).map_err(|error| error.to_string())
    }

    /// Returns the Unix time at which the file was made.
    pub(super) fn build_epoch(&self) -> u64 {
        self.0.metadata().build_epoch
    }

    /// Returns a value of an address as text; `None` where there is none, or it is a map or a list.
    pub(crate) fn value(&self, address: IpAddr, path: &DatabasePath) -> Option<Vec<u8>> {
        let record = self.0.lookup(address.to_canonical()).ok()?;
        // A number may also be the name of an entry.
        let value = match record.decode_path::<Text>(&path.elements(true)) {
            Ok(value) => value?,
            Err(_) => record.decode_path::<Text>(&path.elements(false)).ok()??,
        };
        value.0
    }
}

/// A value as text.
struct Text(Option<Vec<u8>>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl Text {
    fn of<E>(value: impl ToString) -> Result<Text, E> {
        Ok(Text(Some(value.to_string().into_bytes())))
    }
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of a MaxMind DB file")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Text::of(text)
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
        Ok(Text(Some(bytes.to_vec())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Text, E> {
        Text::of(u8::from(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Text::of(number)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Text::of(number)
    }

    fn visit_u128<E>(self, number: u128) -> Result<Text, E> {
        Text::of(format_args!("0x{number:032x}"))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
        Text::of(format_args!("{number:.5}"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }
}

/// Runs the parser on arbitrary bytes, for fuzzing: lookups must end and stay inside of the file.
#[doc(hidden)]
pub fn fuzz_geoip2(data: &[u8]) {
    let Ok(database) = Database::parse(data.to_vec()) else { return };
    let paths = ["country iso_code", "subdivisions 0 names en", "n -1", ""];
    for address in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "2001:db8::1"] {
        let Ok(address) = address.parse() else { continue };
        for path in paths {
            let keys = path.split_whitespace().map(str::to_owned);
            let _ = database.value(address, &DatabasePath::new(keys));
        }
    }
}
