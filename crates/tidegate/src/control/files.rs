//! What subcommands read from the configuration's files: the server's socket, and the files themselves.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tidegate_conf::{SourceMap, Statement};
use tidegate_core::settings::full_path;

use super::Session;
use super::failure::Failure;
use crate::configuration::{self, Origin, Parsed};

/// Reads the configuration's files.
///
/// # Errors
/// One cannot be read, or has a mistake of syntax.
pub(super) fn read(origin: &Origin) -> Result<Parsed, Failure> {
    let parsed = configuration::read(origin);
    match parsed.first_mistake() {
        mistake if mistake.is_empty() => Ok(parsed),
        mistake => Err(Failure::Other(mistake)),
    }
}

/// Returns the path of `admin_socket`.
///
/// # Errors
/// There is none, or the configuration cannot be read.
pub(super) fn admin_socket(origin: &Origin) -> Result<PathBuf, Failure> {
    let parsed = configuration::read(origin);
    let mut sockets =
        parsed.statements().iter().filter(|statement| statement.name.bytes == b"admin_socket");
    let address = sockets.next_back().and_then(|statement| statement.args.first());
    let address = address.map(|word| word.display().into_owned()).unwrap_or_default();
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(full_path(&origin.prefix, path));
    }
    let file = origin.file.display();
    let reason = match parsed.first_mistake() {
        mistake if mistake.is_empty() => format!("{file} has no \"admin_socket\""),
        mistake => mistake,
    };
    Err(Failure::NoServer(format!(
        "{reason}; write `admin_socket unix:/run/tidegate.sock;` in its main context and reload, or name a running \
         server by --socket PATH or --url http://HOST:PORT/api"
    )))
}

/// `config`.
pub(super) fn config(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let parsed = read(&session.origin)?;
    if session.json() {
        let all = parsed.statements().iter().map(|one| statement(one, &parsed.sources));
        return session.screen.json(&all.collect());
    }
    let text = tidegate_conf::dump(&parsed.sources);
    session.screen.text(&String::from_utf8_lossy(&text))
}

/// Shows a statement with its place, and those of its block.
fn statement(statement: &Statement, sources: &SourceMap) -> Value {
    let mut value = Map::new();
    let span = statement.name.span;
    value.insert("directive".into(), statement.name.display().into());
    value.insert("file".into(), sources.file(span.file).map_or("", |file| file.name()).into());
    value.insert("line".into(), sources.line_column(span).0.into());
    let args: Vec<_> =
        statement.args.iter().map(|word| tidegate_conf::without_key(word.display())).collect();
    value.insert("args".into(), json!(args));
    if statement.block.is_some() {
        let block = statement.children().iter().map(|child| self::statement(child, sources));
        value.insert("block".into(), block.collect());
    }
    value.into()
}
