//! Published configurations: checked with `-t`, then served by Tidegate and genuine nginx. The responses of both to the
//! same requests are compared.
//!
//! The steps of a row of the list: its text is framed for its context, parsed, and [adapted](adapt) to this
//! machine; nginx decides whether it is a configuration, and missing parts of its other files are added; Tidegate checks
//! it, and directives that it has not built are left out for both; then each serves it on the same ports, one
//! after the other, and [`compare`] compares the responses. Servers share ports, files and times, so that nothing
//! else differs between them.

mod adapt;
mod client;
mod compare;
mod forms;
mod list;
mod logs;
mod places;
mod report;
mod requests;
mod samples;
mod serve;
mod stubs;
#[cfg(test)]
mod tests;

pub use report::ConfigurationsReport;

use crate::bell::{Failure, locked};
use crate::server::Program;
use adapt::{Additions, Source, adapt};
use list::{Context, Mirror, Row};
use places::Places;
use report::{ComparisonResult, Outcome, Served};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use stubs::Stubs;
use tidegate_conf::{Statement, print_statements};

/// Additions and omissions that are tried for one configuration at most.
const REPAIRS_MAX: usize = 16;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct ConfigurationsOptions {
    /// The list, in tab-separated rows.
    pub list: PathBuf,
    /// The directory with the repositories.
    pub mirrors: PathBuf,
    /// The reference server.
    pub nginx: Program,
    /// The server under test.
    pub tidegate: Program,
    /// Only rows whose `repository path` contains this.
    pub filter: String,
    /// Number of rows that run at the same time.
    pub jobs: usize,
    /// The directory of a packaged server's files that configurations include.
    pub standard: PathBuf,
    /// User and group of the workers, where the harness is root.
    pub user: Option<String>,
    /// Whether the scratch directories are kept.
    pub keep: bool,
}

/// The user and group for workers: `nobody`, where this process is root.
pub fn workers_user() -> Option<String> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let known = |name: &&str| groups.lines().any(|line| line.split(':').next() == Some(name));
    let group = ["nogroup", "nobody"].into_iter().find(known)?;
    rustix::process::geteuid().is_root().then(|| format!("nobody {group}"))
}

/// Runs all rows of the list; `on_outcome` is called with each configuration's result.
pub fn configurations(
    options: &ConfigurationsOptions,
    on_outcome: impl Fn(&Outcome) + Sync,
) -> Result<ConfigurationsReport, Failure> {
    let text = std::fs::read_to_string(&options.list)
        .map_err(|error| Failure::new(format!("{}: {error}", options.list.display())))?;
    let mut rows = list::parse(&text)?;
    rows.retain(|row| row.to_string().contains(&options.filter));
    let stubs = Stubs::start()?;
    let queue = Mutex::new(rows.iter());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = locked(&queue).next();
                    let Some(row) = next else { return };
                    for outcome in row_outcomes(row, options, stubs) {
                        on_outcome(&outcome);
                        locked(&outcomes).push(outcome);
                    }
                }
            });
        }
    });
    let mut outcomes = locked(&outcomes).split_off(0);
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(ConfigurationsReport { outcomes })
}

/// Returns one outcome for a file, one for each block of a document.
fn row_outcomes(row: &Row, options: &ConfigurationsOptions, stubs: Stubs) -> Vec<Outcome> {
    let skipped = |why: Failure| {
        vec![Outcome {
            name: row.to_string(),
            result: ComparisonResult::Skipped(why.0),
            missing: Vec::new(),
        }]
    };
    let opened = Mirror::open(&options.mirrors, &row.repository);
    let (mirror, text) = match opened.and_then(|mirror| {
        let text = mirror.read(&row.path)?;
        Ok((mirror, text))
    }) {
        Ok(found) => found,
        Err(failure) => return skipped(failure),
    };
    let one = |name: String, text: &[u8], contexts: &[Context]| {
        let attempt = Attempt { options, mirror: &mirror, path: &row.path, text, stubs };
        attempt.outcome(name, contexts)
    };
    if !row.contexts.is_empty() {
        return vec![one(row.to_string(), &text, &row.contexts)];
    }
    let blocks = list::fenced(&String::from_utf8_lossy(&text));
    let contexts = [Context::Main, Context::Http, Context::Server, Context::Location];
    let numbered = blocks.iter().enumerate();
    numbered
        .map(|(index, block)| one(format!("{row}#{}", index + 1), block.as_bytes(), &contexts))
        .collect()
}

