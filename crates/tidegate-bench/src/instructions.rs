//! Counts the instructions that Tidegate executes in user mode for one request, and holds them against a table.
//!
//! The server runs under valgrind's callgrind without a master process and serves one kept connection, so that the
//! same program gives the same count on a busy machine as on a quiet one. A row of the table that grows by more than
//! [`GROWTH_MAX`] is a failure; one that shrinks by more is reported, so that the table can follow.
//! Instructions that lock a line of the caches are counted besides: one more is a failure.
//! Time, system calls and caches are not seen here: the other suites measure those beside nginx.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::config::protocols::TINY;
use crate::config::{FIXED_BODY, Lookup, SMALL_FILE, Scenario};
use crate::origin::Origin;
use crate::server::{Binary, Kind};
use counts::Counts;
use table::Known;
pub(crate) use traced::counting;
use visit::{Request, Visit};

mod core;
mod counts;
mod http2;
mod http3;
mod table;
mod traced;
mod visit;

/// The growth of a row that is still taken: 2 %.
pub(crate) const GROWTH_MAX: f64 = 0.02;

/// One kind of request whose cost is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub name: &'static str,
    work: Work,
}

/// The program that is counted, and its requests.
#[derive(Clone, Copy, Debug)]
enum Work {
    Http1(Scenario, Request),
    /// HTTP/2 without TLS, ten streams at once; the target and the length of the response.
    Http2(&'static str, u64),
    /// HTTP/3, likewise.
    Http3(&'static str, u64),
    /// `tidegate-h2` alone, in this program.
    Core,
}

/// The paths, by far the most requests of a server, and the share of HTTP/2 in its own.
pub(crate) const PATHS: [Path; 17] = [
    path("fixed", Scenario::Fixed, Request::to("/")),
    path("fixed-location", Scenario::Located, Request::to("/")),
    path("fixed-counted", Scenario::Counted, Request::to("/")),
    path("fixed-timed", Scenario::Timed, Request::to("/")),
    path("file", Scenario::Depth(Lookup::Plain), Request::to("/small.html")),
    path("file-open-cache", Scenario::Files, Request::to("/small.html")),
    path("file-large", Scenario::Files, Request::to("/large.bin")),
    path("file-range", Scenario::Files, Request::range("/large.bin")),
    path("file-unchanged", Scenario::Files, Request::conditional("/small.html")),
    path("file-missing", Scenario::Depth(Lookup::Plain), Request::missing("/missing.html")),
    path("proxy-default", Scenario::ProxyDefault, Request::to(KILOBYTE)),
    path("proxy-keepalive", Scenario::ProxyTuned, Request::to(KILOBYTE)),
    path("cache-hit", Scenario::Cache, Request::to("/bytes?n=10240&max-age=3600")),
    Path { name: "h2-fixed", work: Work::Http2(TINY, FIXED_BODY.len() as u64) },
    Path { name: "h2-file", work: Work::Http2("/small.html", SMALL_FILE.1) },
    Path { name: "h2-core", work: Work::Core },
    Path { name: "h3-fixed", work: Work::Http3(TINY, FIXED_BODY.len() as u64) },
];

const KILOBYTE: &str = "/bytes?n=1024";

const fn path(name: &'static str, scenario: Scenario, request: Request) -> Path {
    Path { name, work: Work::Http1(scenario, request) }
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    tidegate: Option<PathBuf>,
    table: Option<PathBuf>,
    update: bool,
    only: Vec<String>,
}

/// Runs `tidegate-bench instructions …`; `None` for any other command line. `Some(Ok(false))`: a row grew.
///
/// # Errors
/// In words: a wrong argument, a program that cannot be run, a table that cannot be read.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Option<Result<bool, String>> {
    let parser = crate::options::subcommand("instructions", arguments)?;
    Some(parse(parser).map_err(|error| error.to_string()).and_then(|arguments| count(&arguments)))
}

fn parse(mut parser: lexopt::Parser) -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut arguments = Arguments::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tidegate") => arguments.tidegate = Some(parser.value()?.into()),
            Long("table") => arguments.table = Some(parser.value()?.into()),
            Long("only") => arguments.only.push(parser.value()?.string()?),
            Long("update") => arguments.update = true,
            other => return Err(other.unexpected()),
        }
    }
    if arguments.update && (arguments.table.is_none() || !arguments.only.is_empty()) {
        return Err("--update writes a whole table: it needs --table, and no --only".into());
    }
    Ok(arguments)
}

