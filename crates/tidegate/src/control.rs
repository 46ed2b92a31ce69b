//! Subcommands: what a running server does and why, and changes of its state, from a terminal or a script.
//!
//! ```text
//! tidegate status
//! tidegate upstreams app drain 10.0.0.1:80
//! tidegate log -f -q 'status >= 500 and time > 1s'
//! ```
//! They use the API (`/api/9/…`) over the socket of `admin_socket`, which they find in the configuration (`-c`), and have
//! no rights but those that the socket's file gives. What the server says has texts of its clients: all of it is escaped
//! before it reaches a terminal ([`screen`]).
//!
//! Exit codes: 0 for success; 1 where the server refused, or `lint` has found something; 2 for a wrong command line;
//! 3 where no server was reached.

mod arguments;
mod caches;
mod client;
mod explain;
mod failure;
mod figures;
mod files;
mod format;
mod groups;
mod lint;
mod logs;
mod pairs;
mod screen;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::process::ExitCode;

use arguments::{Given, Opt};
use client::Client;
use failure::Failure;
use screen::Screen;

use crate::configuration::Origin;
use crate::options::Options;

/// A subcommand.
pub(crate) struct Command {
    name: &'static str,
    /// The words behind it, as a manual writes them; one form a line.
    words: &'static [&'static str],
    /// What it does, in one line.
    what: &'static str,
    /// Options besides [`arguments::COMMON`].
    options: &'static [Opt],
    run: fn(&Session) -> Result<(), Failure>,
}

impl PartialEq for Command {
    fn eq(&self, other: &Command) -> bool {
        self.name == other.name
    }
}

impl Eq for Command {}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const STREAM: Opt = Opt::flag("stream", "the groups or zones of the `stream` block alone");

/// All of them, in the order of the manual.
const COMMANDS: &[Command] = &[
    Command {
        name: "status",
        words: &[""],
        what: "the server on one screen: connections, requests, servers, groups, caches",
        options: &[],
        run: figures::status,
    },
    Command {
        name: "top",
        words: &[""],
        what: "the same as rates, redrawn each second",
        options: &[
            Opt::flag("once", "print one interval and end"),
            Opt::value("interval", "SECONDS", "time between two readings, 1 to 60"),
        ],
        run: figures::top,
    },
    Command {
        name: "upstreams",
        words: &["", "U", "U drain|down|up N", "U weight N W", "U add ADDRESS", "U remove N"],
        what: "groups of servers, and changes of a server, by its number or address",
        options: &[STREAM],
        run: groups::run,
    },
    Command {
        name: "cache",
        words: &[
            "ls [ZONE [PREFIX]]",
            "stat ZONE",
            "purge ZONE KEY",
            "purge ZONE --prefix TEXT",
            "purge ZONE --tag TAG",
        ],
        what: "caches: sizes, hits, what is stored, and purges",
        options: &[
            Opt::value("count", "N", "with `ls ZONE`: so many entries, 1 to 1000; else 40")
                .short('n'),
            Opt::value("from", "PLACE", "with `ls ZONE`: go on where the list before has ended"),
            Opt::value("prefix", "TEXT", "purge all keys that begin so"),
            Opt::value("tag", "TAG", "purge all responses with this tag"),
            Opt::flag("soft", "make stale in place of removing"),
        ],
        run: caches::run,
    },
    Command {
        name: "explain",
        words: &["URL"],
        what: "which server and location a request would meet, and the directives that hold there",
        options: &[
            Opt::value("header", "FIELD", "`Host: NAME`, in place of the URL's host").short('H')
        ],
        run: explain::run,
    },
    Command {
        name: "certs",
        words: &[""],
        what: "certificates of servers: names, issuer, end, where they are used, and the state of ACME",
        options: &[],
        run: figures::certs,
    },
    Command {
        name: "drain",
        words: &["U N"],
        what: "let a server end its sessions and give it no new ones, by its number or address",
        options: &[Opt::flag("undo", "give it requests again")],
        run: groups::drain,
    },
    Command {
        name: "keyval",
        words: &["ls [ZONE]", "get ZONE KEY", "set ZONE KEY VALUE", "del ZONE KEY"],
        what: "pairs of `keyval_zone`",
        options: &[STREAM, Opt::value("expire", "TIME", "with `set`: its time to live, as `10s`")],
        run: pairs::run,
    },
    Command {
        name: "log",
        words: &[""],
        what: "requests as they end",
        options: &[
            Opt::flag("follow", "go on until interrupted; else until --count are there").short('f'),
            Opt::value("query", "EXPR", "only those for which it holds: 'status>=500 and time>1s'")
                .short('q'),
            Opt::value("count", "N", "end after so many; 10 without -f").short('n'),
        ],
        run: logs::log,
    },
    Command {
        name: "slow",
        words: &[""],
        what: "the latest requests of `slow_log`, with the cause of each",
        options: &[],
        run: logs::slow,
    },
    Command {
        name: "metrics",
        words: &[""],
        what: "all figures in the text format of Prometheus",
        options: &[],
        run: figures::metrics,
    },
    Command {
        name: "config",
        words: &[""],
        what: "the configuration with all that it includes; needs no server",
        options: &[],
        run: files::config,
    },
    Command {
        name: "lint",
        words: &[""],
        what: "dangerous or useless parts of the configuration; needs no server",
        options: &[],
        run: lint::run,
    },
    Command {
        name: "fmt",
        words: &["[FILE...]"],
        what: "the configuration's files in one style; needs no server",
        options: &[
            Opt::flag("check", "print the names of the files that would change, and change none"),
            Opt::flag("write", "change the files, in place of printing"),
        ],
        run: format::run,
    },
];

