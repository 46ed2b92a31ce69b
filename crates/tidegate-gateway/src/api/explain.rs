//! `tidegate/explain`: which server and location a request would meet, and which directives hold there.
//!
//! Nothing is run: rewrites, variables and subrequests are shown as directives, not as their results.

mod effective;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_codec::request::parse_authority;
use tidegate_codec::uri;
use tidegate_core::client::{Address, NoClient};
use tidegate_core::exchange::{Captures, Exchange};
use tidegate_core::listen::{ListenerPlan, VirtualServers};
use tidegate_core::location;
use tidegate_core::plan::{Location, Plan};
use tidegate_core::written::WrittenBlock;

use super::command::{Command, leaf};
use super::error::ApiError;
use super::query::{CommandResult, Query, argument};

/// Explains the request of the arguments `url` and `host`, which is in place of that of the URL.
///
/// # Errors
/// 403 without `write=on` or `admin_socket`: it shows the configuration. 400 for an invalid URL, 404 where no server listens.
pub(super) fn explain(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    leaf(query, command)?;
    if !query.settings.write || query.x.plan.main.admin_socket.is_none() {
        let text =
            "it is for the \"admin_socket\", and for locations with \"api write=on\" beside one";
        return Err(ApiError::new(403, "ExplainDisabled", text));
    }
    let args = &query.x.request.args;
    let wrong = |text: &str| ApiError::new(400, "ExplainUrlError", text);
    let url = argument(args, "url").unwrap_or_default();
    let url = Url::parse(&url).ok_or_else(|| wrong("expected `http://host/path` or `/path`"))?;
    let host = argument(args, "host").unwrap_or_else(|| url.host.to_vec());
    let plan = &query.x.plan;
    let (listener, servers) = listener(plan, &url).ok_or_else(|| {
        let port = url.port.map_or_else(String::new, |port| format!(" on port {port}"));
        ApiError::new(404, "ListenerNotFound", format!("no server listens{port}"))
    })?;
    let name = parse_authority(&host);
    let named =
        name.and_then(|(name, _)| servers.find_named(name.as_bytes(), &mut Captures::default()));
    let server = named.map_or(servers.default, |(server, _)| server);
    let mut x = Exchange::new(plan.clone(), query.x.connection.clone(), Rc::new(NoClient));
    x.routing.server = server;
    x.routing.location = plan.server(server).location;
    let mut path = Vec::new();
    let merge = plan.server(server).settings.merge_slashes;
    let parts = uri::normalise(url.target, merge, &mut path);
    let parts = parts.map_err(|_| wrong("the path of the URL is invalid"))?;
    if parts.plain {
        path.extend_from_slice(parts.raw_path.of(url.target));
    }
    x.set_path(path, None);
    let (id, redirects) = location::look_up(&mut x, plan).map_err(|_| {
        ApiError::new(500, "MatchLimit", "a regular expression needs too much backtracking")
    })?;
    let found = plan.location(id);
    let is_server = id == plan.server(server).location;
    let value = json!({
        "listen": listener.address.text(),
        "server": {
            "name": plan.server(server).name,
            "place": place(plan.location(plan.server(server).location)),
            "chosen_by": if named.is_some() { "name" } else { "default" },
        },
        "path": String::from_utf8_lossy(&x.request.path),
        "location": if is_server { Value::Null } else { shown_location(found) },
        "redirect": redirects.then_some("to the name of the location with a slash at its end"),
        "directives": directives(found),
    });
    Ok(CommandResult::of(value))
}

/// What decides of a URL.
struct Url<'a> {
    /// `None` for a path alone.
    port: Option<u16>,
    host: &'a [u8],
    target: &'a [u8],
}

impl Url<'_> {
    fn parse(text: &[u8]) -> Option<Url<'_>> {
        let (default_port, rest) = match text {
            [b'/', ..] => return Some(Url { port: None, host: b"", target: text }),
            _ if text.starts_with(b"http://") => (80, &text[7..]),
            _ if text.starts_with(b"https://") => (443, &text[8..]),
            _ => return None,
        };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (host, target) = rest.split_at(end);
        let authority = str::from_utf8(host).ok()?;
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port.parse().ok()?,
            _ => default_port,
        };
        // A query without a path is one of `/`, which has no part in the choice.
        let target = if target.starts_with(b"/") { target } else { b"/" };
        (!host.is_empty()).then_some(Url { port: Some(port), host, target })
    }

    fn address(&self) -> Option<IpAddr> {
        let host = str::from_utf8(self.host).ok()?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next()?,
            None => host.split(':').next()?,
        };
        host.parse().ok()
    }
}

/// Returns the listening address that has the URL's port, and its servers: that of its address, where the host is one, else
/// the first. A path alone is one for the first address.
fn listener<'p>(plan: &'p Plan, url: &Url<'_>) -> Option<(&'p ListenerPlan, &'p VirtualServers)> {
    let port = |listener: &&ListenerPlan| {
        !listener.datagram
            && matches!(&listener.address, Address::Inet(address)
                if url.port.is_none_or(|port| port == address.port()))
    };
    let wanted = url.address();
    let is_own = |listener: &&ListenerPlan| match &listener.address {
        Address::Inet(address) => Some(address.ip()) == wanted,
        Address::Unix(_) => false,
    };
    let mut fitting = plan.listeners.iter().filter(port);
    let first = fitting.clone().next()?;
    let listener = fitting.find(is_own).unwrap_or(first);
    let local = wanted.and_then(|address| listener.local(address));
    Some(match local.and_then(|index| listener.by_local.get(index)) {
        Some(local) => (listener, &local.servers),
        None => (listener, &listener.servers),
    })
}

fn shown_location(location: &Location) -> Value {
    let kind = match location {
        Location { exact: true, .. } => "exact",
        Location { is_regex: true, .. } => "regex",
        Location { no_regex: true, .. } => "prefix before regular expressions",
        _ => "prefix",
    };
    json!({
        "name": String::from_utf8_lossy(&location.name),
        "kind": kind,
        "place": place(location),
    })
}

fn written(location: &Location) -> Option<&Arc<WrittenBlock>> {
    location.extensions.of::<Arc<WrittenBlock>>()
}

fn place(location: &Location) -> Option<&str> {
    Some(&written(location)?.opening.place)
}

/// Shows the directives that hold, by what they are about.
fn directives(location: &Location) -> Value {
    let mut all = Map::new();
    for topic in effective::TOPICS {
        all.insert(topic.to_string(), json!([]));
    }
    for (topic, line) in written(location).into_iter().flat_map(|block| effective::lines(block)) {
        if let Some(Value::Array(list)) = all.get_mut(topic) {
            list.push(json!({ "text": line.text, "place": line.place }));
        }
    }
    Value::Object(all)
}
