//! Pairs as JSON: the bodies of commands, and the files of `state=`.
//!
//! An object has the keys as names. A value is a text, a whole number (which is its digits), `null`, or an object with
//! `value` and a time: `{"a":"1","b":{"value":"2","expire":30000}}`.

use std::{error, fmt};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A pair of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) wanted: Wanted,
}

/// What an object has for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `null`.
    Nothing,
    Value {
        /// `None`: the object has a time alone.
        value: Option<String>,
        /// In milliseconds, since 1970 or from now on.
        time: Option<u64>,
    },
}

/// The reason why a text has no pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PairsError {
    /// It is not JSON.
    Syntax(String),
    /// It is JSON of another form.
    Form(String),
}

/// Reads pairs in the order of the text. `time` is the name of the field that has a pair's time.
///
/// # Errors
/// The text is not JSON, or anything but an object of pairs; a key is empty, or there twice.
pub(crate) fn parse(text: &[u8], time: &str) -> Result<Vec<Pair>, PairsError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let members = match reader.deserialize_any(Members) {
        Ok(members) => members,
        // A visitor for objects refuses other values.
        Err(error) if error.is_data() => {
            return Err(PairsError::Form("a JSON object is expected".to_owned()));
        }
        Err(error) => return Err(PairsError::Syntax(error.to_string())),
    };
    reader.end().map_err(|error| PairsError::Syntax(error.to_string()))?;
    let mut known = std::collections::HashSet::with_capacity_and_hasher(
        members.len(),
        foldhash::quality::RandomState::default(),
    );
    let fault = |fault: String| Err(PairsError::Form(fault));
    for (key, _) in &members {
        if key.is_empty() {
            return fault("an empty key".to_owned());
        }
        if !known.insert(key.as_str()) {
            return fault(format!("duplicate key \"{key}\""));
        }
    }
    drop(known);
    let pair = |(key, value): (String, Value)| match wanted(value, time) {
        Ok(wanted) => Ok(Pair { key, wanted }),
        Err(fault) => Err(PairsError::Form(format!("{fault} for key \"{key}\""))),
    };
    members.into_iter().map(pair).collect()
}

/// Appends a text as JSON.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

fn wanted(value: Value, time: &str) -> Result<Wanted, String> {
    match value {
        Value::Null => Ok(Wanted::Nothing),
        Value::Object(fields) => timed(fields, time),
        value => Ok(Wanted::Value { value: Some(plain(value)?), time: None }),
    }
}

fn plain(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        // A fraction or a large number would come out in other digits than it was written in.
        Value::Number(number) if number.is_u64() || number.is_i64() => Ok(number.to_string()),
        _ => Err("a value that is no text".to_owned()),
    }
}

fn timed(fields: Map<String, Value>, time: &str) -> Result<Wanted, String> {
    let (mut value, mut until) = (None, None);
    for (name, field) in fields {
        if name == "value" {
            value = Some(plain(field)?);
        } else if name == time {
            let millis = field.as_u64().filter(|millis| *millis > 0);
            until = Some(millis.ok_or_else(|| format!("invalid \"{time}\""))?);
        } else {
            return Err(format!("unknown field \"{name}\""));
        }
    }
    match (&value, until) {
        (None, None) => Err("an object without \"value\"".to_owned()),
        _ => Ok(Wanted::Value { value, time: until }),
    }
}

/// Reads the members of an object, those of the same name as well.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

impl fmt::Display for PairsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairsError::Syntax(what) => write!(f, "json error: {what}"),
            PairsError::Form(what) => f.write_str(what),
        }
    }
}

impl error::Error for PairsError {}

/// Reads arbitrary bytes as pairs, for fuzzing: what is accepted is the same when it is written and read again.
#[doc(hidden)]
pub fn fuzz_keyval_pairs(text: &[u8]) {
    let Ok(pairs) = parse(text, "expire") else { return };
    let mut again = vec![b'{'];
    for Pair { key, wanted } in &pairs {
        if again.len() > 1 {
            again.push(b',');
        }
        write_text(&mut again, key);
        again.push(b':');
        match wanted {
            Wanted::Nothing => again.extend_from_slice(b"null"),
            Wanted::Value { value: Some(value), time: None } => write_text(&mut again, value),
            Wanted::Value { value, time } => {
                let fields = value.iter().map(|value| ("value", Value::from(value.as_str())));
                let fields = fields.chain(time.map(|time| ("expire", time.into())));
                let fields = fields.map(|(name, field)| (name.to_owned(), field));
                again.extend_from_slice(Value::Object(fields.collect()).to_string().as_bytes());
            }
        }
    }
    again.push(b'}');
    assert_eq!(parse(&again, "expire"), Ok(pairs));
}
