//! `state FILE`: a group's servers as commands have changed them, kept over restarts.
//!
//! The file holds `server` directives. It is read with the configuration, and rewritten with every change: a new file
//! replaces the old one, so that it is complete at any time.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{error, fmt};

use tidegate_conf::{Args, Contexts, Diagnostic, FsLoader, Parser, Span};
use tidegate_core::blocking;
use tidegate_upstream::{Group, Member, ServerOptions};

use super::Conf;
use super::server::{ServerConf, set_server};

/// One writer of this process at a time, of whichever configuration: the last one writes the current state.
static WRITING: Mutex<()> = Mutex::new(());

/// The state file of a group's servers.
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub fn new(path: PathBuf) -> StateFile {
        StateFile { path }
    }

    /// Reads the servers in the file; none where there is no file yet.
    ///
    /// # Errors
    /// It cannot be read, or holds anything but servers.
    pub fn read(&self, span: Span) -> Result<Vec<ServerConf>, Diagnostic> {
        let shown = self.path.display();
        let fail = |what: String| Diagnostic::emerg(what).at(span);
        match fs::read(&self.path) {
            Ok(text) => {
                parse(&text).map_err(|error| fail(format!("{error} in state file \"{shown}\"")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => {
                let error = tidegate_os::os_error(&error);
                Err(fail(format!("open() \"{shown}\" failed ({error})")))
            }
        }
    }

    /// Writes the group's current servers, on a pool thread.
    pub async fn write(self: Arc<Self>, group: Arc<Group>) -> io::Result<()> {
        blocking::run(move || self.write_now(&group)).await
    }

    fn write_now(&self, group: &Group) -> io::Result<()> {
        let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let text = render(&group.members());
        let mut name = self.path.clone().into_os_string();
        // During an upgrade another process may write as well.
        name.push(format!(".{}.new", std::process::id()));
        let near = PathBuf::from(name);
        let mut file = File::create(&near)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&near, &self.path)
    }
}

/// Renders servers as directives, one on each line.
fn render(members: &[Member]) -> String {
    let mut text = String::new();
    for member in members {
        let Member { server, options, name, .. } = member;
        let default = ServerOptions::default();
        let _ = match server.bytes().all(is_plain) {
            true => write!(text, "server {server}"),
            false => write!(text, "server {}", quoted(server)),
        };
        let mut put = |differs: bool, word: &str| {
            if differs {
                text.push(' ');
                text.push_str(word);
            }
        };
        put(options.weight != default.weight, &format!("weight={}", options.weight));
        put(options.max_conns != 0, &format!("max_conns={}", options.max_conns));
        put(options.max_fails != default.max_fails, &format!("max_fails={}", options.max_fails));
        let (timeout, slow) = (options.fail_timeout.as_secs(), options.slow_start.as_secs());
        put(options.fail_timeout != default.fail_timeout, &format!("fail_timeout={timeout}s"));
        put(slow != 0, &format!("slow_start={slow}s"));
        if let Some(route) = &options.route {
            put(true, &quoted(&format!("route={route}")));
        }
        put(options.backup, "backup");
        put(options.down, "down");
        put(options.drain, "drain");
        put(name.is_some(), "resolve");
        if let Some(service) = name.as_ref().and_then(|name| name.service.as_ref()) {
            put(true, &quoted(&format!("service={service}")));
        }
        text.push_str(";\n");
    }
    text
}

/// Whether a byte needs no quotes in a word.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'\\;{}#$".contains(&byte)
}

/// Quotes a word that may contain separators.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// An error in a state file, in the words of configuration errors.
#[derive(Debug, PartialEq, Eq)]
struct StateError(String);

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for StateError {}

fn parse(text: &[u8]) -> Result<Vec<ServerConf>, StateError> {
    let loader = FsLoader;
    let mut parser = Parser::new(&loader, std::path::Path::new("/"));
    let statements = parser.parse_fragment("state", text);
    let (_, diagnostics) = parser.finish();
    if let Some(first) = diagnostics.first() {
        return Err(StateError(first.message.replace(" in -g option", "")));
    }
    let mut conf = Conf::default();
    for statement in &statements {
        let args = Args::new(statement, Contexts::UPSTREAM);
        if statement.name.bytes != b"server" || args.len() == 0 || statement.block.is_some() {
            let name = statement.name.display();
            return Err(StateError(format!("unknown directive \"{name}\"")));
        }
        set_server(&mut conf, &args)
            .map_err(|diagnostic| StateError(diagnostic.message.clone()))?;
    }
    // Their positions are in another file than the configuration.
    conf.servers.iter_mut().for_each(|server| server.span = Span::NONE);
    Ok(conf.servers)
}