/// The state of one configuration.
struct Attempt<'a> {
    options: &'a ConfigurationsOptions,
    mirror: &'a Mirror,
    path: &'a str,
    text: &'a [u8],
    stubs: Stubs,
}

/// A configuration that nginx accepts, as it was written to the scratch directory.
struct Taken {
    tree: Vec<Statement>,
    adapted: Vec<Statement>,
    places: Places,
    additions: Additions,
}

impl Attempt<'_> {
    fn outcome(&self, name: String, contexts: &[Context]) -> Outcome {
        let mut missing = Vec::new();
        let directory = match tempfile::Builder::new().prefix("configuration-").tempdir() {
            Ok(directory) => directory,
            Err(error) => {
                return Outcome {
                    name,
                    result: ComparisonResult::Skipped(error.to_string()),
                    missing,
                };
            }
        };
        let result = self.result(directory.path(), contexts, &mut missing);
        if self.options.keep {
            println!("{name}: {}", directory.keep().display());
        }
        let result = result.unwrap_or_else(|failure| ComparisonResult::Failed(failure.0));
        Outcome { name, result, missing }
    }

    fn result(
        &self,
        scratch: &Path,
        contexts: &[Context],
        missing: &mut Vec<String>,
    ) -> Result<ComparisonResult, Failure> {
        let mut first = None;
        for context in contexts {
            for includes in [true, false] {
                match self.taken(scratch, *context, includes)? {
                    Ok(taken) => return self.both(taken, missing),
                    Err(said) => {
                        first.get_or_insert(said);
                    }
                }
            }
        }
        Ok(ComparisonResult::Refused(first.unwrap_or_default()))
    }

    /// Returns the configuration that nginx accepts, or nginx's error.
    fn taken(
        &self,
        scratch: &Path,
        context: Context,
        includes: bool,
    ) -> Result<Result<Taken, String>, Failure> {
        let Self { mirror, path, text, .. } = *self;
        let standard = &self.options.standard;
        let source = Source { mirror, path, text, context, includes, standard };
        let tree = match source.parse() {
            Ok(tree) => tree,
            Err(failure) => return Ok(Err(format!("not parsed: {failure}"))),
        };
        let mut places = Places::new(scratch, self.stubs);
        let mut additions = Additions { user: self.options.user.clone(), ..Additions::default() };
        let mut said = String::new();
        for _ in 0..REPAIRS_MAX {
            let adapted = adapt(&tree, &mut places, &additions)?;
            write_configuration(&places, &adapted)?;
            let (taken, output) = serve::check(&self.options.nginx, scratch)?;
            if taken {
                return Ok(Ok(Taken { tree, adapted, places, additions }));
            }
            said = complaint(&output);
            match repair(&said, &tree) {
                Some(addition) if !additions.http.contains(&addition) => {
                    additions.http.push(addition);
                }
                _ => break,
            }
        }
        Ok(Err(said))
    }

    /// Checks it with Tidegate, without unsupported directives, and then compares the responses of both.
    fn both(
        &self,
        mut taken: Taken,
        missing: &mut Vec<String>,
    ) -> Result<ComparisonResult, Failure> {
        let scratch = taken.places.scratch.clone();
        loop {
            let (takes, output) = serve::check(&self.options.tidegate, &scratch)?;
            if takes {
                break;
            }
            let unbuilt = unbuilt(&output);
            let new: Vec<String> =
                unbuilt.into_iter().filter(|name| !missing.contains(name)).collect();
            if new.is_empty() && missing.iter().any(|name| name.starts_with('$')) {
                return Ok(ComparisonResult::Bare);
            }
            if new.is_empty() || missing.len() >= REPAIRS_MAX {
                return Ok(ComparisonResult::Mistaken(complaint(&output)));
            }
            missing.extend(new);
            taken.additions.without.clone_from(missing);
            taken.adapted = adapt(&taken.tree, &mut taken.places, &taken.additions)?;
            write_configuration(&taken.places, &taken.adapted)?;
        }
        if !missing.is_empty() && !serve::check(&self.options.nginx, &scratch)?.0 {
            return Ok(ComparisonResult::Bare);
        }
        let mut requests = requests::requests(&taken.adapted, &taken.places);
        if !serve::is_recent(&self.options.nginx, &scratch)? {
            requests.retain(|request| !forms::has_changed(request));
        }
        let theirs = serve::serve(&self.options.nginx, &taken.places, &requests)?;
        let ours = serve::serve(&self.options.tidegate, &taken.places, &requests)?;
        let mut served = Served { complaints: ours.complaints, ..Served::default() };
        served.unasked = requests.len() - theirs.responses.len().min(ours.responses.len());
        for ((request, nginx), tidegate) in
            requests.iter().zip(theirs.responses).zip(ours.responses)
        {
            served.add(request, nginx, tidegate);
        }
        if served.unasked == 0 {
            served.logs = logs::differences(theirs.logs, ours.logs, &served.meant_lines);
        }
        Ok(ComparisonResult::Served(served))
    }
}