/// Returns the subcommand of a name.
pub(crate) fn command(name: &OsStr) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// What a subcommand works with.
struct Session {
    given: Given,
    origin: Origin,
    screen: Screen,
}

impl Session {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// No socket is configured, or the configuration cannot be read.
    fn client(&self) -> Result<Client, Failure> {
        if let Some(path) = self.given.value("socket") {
            return Ok(Client::of_socket(path.strip_prefix("unix:").unwrap_or(path).into()));
        }
        match self.given.value("url") {
            Some(url) => Client::of_url(url),
            None => files::admin_socket(&self.origin).map(Client::of_socket),
        }
    }

    fn json(&self) -> bool {
        self.given.flag("json")
    }
}

/// Runs a subcommand. `options` are those in front of it.
pub(crate) fn run(
    command: &'static Command,
    words: Vec<OsString>,
    mut options: Options,
) -> ExitCode {
    let given = match Given::parse(command, words, &mut options) {
        Ok(given) => given,
        Err(failure) => return failure.report(command.name),
    };
    if given.flag("help") {
        print!("{}", help(command));
        return ExitCode::SUCCESS;
    }
    let session = Session { given, origin: Origin::new(&options), screen: Screen::new() };
    match (command.run)(&session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(command.name),
    }
}

/// Returns the lines of the program's help about the subcommands.
pub(crate) fn summary() -> String {
    let mut text = String::new();
    for command in COMMANDS {
        let _ = writeln!(text, "  {:<14}: {}", command.name, command.what);
    }
    text
}

/// Returns the help of one subcommand.
fn help(command: &Command) -> String {
    let mut text = String::new();
    for (place, words) in command.words.iter().enumerate() {
        let start = if place == 0 { "Usage:" } else { "      " };
        let line = format!("{start} tidegate {} {words}", command.name);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "\n{}.\n\nOptions:", command.what);
    for option in command.options.iter().chain(arguments::COMMON) {
        let _ = writeln!(text, "  {:<22} {}", option.written(), option.what);
    }
    text.push_str(
        "\nExit codes: 0 success, 1 refused or found something, 2 wrong command line, 3 no server reached.\n",
    );
    text
}
