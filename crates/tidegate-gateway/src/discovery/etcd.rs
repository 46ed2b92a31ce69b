//! etcd's API version 3 over its JSON gateway: `/v3/kv/range` reads the keys of a prefix, `/v3/watch` tells that one of them has
//! changed (etcd's documentation, "gRPC gateway"). Keys and values are base64.

use std::fmt;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::endpoint::{self, Endpoint, LastValue};
use super::pairs::{Pair, Pairs, unread};

/// The path of a question for the keys of a range.
pub(super) const RANGE: &str = "/v3/kv/range";
/// The path of a question for changes.
pub(super) const WATCH: &str = "/v3/watch";

/// Returns the prefix of the keys of a path in the form of version 2: `/v2/keys/upstreams/test` becomes `/upstreams/test/`.
/// `None`: the path has another form.
pub(super) fn prefix(path: &str) -> Option<String> {
    let forms = ["/v2/keys", "/v3/kv", "/v1/kv"];
    let key = forms.iter().find_map(|form| path.strip_prefix(form))?;
    key.starts_with('/').then(|| format!("{}/", key.trim_end_matches('/')))
}

/// Returns the two ends of the range of a prefix, in base64.
fn ends(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    // The prefix ends with a slash, so that there is a byte behind it.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (endpoint::encoded(prefix.as_bytes()), endpoint::encoded(&end))
}

/// Returns the body of a question for all keys.
pub(super) fn range_request(prefix: &str) -> String {
    let (key, end) = ends(prefix);
    format!("{{\"key\":\"{key}\",\"range_end\":\"{end}\"}}")
}

/// Returns the body of a question for changes, from a revision on.
pub(super) fn watch_request(prefix: &str, revision: u64) -> String {
    let (key, end) = ends(prefix);
    format!(
        "{{\"create_request\":{{\"key\":\"{key}\",\"range_end\":\"{end}\",\"start_revision\":\"{revision}\"}}}}"
    )
}

/// Reads the response to a question for all keys: the revision, and the servers.
///
/// # Errors
/// It is not of this form: the reason in words.
pub(super) fn range(prefix: &str, body: &[u8]) -> Result<(u64, Vec<Endpoint>), String> {
    let (mut all, mut last, mut refused) = (Vec::new(), LastValue::default(), None);
    let each = |Pair { key, value }: Pair<'_>| {
        let key = key.text().and_then(endpoint::decoded);
        let key = key.and_then(|key| String::from_utf8(key).ok()).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| "an entry has no valid key".to_owned())?;
        let value = value.text().unwrap_or_default();
        endpoint::push_pair(&mut all, prefix, (&key, Some(value)), &mut last)
    };
    let range = Range(Pairs { names: ["key", "value"], each, refused: &mut refused });
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = json.deserialize_map(range).and_then(|revision| json.end().map(|()| revision));
    match (refused, read) {
        (Some(reason), _) => Err(reason),
        (None, Err(error)) => Err(unread("object with keys", &error)),
        (None, Ok(None)) => Err("the response has no revision".to_owned()),
        (None, Ok(Some(revision))) => Ok((revision, all)),
    }
}

/// Reads the object of a response: its revision, and its keys.
struct Range<'f, F>(Pairs<'f, F>);

impl<'de, F: FnMut(Pair<'de>) -> Result<(), String>> Visitor<'de> for Range<'_, F> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Option<u64>, A::Error> {
        let (mut pairs, mut revision) = (Some(self.0), None);
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "header" => revision = number(&fields.next_value::<Value>()?["revision"]),
                "kvs" => match pairs.take() {
                    Some(pairs) => fields.next_value_seed(pairs)?,
                    None => return Err(A::Error::custom("\"kvs\" is there twice")),
                },
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(revision)
    }
}

/// Reads a line of a watch. `Ok(true)`: something has changed, or the watch has ended, and all keys are to be read again;
/// `Ok(false)`: nothing has.
///
/// # Errors
/// The engine refuses the watch, or the line is not of this form: the reason in words.
pub(super) fn event(line: &[u8]) -> Result<bool, String> {
    let parsed: Value =
        serde_json::from_slice(line).map_err(|error| format!("the watch is no JSON: {error}"))?;
    if let Some(error) = parsed.get("error") {
        let text = error["message"].as_str().unwrap_or("no reason");
        return Err(format!("the watch is refused: {}", endpoint_text(text)));
    }
    let result = &parsed["result"];
    if !result.is_object() {
        return Err("the watch has a line without a result".to_owned());
    }
    // A revision that was compacted ends a watch.
    let is_over = result["canceled"].as_bool() == Some(true);
    let has_events = result["events"].as_array().is_some_and(|events| !events.is_empty());
    Ok(is_over || has_events)
}

/// Numbers of 64 bits are texts in the JSON of protocol buffers.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the beginning of an engine's text, on one line.
fn endpoint_text(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}
