//! Commands: a group's servers are added, removed and changed.

use serde_json::{Map, Value};
use tidegate_upstream::peers::ServerName;
use tidegate_upstream::resolve::{self, HostPort};
use tidegate_upstream::{Group, Member, ServerOptions};

use super::error::ApiError;
use super::source::CommandTime;
use super::view;
use crate::upstream::options::{PORT, set_option};

/// Parameters of a server in a command.
struct ServerChange {
    server: Option<String>,
    service: Option<String>,
    /// Name and value as in the configuration; `None` removes a flag.
    options: Vec<(&'static str, Option<String>)>,
}

/// Adds a server; returns its id and its view.
pub(super) fn add(group: &Group, body: &[u8], now: CommandTime) -> Result<(u32, Value), ApiError> {
    let wanted = parse(body)?;
    let Some(server) = &wanted.server else {
        return Err(ApiError::new(400, "UpstreamConfFormatError", "missing \"server\" argument"));
    };
    let mut options = ServerOptions::default();
    wanted.apply(&mut options)?;
    let member = member(group, server, wanted.service.as_deref(), options)?;
    let number = group.add(member, now.monotonic).ok_or_else(ApiError::no_server)?;
    let value = view::server(group, number, now).ok_or_else(ApiError::no_server)?;
    Ok((number, value))
}

/// Changes parameters of a server.
pub(super) fn patch(
    group: &Group,
    number: u32,
    body: &[u8],
    now: CommandTime,
) -> Result<(), ApiError> {
    let wanted = parse(body)?;
    if wanted.server.is_some() || wanted.service.is_some() {
        let text = "server address and service cannot be changed";
        return Err(ApiError::new(400, "UpstreamServerImmutable", text));
    }
    if wanted.options.iter().any(|(name, _)| *name == "backup") {
        let text = "parameter \"backup\" cannot be changed";
        return Err(ApiError::new(400, "UpstreamConfFormatError", text));
    }
    // Tried on a copy first: either all parameters are valid or none is applied.
    wanted.apply(&mut ServerOptions::default())?;
    let changed = group.change(number, now.monotonic, |options| {
        let _ = wanted.apply(options);
    });
    if changed { Ok(()) } else { Err(ApiError::no_server()) }
}

pub(super) fn remove(group: &Group, number: u32, now: CommandTime) -> Result<(), ApiError> {
    if group.remove(number, now.monotonic) { Ok(()) } else { Err(ApiError::no_server()) }
}

fn member(
    group: &Group,
    server: &str,
    service: Option<&str>,
    options: ServerOptions,
) -> Result<Member, ApiError> {
    let bad = |text: String| ApiError::new(400, "UpstreamBadAddress", text);
    let host =
        resolve::parse(server, PORT).map_err(|what| bad(format!("{what} in \"{server}\"")))?;
    let fixed = |address| Member::fixed(server, vec![address], options.clone());
    match host {
        _ if service.is_some_and(str::is_empty) => {
            Err(ApiError::new(400, "UpstreamBadService", "invalid service"))
        }
        HostPort::Unix(path) => Ok(fixed(tidegate_rt::net::Addr::Unix(path.into()))),
        HostPort::Inet { literal: Some(_), .. } if service.is_some() => {
            let text = "service upstream requires domain name";
            Err(ApiError::new(400, "UpstreamBadService", text))
        }
        HostPort::Inet { literal: Some(address), .. } => Ok(fixed(address.into())),
        HostPort::Inet { port: Some(_), .. } if service.is_some() => {
            Err(bad("service upstream may not have port".to_owned()))
        }
        HostPort::Inet { .. } if !group.options().resolves => {
            Err(bad(format!("no resolver defined to resolve \"{server}\"")))
        }
        HostPort::Inet { host, port, .. } => {
            let name = ServerName {
                host: host.to_ascii_lowercase().into(),
                port: port.unwrap_or(PORT),
                service: service.map(Into::into),
            };
            Ok(Member::named(server, name, options))
        }
    }
}

impl ServerChange {
    fn apply(&self, options: &mut ServerOptions) -> Result<(), ApiError> {
        for (name, value) in &self.options {
            let flag = match *name {
                "backup" => Some(&mut options.backup),
                "down" => Some(&mut options.down),
                "drain" => Some(&mut options.drain),
                _ => None,
            };
            match (flag, value) {
                (Some(flag), value) => *flag = value.is_some(),
                (None, Some(value)) => {
                    if set_option(options, name, Some(value)).is_none() {
                        return Err(bad_value(name));
                    }
                }
                (None, None) => options.route = None,
            }
        }
        Ok(())
    }
}

fn bad_value(name: &str) -> ApiError {
    let code = match name {
        "weight" => "UpstreamBadWeight",
        "max_conns" => "UpstreamBadMaxConns",
        "max_fails" => "UpstreamBadMaxFails",
        "fail_timeout" => "UpstreamBadFailTimeout",
        "slow_start" => "UpstreamBadSlowStart",
        "route" => "UpstreamBadRoute",
        _ => "UpstreamConfFormatError",
    };
    ApiError::new(400, code, format!("invalid {name}"))
}

/// Reads a command's body.
fn parse(body: &[u8]) -> Result<ServerChange, ApiError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::new(415, "JsonError", format!("json error: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(ApiError::new(415, "JsonError", "a JSON object is expected"));
    };
    let mut wanted = ServerChange { server: None, service: None, options: Vec::new() };
    for (name, value) in &fields {
        take(&mut wanted, &fields, name, value)?;
    }
    Ok(wanted)
}

const TIMES_AND_NUMBERS: [&str; 5] =
    ["weight", "max_conns", "max_fails", "fail_timeout", "slow_start"];
const FLAGS: [&str; 3] = ["backup", "down", "drain"];

fn take(
    wanted: &mut ServerChange,
    _fields: &Map<String, Value>,
    name: &str,
    value: &Value,
) -> Result<(), ApiError> {
    let wrong = |text: String| ApiError::new(400, "UpstreamConfFormatError", text);
    if value.is_object() || value.is_array() {
        return Err(wrong("nested object or list".to_owned()));
    }
    let text = || value.as_str().map(str::to_owned);
    let number = || value.as_u64().map(|number| number.to_string());
    if let Some(known) = TIMES_AND_NUMBERS.iter().find(|known| **known == name) {
        let value = text().or_else(number).ok_or_else(|| bad_value(name))?;
        wanted.options.push((known, Some(value)));
        return Ok(());
    }
    if let Some(known) = FLAGS.iter().find(|known| **known == name) {
        let on = value.as_bool().ok_or_else(|| bad_value(name))?;
        wanted.options.push((known, on.then(String::new)));
        return Ok(());
    }
    match name {
        // The fields of a response may be sent back.
        "id" | "parent" | "host" => {}
        "server" => wanted.server = Some(text().ok_or_else(|| bad_value(name))?),
        "service" => wanted.service = Some(text().ok_or_else(|| bad_value(name))?),
        "route" => {
            let route = text().ok_or_else(|| bad_value(name))?;
            wanted.options.push(("route", Some(route).filter(|route| !route.is_empty())));
        }
        _ => return Err(wrong(format!("unknown parameter \"{name}\""))),
    }
    Ok(())
}
