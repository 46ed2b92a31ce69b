//! Test harness (development only): cases written in Markdown run over real sockets against
//! Tidegate and against genuine nginx. `tests/cases/README.md` describes the language.
//!
//! [`run_cases`] is the one entry; the binary `tidegate-cases` calls it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod acme;
mod any_server;
pub mod bell;
pub mod case;
mod certificates;
mod client;
mod coherence;
mod conditions;
mod configurations;
mod coverage;
mod directory;
mod each;
mod failing;
mod fixtures;
mod flood;
mod frame;
mod guard;
mod http2;
mod markdown;
mod names;
mod ops;
mod origin;
mod place;
mod places;
pub mod program;
mod relay;
mod report;
mod restarts;
mod run;
mod server;
mod syntax;
#[cfg(test)]
mod tests;
mod texts;
mod torture;
mod update;
mod wire;
mod words;

pub use acme::{
    AcmeOptions, AcmeReport, AcmeServerOptions, AcmeServerReport, ClientOptions, acme, acme_client,
    acme_server,
};
pub use coherence::{CoherenceOptions, CoherenceReport, coherence};
pub use configurations::{
    ConfigurationsOptions, ConfigurationsReport, configurations, workers_user,
};
pub use coverage::{Coverage, Rows};
pub use report::{Outcome, Report, Summary};
pub use restarts::{RestartOptions, RestartReport, restarts};
pub use server::Program;
pub use torture::{ChangedOptions, ChangedReport, TortureOptions, TortureReport, changed, torture};

use bell::{Failure, locked};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The deadline of all waits of one case. A passing case takes a fraction of a second.
pub const CASE_TIME: Duration = Duration::from_secs(30);

/// A server that cases run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum World {
    /// Tidegate's binary.
    Tidegate,
    /// Tidegate's binary for Windows, under Wine.
    Windows,
    /// Genuine nginx, the reference for the cases.
    Nginx,
}

impl World {
    /// Whether statements about `other` apply to this world: `tidegate` includes Tidegate on Windows.
    pub fn is(self, other: Self) -> bool {
        self == other || (self == Self::Windows && other == Self::Tidegate)
    }
}

impl FromStr for World {
    type Err = Failure;

    fn from_str(name: &str) -> Result<Self, Failure> {
        match name {
            "tidegate" => Ok(Self::Tidegate),
            "windows" => Ok(Self::Windows),
            "nginx" => Ok(Self::Nginx),
            _ => Err(Failure::new(format!("unknown world `{name}`: tidegate, windows or nginx"))),
        }
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Tidegate => "tidegate",
            Self::Windows => "windows",
            Self::Nginx => "nginx",
        })
    }
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The programs to run against.
    pub programs: Vec<Program>,
    /// Cases that run at the same time.
    pub jobs: usize,
    /// Only cases whose `file:line: title` contains this.
    pub filter: String,
    /// Directory of nginx's loadable modules.
    pub modules: String,
    /// Whether the directories of cases are kept.
    pub keep: bool,
    /// Failed runs are repeated at the end, one at a time.
    pub again: bool,
    /// Literals that failing rows expected are replaced by what was received, in the case files.
    pub update: bool,
}

impl Options {
    /// Runs everything against `programs`, several cases at a time.
    pub fn new(programs: Vec<Program>) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            programs,
            jobs: 2 * cores,
            filter: String::new(),
            modules: "/usr/lib/nginx/modules".to_owned(),
            keep: false,
            again: false,
            update: false,
        }
    }
}

/// Runs the cases of the files `paths` and below the directories among them. `on_report` is called with each result as
/// it comes.
///
/// # Errors
/// Mistakes in case files: nothing was started then.
pub fn run_cases(
    paths: &[PathBuf],
    options: &Options,
    on_report: impl Fn(&Report) + Sync,
) -> Result<Summary, Vec<Failure>> {
    let mut cases = case::load(paths)?;
    cases.retain(|case| case.name().contains(&options.filter));
    let work: Vec<_> = cases
        .iter()
        .flat_map(|case| options.programs.iter().map(move |program| (case, program)))
        .collect();
    let queue = Mutex::new(work.iter());
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, work.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let next = locked(&queue).next();
                    let Some((case, program)) = next else { return };
                    let (report, received) = one(case, program, options);
                    on_report(&report);
                    locked(&reports).push((*case, report, received));
                }
            });
        }
    });
    let mut done = locked(&reports).split_off(0);
    let failed = |report: &Report| matches!(report.outcome, Outcome::Failed(_));
    for (case, report, received) in &mut done {
        let program = options.programs.iter().find(|program| program.world == report.world);
        if let Some(program) = program.filter(|_| options.again && failed(report)) {
            (*report, *received) = one(case, program, options);
            on_report(report);
        }
    }
    let mut updated = Vec::new();
    if options.update {
        let runs: Vec<_> = done
            .iter()
            .map(|(case, report, received)| (*case, report, received.as_ref()))
            .collect();
        updated = update::update(&runs).map_err(|failure| vec![failure])?;
    }
    let mut reports: Vec<Report> = done.into_iter().map(|(_, report, _)| report).collect();
    reports.sort_by(|a, b| (&a.name, a.world).cmp(&(&b.name, b.world)));
    let differences = cases.iter().flat_map(|case| {
        case.script.differs.iter().map(|(world, reason)| (case.name(), *world, reason.clone()))
    });
    Ok(Summary { cases: cases.len(), differences: differences.collect(), updated, reports })
}

fn one(
    case: &case::Case,
    program: &Program,
    options: &Options,
) -> (Report, Option<update::Received>) {
    let begun = Instant::now();
    let (outcome, received) = match run::applies(case, program.world) {
        Err(reason) => (Outcome::Skipped(reason), None),
        Ok(()) => match run::run(case, program, &options.modules, options.keep) {
            Ok(()) => (Outcome::Passed, None),
            Err(failed) => (Outcome::Failed(failed.text), failed.received),
        },
    };
    let report = Report { name: case.name(), world: program.world, outcome, took: begun.elapsed() };
    (report, received)
}
