//! Containers, as Docker's API describes them (`GET /containers/json`), and what their labels say.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_upstream::ServerOptions;

use crate::discovery::endpoint::{Endpoint, WEIGHT_MAX};
use crate::upstream::options::set_option;

/// The servers of each group, and what was left out, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) groups: BTreeMap<String, Vec<Endpoint>>,
    pub(super) problems: Vec<String>,
}

/// The most problems of a list that are reported.
const PROBLEMS_MAX: usize = 16;

/// Reads a list of containers: the servers of the groups of a block (`http` or `stream`). A container whose description is
/// longer than `object_bytes_max`, or whose labels are invalid, is left out.
///
/// # Errors
/// It is no list: the reason in words.
pub(super) fn servers(block: &str, list: &[u8], object_bytes_max: usize) -> Result<Found, String> {
    let mut found = Found::default();
    for text in elements(list)? {
        if text.len() > object_bytes_max {
            let what = "the description of a container is larger than docker_max_object_size";
            found.problem(format!("{what} ({} bytes)", text.len()));
            continue;
        }
        let container: Value = serde_json::from_slice(text)
            .map_err(|error| format!("the list is no JSON: {error}"))?;
        if !container.is_object() {
            return Err("the list has something else than containers".to_owned());
        }
        found.add(block, &container);
    }
    Ok(found)
}

impl Found {
    fn problem(&mut self, what: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(what);
        }
    }

    fn add(&mut self, block: &str, container: &Value) {
        // `restarting` and others have no address that serves.
        let state = container["State"].as_str().unwrap_or("running");
        if !matches!(state, "running" | "paused") {
            return;
        }
        let begin = format!("angie.{block}.upstreams.");
        let mut groups: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (label, value) in container["Labels"].as_object().into_iter().flatten() {
            let (Some(rest), Some(value)) = (label.strip_prefix(&begin), value.as_str()) else {
                continue;
            };
            if let Some((group, parameter)) = rest.rsplit_once('.') {
                groups.entry(group).or_default().push((parameter, value));
            }
        }
        for (group, parameters) in groups {
            match server(container, &parameters, state == "paused") {
                Ok(endpoint) => {
                    let all = self.groups.entry(group.to_owned()).or_default();
                    // An address that has just gone to another container may be there twice.
                    if !all.iter().any(|known| known.server == endpoint.server) {
                        all.push(endpoint);
                    }
                }
                Err(reason) => self.problem(format!(
                    "container \"{}\" is no server of upstream \"{group}\": {reason}",
                    name(container)
                )),
            }
        }
    }
}

/// Makes the server of a container in one group.
fn server(
    container: &Value,
    parameters: &[(&str, &str)],
    is_paused: bool,
) -> Result<Endpoint, String> {
    let mut options = ServerOptions { down: is_paused, ..ServerOptions::default() };
    let (mut port, mut network) = (None, container["Labels"]["angie.network"].as_str());
    for (parameter, value) in parameters {
        let invalid = || format!("its label \"{parameter}\" is invalid");
        match (*parameter, *value) {
            ("port", value) => {
                let number = value.parse::<u16>().ok().filter(|port| *port > 0);
                port = Some(number.ok_or_else(invalid)?);
            }
            ("network", value) => network = Some(value),
            ("backup", "true") => options.backup = true,
            ("backup", "false") => options.backup = false,
            ("weight" | "max_conns" | "max_fails" | "fail_timeout" | "slow_start" | "sid", _) => {
                set_option(&mut options, parameter, Some(value)).ok_or_else(invalid)?;
            }
            ("backup", _) => return Err(invalid()),
            // Labels of versions to come.
            _ => {}
        }
    }
    if options.weight > WEIGHT_MAX {
        return Err(format!("its weight is above {WEIGHT_MAX}"));
    }
    let port = port.ok_or("it has no label \"port\"")?;
    let address = address(container, network)?;
    let server = match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    };
    Ok(Endpoint { server, options })
}

/// Returns the container's address in a network, or in the first one where it has an address.
fn address<'c>(container: &'c Value, network: Option<&str>) -> Result<&'c str, String> {
    let networks = container["NetworkSettings"]["Networks"].as_object();
    let mut networks = networks.into_iter().flatten();
    let of = |settings: &'c Value| {
        let fields = ["IPAddress", "GlobalIPv6Address"];
        let mut texts = fields.iter().filter_map(|field| settings[*field].as_str());
        texts.find(|text| text.parse::<std::net::IpAddr>().is_ok())
    };
    match network {
        Some(wanted) => {
            let found = networks.find(|(name, _)| *name == wanted);
            found
                .and_then(|(_, settings)| of(settings))
                .ok_or_else(|| format!("it has no address in network \"{}\"", shown(wanted)))
        }
        None => networks.find_map(|(_, settings)| of(settings)).ok_or("it has no address".into()),
    }
}

/// Returns a container's name, else the beginning of its id.
fn name(container: &Value) -> String {
    let name = container["Names"][0].as_str().map(|name| name.trim_start_matches('/'));
    shown(name.or(container["Id"].as_str()).unwrap_or("?"))
}

/// Returns the beginning of a text of others, on one line.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

/// Splits the text of a JSON list into the texts of its elements, which are not read.
///
/// # Errors
/// It is no list, or has no end.
pub(super) fn elements(list: &[u8]) -> Result<Vec<&[u8]>, String> {
    let no_list = || "the response is no list of JSON".to_owned();
    let list = list.trim_ascii();
    let inner = list.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let inner = inner.ok_or_else(no_list)?;
    let (mut all, mut start) = (Vec::new(), 0);
    let (mut depth, mut in_text, mut is_escaped) = (0usize, false, false);
    for (at, byte) in inner.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1).ok_or_else(no_list)?,
            b',' if depth == 0 => {
                all.push(inner[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    if in_text || depth > 0 {
        return Err(no_list());
    }
    let last = inner[start..].trim_ascii();
    if !(last.is_empty() && all.is_empty()) {
        all.push(last);
    }
    Ok(all)
}

/// Reads a list, for fuzzing.
pub(crate) fn fuzz_labels(list: &[u8]) {
    let _ = servers("http", list, 4096);
}
