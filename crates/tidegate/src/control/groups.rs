//! `upstreams`: groups of servers, and changes of one server.

use serde_json::{Value, json};

use super::Session;
use super::client::{Client, encoded};
use super::failure::Failure;
use super::figures::limited;
use super::screen::{members, number, text};

/// The blocks that have groups, by their part of the path.
const BLOCKS: [&str; 2] = ["http", "stream"];

/// Runs one of its forms.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let words = session.given.words();
    let blocks = if session.given.flag("stream") { &BLOCKS[1..] } else { &BLOCKS[..] };
    match words[..] {
        [] => all(session, blocks),
        [group] => one(session, &found(session, blocks, group)?),
        [group, command, ref rest @ ..] => change(session, blocks, group, command, rest),
    }
}

/// Runs `drain`: a short form of `upstreams GROUP drain|up SERVER`.
pub(super) fn drain(session: &Session) -> Result<(), Failure> {
    let command = if session.given.flag("undo") { "up" } else { "drain" };
    match session.given.words()[..] {
        [group, server] => change(session, &BLOCKS[..1], group, command, &[server]),
        _ => Err(Failure::Usage("a group and one of its servers are expected".to_owned())),
    }
}

fn all(session: &Session, blocks: &[&str]) -> Result<(), Failure> {
    let client = session.client()?;
    let mut groups = json!({});
    for block in blocks {
        groups[block] = client.get(&format!("{block}/upstreams"))?;
    }
    if session.json() {
        return session.screen.json(&groups);
    }
    let mut rows = Vec::new();
    for block in blocks {
        for (name, group) in members(&groups, block) {
            let peers = group["peers"].as_array().map_or(&[][..], Vec::as_slice);
            let up = peers.iter().filter(|peer| peer["state"] == "up").count();
            let sum = |path| peers.iter().map(|peer| number(peer, path)).sum::<u64>().to_string();
            rows.push(vec![
                name.clone(),
                (*block).to_owned(),
                format!("{up} of {}", peers.len()),
                sum("/active"),
                sum(if *block == "http" { "/requests" } else { "/connections" }),
                sum("/fails"),
            ]);
        }
    }
    if rows.is_empty() {
        let hint = "no group has a `zone`, without which its servers are not shown";
        return session.screen.line(hint);
    }
    limited(&session.screen, &["group", "of", "up", "now", "requests", "fails"], rows)
}

/// A group that a server has.
struct Group {
    client: Client,
    block: &'static str,
    name: String,
    value: Value,
}

fn found(session: &Session, blocks: &[&'static str], name: &str) -> Result<Group, Failure> {
    let client = session.client()?;
    let mut last = Failure::Other(String::new());
    for block in blocks {
        match client.get(&format!("{block}/upstreams/{}", encoded(name))) {
            Ok(value) => return Ok(Group { client, block, name: name.to_owned(), value }),
            Err(failure @ Failure::Refused { status: 404, .. }) => last = failure,
            Err(failure) => return Err(failure),
        }
    }
    Err(last)
}

fn one(session: &Session, group: &Group) -> Result<(), Failure> {
    if session.json() {
        return session.screen.json(&group.value);
    }
    let peers = group.value["peers"].as_array().into_iter().flatten();
    let rows = peers.map(|peer| {
        vec![
            number(peer, "/id").to_string(),
            text(peer, "/server").to_owned(),
            text(peer, "/state").to_owned(),
            number(peer, "/weight").to_string(),
            number(peer, "/active").to_string(),
            (number(peer, "/requests") + number(peer, "/connections")).to_string(),
            number(peer, "/responses/5xx").to_string(),
            number(peer, "/fails").to_string(),
            format!("{} ms", number(peer, "/response_time")),
        ]
    });
    let titles = ["id", "server", "state", "weight", "now", "requests", "5xx", "fails", "response"];
    limited(&session.screen, &titles, rows.collect())
}

fn change(
    session: &Session,
    blocks: &[&'static str],
    group: &str,
    command: &str,
    rest: &[&str],
) -> Result<(), Failure> {
    let (server, body) = match (command, rest) {
        ("drain", [server]) => (*server, json!({ "drain": true })),
        ("down", [server]) => (*server, json!({ "down": true })),
        ("up", [server]) => (*server, json!({ "down": false, "drain": false })),
        ("weight", [server, weight]) => {
            let weight: u32 = weight
                .parse()
                .map_err(|_| Failure::Usage(format!("invalid weight \"{weight}\"")))?;
            (*server, json!({ "weight": weight }))
        }
        ("add" | "remove", [server]) => (*server, Value::Null),
        ("drain" | "down" | "up" | "weight" | "add" | "remove", _) => {
            return Err(Failure::Usage(format!("\"{command}\" with other words behind it")));
        }
        _ => return Err(Failure::Usage(format!("unknown command \"{command}\""))),
    };
    let group = found(session, blocks, group)?;
    let path = format!("{}/upstreams/{}/servers", group.block, encoded(&group.name));
    let changed = match command {
        "add" => group.client.send("POST", &path, Some(&json!({ "server": server })))?,
        "remove" => {
            let id = group.server(server)?;
            group.client.send("DELETE", &format!("{path}/{id}"), None)?
        }
        _ => {
            let id = group.server(server)?;
            group.client.send("PATCH", &format!("{path}/{id}"), Some(&body))?
        }
    };
    match changed {
        Some(value) if session.json() => session.screen.json(&value),
        _ => one(session, &found(session, &[group.block], &group.name)?),
    }
}

impl Group {
    /// Returns the number of a server that is named by it, or by its address where only one has it.
    fn server(&self, name: &str) -> Result<u64, Failure> {
        let peers = self.value["peers"].as_array().map_or(&[][..], Vec::as_slice);
        let is_named = |peer: &&Value| [text(peer, "/server"), text(peer, "/name")].contains(&name);
        let by_id = peers.iter().find(|peer| number(peer, "/id").to_string() == name);
        let mut named = peers.iter().filter(is_named);
        let found = match (by_id, named.next(), named.next()) {
            (Some(peer), _, _) | (None, Some(peer), None) => peer,
            (None, Some(_), Some(_)) => {
                let text = format!("several servers of \"{}\" are \"{name}\"", self.name);
                return Err(Failure::Usage(format!("{text}: write the number of one")));
            }
            (None, None, _) => {
                let text = format!("\"{}\" has no server \"{name}\"", self.name);
                return Err(Failure::Refused { status: 404, text });
            }
        };
        Ok(number(found, "/id"))
    }
}