fn count(arguments: &Arguments) -> Result<bool, String> {
    let tidegate = match &arguments.tidegate {
        Some(path) => path.clone(),
        None => crate::beside_this_program("tidegate"),
    };
    for name in &arguments.only {
        if !PATHS.iter().any(|path| path.name == name) {
            let names = PATHS.map(|path| path.name).join(", ");
            return Err(format!("no path is named \"{name}\"; there are {names}"));
        }
    }
    let tidegate = Binary::probe(Kind::Nginx, &tidegate)
        .map_err(|error| format!("{}: {error}", tidegate.display()))?;
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind is not installed".to_owned());
    }
    let known = match &arguments.table {
        Some(file) if !arguments.update => {
            let text = fs::read_to_string(file);
            table::parse(&text.map_err(|error| format!("{}: {error}", file.display()))?)?
        }
        _ => Vec::new(),
    };
    let origin = Origin::start().map_err(|error| format!("origin: {error}"))?;
    let mut counts = Vec::new();
    let mut within = true;
    for path in &PATHS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|name| name == path.name) {
            continue;
        }
        let before = known.iter().find(|(name, _)| name == path.name).map(|(_, known)| *known);
        let count = match least(path, &tidegate, &origin, before) {
            // A server of an older kind, as long as the table has no such row either.
            Err(reason) if before.is_none() && reason.contains(http2::NOT_SERVED) => {
                println!("{reason}");
                continue;
            }
            other => other?,
        };
        within &= table::report(path.name, count, before);
        counts.push((path.name, count));
    }
    if let (true, Some(file)) = (arguments.update, &arguments.table) {
        let mut text = table::HEADER.to_owned();
        for (name, count) in counts {
            text.push_str(&table::line(name, count));
        }
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(within)
}

/// The instructions of the path of this name.
///
/// # Errors
/// In words: no such path, no valgrind, a server that does not serve.
pub(crate) fn count_of(name: &str, tidegate: &Binary) -> Result<u64, String> {
    let path = PATHS.iter().find(|path| path.name == name);
    let path = path.ok_or_else(|| format!("no path is named \"{name}\""))?;
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind is not installed".to_owned());
    }
    let origin = Origin::start().map_err(|error| format!("origin: {error}"))?;
    least(path, tidegate, &origin, None).map(|counts| counts.instructions)
}

/// The counts of a path. Those that are too large are counted again: timers and threads that run by chance only add.
fn least(
    path: &Path,
    tidegate: &Binary,
    origin: &Origin,
    before: Option<Known>,
) -> Result<Counts, String> {
    let count = || match path.work {
        Work::Http1(scenario, request) => traced::count(tidegate, scenario, request, origin),
        Work::Http2(target, bytes) => http2::count(tidegate, target, bytes, origin),
        Work::Http3(target, bytes) => http3::count(tidegate, target, bytes, origin),
        Work::Core => core::count(),
    };
    let once = || count().map_err(|why| format!("{}: {why}", path.name));
    let mut least = once()?;
    for _ in 1..ATTEMPTS {
        if !before.is_some_and(|before| table::has_grown(least, before)) {
            break;
        }
        eprintln!("{}: {least:?} instead of {before:?}, counted again", path.name);
        let again = once()?;
        least.instructions = least.instructions.min(again.instructions);
        least.locked = least.locked.min(again.locked);
    }
    Ok(least)
}

/// How often a row that has grown is counted.
const ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests;
