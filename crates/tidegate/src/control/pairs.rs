//! `keyval`: pairs of `keyval_zone`.

use serde_json::{Value, json};

use super::Session;
use super::client::encoded;
use super::failure::Failure;
use super::figures::limited;
use super::screen::members;

/// Runs one of its forms.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let block = if session.given.flag("stream") { "stream" } else { "http" };
    let zone = |name: &str| format!("{block}/keyvals/{}", encoded(name));
    let words = session.given.words();
    match words[..] {
        [] | ["ls"] => list(session, &session.client()?.get(&format!("{block}/keyvals"))?),
        ["ls", name] => {
            let pairs = session.client()?.get(&zone(name))?;
            list(session, &json!({ name: pairs }))
        }
        ["get", name, key] => {
            let found = session.client()?.get(&format!("{}?key={}", zone(name), encoded(key)))?;
            match found.get(key) {
                None => Err(missing(key)),
                Some(value) if session.json() => session.screen.json(value),
                Some(value) => session.screen.line(&shown(value)),
            }
        }
        ["set", name, key, value] => set(session, &zone(name), key, value),
        ["del", name, key] => {
            let client = session.client()?;
            client.send("PATCH", &zone(name), Some(&json!({ key: null }))).map(drop)
        }
        _ => Err(Failure::Usage("unknown words".to_owned())),
    }
}

fn missing(key: &str) -> Failure {
    Failure::Refused { status: 404, text: format!("no pair has the key \"{key}\"") }
}

/// Adds a pair, or changes the one that has the key.
fn set(session: &Session, path: &str, key: &str, value: &str) -> Result<(), Failure> {
    let body = match session.given.value("expire") {
        None => json!({ key: value }),
        Some(time) => json!({ key: { "value": value, "expire": time } }),
    };
    let client = session.client()?;
    match client.send("PATCH", path, Some(&body)) {
        Err(Failure::Refused { status: 404, .. }) => {
            client.send("POST", path, Some(&body)).map(drop)
        }
        done => done.map(drop),
    }
}

fn list(session: &Session, zones: &Value) -> Result<(), Failure> {
    if session.json() {
        return session.screen.json(zones);
    }
    let mut rows = Vec::new();
    for (zone, _) in zones.as_object().into_iter().flatten() {
        for (key, value) in members(zones, zone) {
            rows.push(vec![zone.clone(), key.clone(), shown(value)]);
        }
    }
    if rows.is_empty() {
        return session.screen.line("no pairs");
    }
    limited(&session.screen, &["zone", "key", "value"], rows)
}

/// Returns a pair's value as text, with the time that it has left.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
