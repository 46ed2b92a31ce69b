//! Keys with values in an engine's JSON, read one after the other where they lie in the response: there may be tens of
//! thousands, which as trees of values would take most of the time of a change.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// One entry of a list.
#[derive(Debug, Default)]
pub(super) struct Pair<'a> {
    pub(super) key: Field<'a>,
    pub(super) value: Field<'a>,
}

/// A field that should be a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// It is missing, or `null`.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    /// It is something else.
    Other,
}

impl Field<'_> {
    /// Returns its text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Field::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads a list of entries, and gives each to a function, which may refuse it: then reading ends with the function's
/// reason in `refused`. `null` is an empty list.
pub(super) struct Pairs<'f, F> {
    /// The names of an entry's key and of its value.
    pub(super) names: [&'static str; 2],
    pub(super) each: F,
    pub(super) refused: &'f mut Option<String>,
}

impl<'de, F: FnMut(Pair<'de>) -> Result<(), String>> DeserializeSeed<'de> for Pairs<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Pair<'de>) -> Result<(), String>> Visitor<'de> for Pairs<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(pair) = list.next_element_seed(OnePair(self.names))? {
            if let Err(reason) = (self.each)(pair) {
                *self.refused = Some(reason);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

/// Returns why a response was not read, which should be `what`.
pub(super) fn unread(what: &str, error: &serde_json::Error) -> String {
    match error.is_data() {
        true => format!("the response is no {what}: {error}"),
        false => format!("the response is no JSON: {error}"),
    }
}

/// Reads one entry.
struct OnePair([&'static str; 2]);

impl<'de> DeserializeSeed<'de> for OnePair {
    type Value = Pair<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Pair<'de>, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnePair {
    type Value = Pair<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Pair<'de>, A::Error> {
        let [key, value] = self.0;
        let mut pair = Pair::default();
        while let Some(name) = fields.next_key::<Field<'de>>()? {
            match name.text() {
                Some(name) if name == key => pair.key = fields.next_value()?,
                Some(name) if name == value => pair.value = fields.next_value()?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(pair)
    }
}

impl<'de> Deserialize<'de> for Field<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Field<'de>, D::Error> {
        from.deserialize_any(OneField)
    }
}

/// Reads a field, of whatever kind.
struct OneField;

impl<'de> Visitor<'de> for OneField {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Field<'de>, E> {
        Ok(Field::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Field<'de>, E> {
        Ok(Field::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Field<'de>, E> {
        Ok(Field::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Field<'de>, E> {
        Ok(Field::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Field<'de>, E> {
        Ok(Field::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Field<'de>, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }
}
