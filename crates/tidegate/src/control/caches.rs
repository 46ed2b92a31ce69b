//! `cache`: zones, their sizes and hits.

use serde_json::{Value, json};

use super::Session;
use super::client::encoded;
use super::failure::Failure;
use super::figures::{FETCHED, SERVED, limited, ratio};
use super::screen::{bytes, number, text};

/// Runs one of its forms.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let words = session.given.words();
    match words[..] {
        [] | ["ls"] => list(session, &session.client()?.get("http/caches")?),
        ["ls", zone] => stored(session, zone, ""),
        ["ls", zone, prefix] => stored(session, zone, prefix),
        ["stat", zone] => {
            let cache = session.client()?.get(&format!("http/caches/{}", encoded(zone)))?;
            stat(session, &cache)
        }
        ["purge", zone] if has_scope(session) => purge(session, zone, None),
        ["purge", zone, key] => purge(session, zone, Some(key)),
        _ => Err(Failure::Usage("unknown words".to_owned())),
    }
}

/// Pages that are read for one list: a page looks at 2,000 files at most, and a prefix may have few of them.
const PAGES_MAX: usize = 50;

/// Prints what is stored under keys with a prefix: a page, or as many as it takes to fill one, from `--from` on.
fn stored(session: &Session, zone: &str, prefix: &str) -> Result<(), Failure> {
    let limit: usize = match session.given.value("count") {
        None => 40,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=1000).contains(limit))
            .ok_or_else(|| Failure::Usage(format!("invalid count \"{text}\": 1 to 1000")))?,
    };
    let client = session.client()?;
    let mut from = session.given.value("from").map(str::to_owned);
    let mut entries: Vec<Value> = Vec::new();
    for _ in 0..PAGES_MAX {
        let left = limit - entries.len();
        let start = from.as_deref().map(|from| format!("&from={}", encoded(from)));
        let page = client.get(&format!(
            "tidegate/cached/{}?limit={left}&prefix={}{}",
            encoded(zone),
            encoded(prefix),
            start.unwrap_or_default()
        ))?;
        entries.extend(page["entries"].as_array().into_iter().flatten().take(left).cloned());
        from = page["next"].as_str().map(str::to_owned);
        if entries.len() >= limit || from.is_none() {
            break;
        }
    }
    if session.json() {
        return session.screen.json(&json!({ "entries": entries, "next": from }));
    }
    for entry in &entries {
        let state = if entry["fresh"] == true { "fresh" } else { "stale" };
        let (status, size) = (number(entry, "/status"), bytes(number(entry, "/bytes")));
        session.screen.line(&format!("{status} {size:>9} {state} {}", text(entry, "/key")))?;
    }
    match from {
        None if entries.is_empty() => session.screen.line("nothing is stored under such keys"),
        None => Ok(()),
        Some(from) => session.screen.line(&format!("there is more: --from {from}")),
    }
}

fn has_scope(session: &Session) -> bool {
    session.given.flag("prefix") || session.given.flag("tag")
}

/// Purges a key, the keys with a prefix, or the responses with a tag.
fn purge(session: &Session, zone: &str, key: Option<&str>) -> Result<(), Failure> {
    let mut body = match (key, session.given.value("prefix"), session.given.value("tag")) {
        (Some(key), None, None) => json!({ "key": key }),
        (None, Some(prefix), None) => json!({ "prefix": prefix }),
        (None, None, Some(tag)) => json!({ "tags": [tag] }),
        _ => return Err(Failure::Usage("one key, prefix or tag is purged at a time".to_owned())),
    };
    body["soft"] = session.given.flag("soft").into();
    let path = format!("tidegate/purge/{}", encoded(zone));
    session.client()?.send("POST", &path, Some(&body)).map(drop)
}

fn responses(cache: &Value, kinds: &[&str]) -> u64 {
    kinds.iter().map(|kind| number(cache, &format!("/{kind}/responses"))).sum()
}

fn list(session: &Session, caches: &Value) -> Result<(), Failure> {
    if session.json() {
        return session.screen.json(caches);
    }
    let rows = caches.as_object().into_iter().flatten().map(|(name, cache)| {
        let (served, fetched) = (responses(cache, SERVED), responses(cache, FETCHED));
        let max = cache.get("max_size").and_then(Value::as_u64).map_or_else(String::new, bytes);
        vec![
            name.clone(),
            bytes(number(cache, "/size")),
            max,
            served.to_string(),
            fetched.to_string(),
            ratio(served, fetched),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return session.screen.line("no cache is configured");
    }
    let titles = ["cache", "size", "max", "served", "fetched", "hits"];
    limited(&session.screen, &titles, rows)
}

fn stat(session: &Session, cache: &Value) -> Result<(), Failure> {
    if session.json() {
        return session.screen.json(cache);
    }
    let rows = SERVED.iter().chain(FETCHED).map(|kind| {
        vec![
            (*kind).to_owned(),
            number(cache, &format!("/{kind}/responses")).to_string(),
            bytes(number(cache, &format!("/{kind}/bytes"))),
        ]
    });
    session.screen.line(&format!("size: {}", bytes(number(cache, "/size"))))?;
    limited(&session.screen, &["status", "responses", "bytes"], rows.collect())
}
