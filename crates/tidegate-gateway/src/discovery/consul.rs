//! Consul's HTTP API, version 1: keys (`/v1/kv/`), the catalog (`/v1/catalog/service/`) and health
//! (`/v1/health/service/`), with blocking queries: `index=` and `wait=` hold a response until it differs from the one with that
//! index (Consul's documentation, "Blocking Queries").

use std::collections::HashMap;
use std::time::Duration;

use serde::de::DeserializeSeed as _;
use serde_json::Value;
use tidegate_upstream::ServerOptions;

use super::endpoint::{self, Endpoint, LastValue};
use super::pairs::{Field, Pair, Pairs, unread};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `upsync_type=consul`: keys below a prefix.
    Keys,
    /// `upsync_type=consul_services`: the instances of a service.
    Catalog,
    /// `upsync_type=consul_health`: the instances with their checks.
    Health,
}

/// Where the last response was in the engine's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// `None`: the next response comes at once.
    pub(super) index: Option<u64>,
}

/// The longest that an engine is asked to hold a response: its own default.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(300);
/// A response with the same index that was held for less than this comes from an engine that does not hold responses.
const HELD_MIN: Duration = Duration::from_millis(500);

/// Returns how long an engine may hold a response where the whole request may take `timeout`: it adds up to a sixteenth.
pub(super) fn wait(timeout: Duration) -> Duration {
    (timeout * 5 / 6).min(WAIT_MAX)
}

impl Cursor {
    /// Returns the target of the next request: the path with its arguments.
    pub(super) fn target(self, kind: Kind, path: &str, wait: Duration) -> String {
        let mut target = path.to_owned();
        let mut argument = |text: &str| {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(text);
        };
        if kind == Kind::Keys {
            argument("recurse");
        }
        if let Some(index) = self.index {
            argument(&format!("index={index}"));
            argument(&format!("wait={}ms", wait.as_millis().max(1)));
        }
        target
    }

    /// Takes over the index of a response that came after `taken`; returns whether the next request may follow at once. An
    /// index that goes back (the engine was restored), or is 0 or missing, is none.
    pub(super) fn advance(&mut self, index: Option<u64>, taken: Duration) -> bool {
        let before = self.index;
        self.index =
            index.filter(|index| *index > 0 && before.is_none_or(|before| *index >= before));
        match (before, self.index) {
            (Some(before), Some(now)) if before == now => taken >= HELD_MIN,
            (_, Some(_)) => true,
            (Some(_), None) if index.is_some_and(|index| index > 0) => true,
            (_, None) => false,
        }
    }
}

/// Returns the prefix of the keys of a path: `/v1/kv/upstreams/test` becomes `upstreams/test/`.
pub(super) fn prefix(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let key = path.strip_prefix("/v1/kv/").unwrap_or(path);
    format!("{}/", key.trim_end_matches('/'))
}

/// Reads a response with servers.
///
/// # Errors
/// It is not of this form: the reason in words.
pub(super) fn endpoints(kind: Kind, prefix: &str, body: &[u8]) -> Result<Vec<Endpoint>, String> {
    let read = match kind {
        Kind::Keys => return keys(prefix, body),
        Kind::Catalog => catalog,
        Kind::Health => health,
    };
    let parsed: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the response is no JSON: {error}"))?;
    // A service that is not there may be `null`.
    let Value::Array(list) = parsed else {
        return match parsed {
            Value::Null => Ok(Vec::new()),
            _ => Err("the response is no list".to_owned()),
        };
    };
    let mut all = Vec::new();
    for one in &list {
        endpoint::push(&mut all, read(one)?)?;
    }
    Ok(each_once(all))
}

/// Keeps one of several instances with the same address: an instance that was replaced may be registered for a while beside
/// its successor. One that is not down is preferred.
fn each_once(all: Vec<Endpoint>) -> Vec<Endpoint> {
    let mut places = HashMap::new();
    let mut kept: Vec<Endpoint> = Vec::with_capacity(all.len());
    for endpoint in all {
        let place = *places.entry(endpoint.server.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            None => kept.push(endpoint),
            Some(known) if known.options.down => *known = endpoint,
            Some(_) => {}
        }
    }
    kept
}

fn keys(prefix: &str, body: &[u8]) -> Result<Vec<Endpoint>, String> {
    let (mut all, mut last, mut refused) = (Vec::new(), LastValue::default(), None);
    let each = |Pair { key, value }: Pair<'_>| {
        let key = key.text().ok_or_else(|| "an entry has no \"Key\"".to_owned())?;
        let value = if value == Field::Absent { Some("") } else { value.text() };
        endpoint::push_pair(&mut all, prefix, (key, value), &mut last)
    };
    let pairs = Pairs { names: ["Key", "Value"], each, refused: &mut refused };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = pairs.deserialize(&mut json).and_then(|()| json.end());
    match (refused, read) {
        (Some(reason), _) => Err(reason),
        (None, Err(error)) => Err(unread("list of keys", &error)),
        (None, Ok(())) => Ok(all),
    }
}

fn catalog(one: &Value) -> Result<Endpoint, String> {
    let address = [&one["ServiceAddress"], &one["Address"]];
    let options = weighted(&one["ServiceWeights"]["Passing"]);
    instance(&address, &one["ServicePort"], options)
}

/// Reads an instance with its checks: a check that fails makes the server `down`; with one that warns it has the weight for
/// that.
fn health(one: &Value) -> Result<Endpoint, String> {
    let statuses = one["Checks"].as_array().into_iter().flatten().map(|check| &check["Status"]);
    let statuses: Vec<&str> = statuses.filter_map(Value::as_str).collect();
    let service = &one["Service"];
    let weight = if statuses.contains(&"warning") { "Warning" } else { "Passing" };
    let mut options = weighted(&service["Weights"][weight]);
    options.down = statuses.contains(&"critical");
    let address = [&service["Address"], &one["Node"]["Address"]];
    instance(&address, &service["Port"], options)
}

fn weighted(weight: &Value) -> ServerOptions {
    let weight = weight.as_u64().and_then(|weight| u32::try_from(weight).ok());
    ServerOptions { weight: weight.unwrap_or(1).max(1), ..endpoint::defaults() }
}

/// Makes a server of the first address that is not empty.
fn instance(
    addresses: &[&Value],
    port: &Value,
    options: ServerOptions,
) -> Result<Endpoint, String> {
    let mut texts = addresses.iter().filter_map(|address| address.as_str());
    let Some(address) = texts.find(|text| !text.is_empty()) else {
        return Err("an instance has no address".to_owned());
    };
    let port = port.as_u64().filter(|port| (1..=65535).contains(port));
    let port = port.ok_or_else(|| format!("the instance \"{address}\" has no port"))?;
    let server = match address.contains(':') && !address.starts_with('[') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    };
    Ok(Endpoint { server, options })
}
