//! JSON objects whose members have different names, at every level (RFC 7515 section 4, RFC 7519 section 4). The depth
//! is limited to 128 by the library.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A JSON object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Map<String, Value>);

impl Object {
    /// Parses a text.
    ///
    /// # Errors
    /// It is not a JSON object, two members of an object have one name, or it is nested too deeply.
    pub fn parse(text: &[u8]) -> Result<Object, String> {
        match serde_json::from_slice::<Strict>(text) {
            Ok(Strict(Value::Object(members))) => Ok(Object(members)),
            Ok(_) => Err("another type of value".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the value at a path of names as a text, from the top of the object. Strings are without quotation marks,
    /// and the elements of an array are joined by commas. There is no text for objects, for `null`, for elements that
    /// are objects or arrays, and where nothing has this path.
    pub fn text<S: AsRef<str>>(&self, path: &[S]) -> Option<String> {
        let (first, rest) = path.split_first()?;
        let first = self.0.get(first.as_ref())?;
        let found =
            rest.iter().try_fold(first, |value, name| value.as_object()?.get(name.as_ref()));
        text(found?)
    }

    /// Returns the value of a member like [`Object::text`]. Where none has this very name, the only one whose name
    /// differs in the case of letters alone counts.
    pub fn text_without_case(&self, name: &str) -> Option<String> {
        if let Some(value) = self.0.get(name) {
            return text(value);
        }
        let mut alike = self.0.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        match (alike.next(), alike.next()) {
            (Some((_, value)), None) => text(value),
            _ => None,
        }
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn string(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(crate) fn of(members: Map<String, Value>) -> Object {
        Object(members)
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().filter_map(scalar).collect();
            Some(elements.join(","))
        }
        value => scalar(value),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value without two members of one name.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(element)) = elements.next_element()? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("two members of one name"));
            }
        }
        Ok(Value::Object(object))
    }
}