fn write_configuration(places: &Places, statements: &[Statement]) -> Result<(), Failure> {
    let path = places.scratch.join("nginx.conf");
    std::fs::write(&path, print_statements(statements))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    serve::prepare(places)?;
    serve::refill(places)
}

/// Returns the first mistake that a server reported, without its position.
fn complaint(output: &str) -> String {
    let line = output.lines().find(|line| line.contains("[emerg]")).or(output.lines().next());
    let line = line.unwrap_or_default();
    let line = line.split("[emerg] ").nth(1).unwrap_or(line);
    // nginx numbers its processes here.
    let line =
        line.split_once(": ").filter(|(id, _)| id.contains('#')).map_or(line, |(_, rest)| rest);
    line.rsplit_once(" in /").map_or(line, |(text, _)| text).to_owned()
}

/// Returns the names that Tidegate reports as not built: directives, parameters of `listen`, variables.
fn unbuilt(output: &str) -> Vec<String> {
    let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let lines = output.lines().filter(|line| line.contains("[emerg]"));
    let names = lines.filter_map(|line| {
        let parameter = ["\"http2\"", "\"quic\""].iter().any(|name| line.contains(name));
        let unbuilt =
            line.contains("not supported") || line.contains("invalid parameter") && parameter;
        let variable = ["unknown \"http2\" variable", "unknown \"http3\" variable"];
        match variable.iter().any(|text| line.contains(text)) {
            true => quoted(line).map(|name| format!("${name}")),
            false => quoted(line).filter(|_| unbuilt),
        }
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// The statement of `http` that another file of the configuration must have had, by what nginx misses.
fn repair(said: &str, tree: &[Statement]) -> Option<String> {
    let name = said.split('"').nth(1)?;
    if said.starts_with("unknown") && said.ends_with("variable") {
        return Some(format!("map $request_method ${name} {{ default \"\"; }}"));
    }
    if said.starts_with("unknown log format") {
        return Some(format!("log_format {name} \"$request $status\";"));
    }
    if !said.contains("shared memory zone") && !said.contains("zone") {
        return None;
    }
    let mut uses = BTreeMap::new();
    users(tree, name, &mut uses);
    let user = uses.into_keys().next()?;
    Some(match user.as_str() {
        "limit_req" => format!("limit_req_zone $binary_remote_addr zone={name}:1m rate=100000r/s;"),
        "limit_conn" => format!("limit_conn_zone $binary_remote_addr zone={name}:1m;"),
        cache => format!("{cache}_path {name} keys_zone={name}:1m;"),
    })
}

/// Directives that name a zone.
fn users(tree: &[Statement], zone: &str, found: &mut BTreeMap<String, ()>) {
    for statement in tree {
        let words = statement.args.iter().map(|word| word.display());
        let name = statement.name.display();
        let names_it = words.into_iter().any(|word| word == zone || word == format!("zone={zone}"));
        if names_it && (name.ends_with("_cache") || name == "limit_req" || name == "limit_conn") {
            found.insert(name.into_owned(), ());
        }
        users(statement.children(), zone, found);
    }
}
