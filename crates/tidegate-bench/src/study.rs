//! The suite streaming: the tables of a published study of nginx's proxy cache under concurrent
//! misses, taken again on this machine.
//!
//! An origin sends each file over a given time in ten parts a second. Many clients walk the same
//! files. Reported for a server: requests to the origin, waiting time of bytes, time to the
//! first byte, and cost. Rows of servers that are not installed are left out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::{Scenario, Sharing};
use crate::load::TestRequest;
use crate::probe;
use crate::procfs;
use crate::report::Environment;
use crate::server::{Binary, Job, Kind, Server};
use crate::statistics::Spread;
use crate::suites::Context;
use crate::walk::walk;

pub(crate) mod chart;
pub(crate) mod figures;
mod page;
pub(crate) mod published;
pub(crate) mod table;

use chart::RunChart;
use figures::{Figures, Run};

/// One server in one way of working.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// For `--only`.
    pub name: &'static str,
    pub server: &'static str,
    pub mode: &'static str,
    program: Program,
    sharing: Sharing,
    /// Everything is in the cache before the clients connect.
    warm: bool,
}

/// The server of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Tidegate,
    Nginx,
    Varnish,
    TrafficServer,
}

/// The rows of each table in their order.
pub(crate) const ENTRIES: [Entry; 9] = [
    entry("tidegate-tempfile", "tempfile", Program::Tidegate, Sharing::Tempfile),
    entry("tidegate-lock", "lock", Program::Tidegate, Sharing::Lock),
    entry("tidegate-plain", "plain", Program::Tidegate, Sharing::Plain),
    entry("nginx-lock", "lock", Program::Nginx, Sharing::Lock),
    entry("nginx-plain", "plain", Program::Nginx, Sharing::Plain),
    entry("varnish", "as it is", Program::Varnish, Sharing::Plain),
    entry("trafficserver", "read while writer", Program::TrafficServer, Sharing::Plain),
    Entry { warm: true, ..entry("tidegate-hits", "hits", Program::Tidegate, Sharing::Plain) },
    Entry { warm: true, ..entry("nginx-hits", "hits", Program::Nginx, Sharing::Plain) },
];

const fn entry(
    name: &'static str,
    mode: &'static str,
    program: Program,
    sharing: Sharing,
) -> Entry {
    let server = match program {
        Program::Tidegate => "tidegate",
        Program::Nginx => "nginx",
        Program::Varnish => "varnish",
        Program::TrafficServer => "trafficserver",
    };
    Entry { name, server, mode, program, sharing, warm: false }
}

impl Entry {
    /// The installed program, if it is.
    fn binary<'a>(&self, context: &'a Context) -> Option<&'a Binary> {
        let other = |kind| context.others.iter().find(|binary| binary.kind == kind);
        match self.program {
            Program::Tidegate => Some(&context.tidegate),
            Program::Nginx => context.nginx.as_ref(),
            Program::Varnish => other(Kind::Varnish),
            Program::TrafficServer => other(Kind::TrafficServer),
        }
    }
}

/// One row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub entry: Entry,
    /// One for each round that could be measured.
    pub runs: Vec<Figures>,
    /// Of the first round.
    pub picture: RunChart,
    pub notes: Vec<String>,
}

/// All rows with one origin.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub warm: bool,
    /// The time in which the origin sends a file.
    pub seconds: f64,
    pub files: usize,
    pub rows: Vec<Row>,
}

impl Section {
    pub(crate) fn title(&self) -> String {
        match self.seconds {
            _ if self.warm => "everything in the cache".to_owned(),
            0.0 => "origin at full speed".to_owned(),
            seconds => format!("origin sends each file over {seconds} s"),
        }
    }
}

/// The whole suite.
pub(crate) struct Study {
    pub environment: Environment,
    pub clients: usize,
    pub object_bytes: u64,
    pub sections: Vec<Section>,
}

impl Study {
    /// Measures everything that the options select.
    pub(crate) fn measure(context: &Context, environment: Environment) -> Study {
        let options = &context.options;
        let cold = options.origin_seconds.iter().map(|seconds| (false, *seconds));
        let sections = [(true, 0.0)].into_iter().chain(cold).map(|(warm, seconds)| {
            let files = options.files.unwrap_or_else(|| usual_files(seconds, options.object_bytes));
            measure_section(context, Section { warm, seconds, files, rows: Vec::new() })
        });
        let sections = sections.filter(|section| !section.rows.is_empty()).collect();
        let (clients, object_bytes) = (options.clients, options.object_bytes);
        let mut study = Study { environment, clients, object_bytes, sections };
        study.compare_with_hits();
        study
    }

    /// Puts every run's cost in relation to nginx's for the same bytes as plain hits.
    pub(crate) fn compare_with_hits(&mut self) {
        let rows = self.sections.iter().filter(|section| section.warm).flat_map(|s| &s.rows);
        let nginx = rows.filter(|row| row.entry.program == Program::Nginx);
        let runs = nginx.flat_map(|row| &row.runs);
        let costs: Vec<f64> = runs.map(|run| run.cpu_seconds_per_gigabyte).collect();
        let Some(hits) = Spread::of(&costs) else { return };
        for run in self.sections.iter_mut().flat_map(|s| &mut s.rows).flat_map(|r| &mut r.runs) {
            run.cost_by_hits = run.cpu_seconds_per_gigabyte / hits.median;
        }
    }

    /// Returns the unmet requirements of Tidegate's rows, as text.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let mut unmet = Vec::new();
        for section in &self.sections {
            let ours = section.rows.iter().filter(|row| row.entry.program == Program::Tidegate);
            for row in ours {
                let place = format!("{}: {}", section.title(), row.entry.name);
                let reasons = unmet_of(section, row).into_iter();
                unmet.extend(reasons.map(|reason| format!("{place}: {reason}")));
            }
        }
        unmet
    }
}

fn unmet_of(section: &Section, row: &Row) -> Vec<String> {
    if row.runs.is_empty() {
        return vec!["failed".to_owned()];
    }
    let mut unmet = Vec::new();
    let wanted = if section.warm { 0.0 } else { section.files as f64 };
    let is_shared = section.warm || row.entry.sharing != Sharing::Plain;
    for run in &row.runs {
        if run.wrong > 0.0 {
            unmet.push(format!("{} wrong responses", run.wrong));
        }
        if is_shared && run.origin_requests != wanted {
            unmet.push(format!("{} origin requests, not {wanted}", run.origin_requests));
        }
    }
    unmet
}

/// Files that take some seconds in all: enough to measure the cost.
fn usual_files(seconds: f64, object_bytes: u64) -> usize {
    let by_bytes = (FULL_SPEED_BYTES / object_bytes.max(1)) as usize;
    let files = if seconds == 0.0 { by_bytes } else { (SLOW_SECONDS / seconds) as usize };
    files.clamp(4, FILES_MAX)
}

fn measure_section(context: &Context, mut section: Section) -> Section {
    let options = &context.options;
    let chosen = ENTRIES.iter().filter(|entry| {
        let named = options.only.is_empty() || options.only.iter().any(|name| name == entry.name);
        named && entry.warm == section.warm && entry.binary(context).is_some()
    });
    let row = |entry: &Entry| {
        let (runs, picture) = (Vec::new(), RunChart::default());
        let other = context.others.iter().find(|other| entry.binary(context) == Some(other));
        let notes = other.map(|other| format!("{} ({})", other.version, other.path.display()));
        let notes = notes.into_iter().collect();
        Row { entry: *entry, runs, picture, notes }
    };
    section.rows = chosen.map(row).collect();
    if section.rows.is_empty() {
        return section;
    }
    let files = files(&section, options.object_bytes);
    // Rounds outside, so that a slow drift of the machine affects all rows alike.
    for round in 1..=options.rounds {
        for row in &mut section.rows {
            let place = format!("{} s: round {round}/{}", section.seconds, options.rounds);
            let done = measure_row(context, row, &files);
            eprintln!("streaming {place} {}: {done}", row.entry.name);
        }
    }
    section
}

/// Measures one more round of a row; returns its result as text.
fn measure_row(context: &Context, row: &mut Row, files: &[TestRequest]) -> String {
    let measured = match row.entry.binary(context) {
        Some(binary) => measure_once(context, binary, row.entry, files),
        None => Err("not installed".to_owned()),
    };
    match measured {
        Ok(run) => {
            let figures = Figures::of(&run);
            row.notes.extend(run.first_fault().map(|fault| format!("first error: {fault}")));
            if row.runs.is_empty() {
                row.picture = RunChart::of(&run);
            }
            row.runs.push(figures);
            let seconds = run.elapsed.as_secs_f64();
            format!("{} origin requests, {seconds:.1} s", figures.origin_requests)
        }
        Err(reason) => {
            row.notes.push(format!("failed: {reason}"));
            reason
        }
    }
}

/// The files of a section. Their names differ between sections, not between servers: each has its own cache.
fn files(section: &Section, bytes: u64) -> Vec<TestRequest> {
    let milliseconds = (section.seconds * 1e3).round() as u64;
    let parts = ((section.seconds * PARTS_PER_SECOND).round() as u64).max(1);
    let target = |number| {
        format!(
            "/slow?ms={milliseconds}&bytes={bytes}&chunks={parts}&eager=1&max-age=3600&file={number}"
        )
    };
    (0..section.files).map(|number| TestRequest::checked(target(number), bytes)).collect()
}

fn measure_once(
    context: &Context,
    binary: &Binary,
    entry: Entry,
    files: &[TestRequest],
) -> Result<Run, String> {
    let job = context.job(Scenario::Study(entry.sharing), 8 * context.options.clients as u64 + 256);
    let job = Job { tempfile_directive: entry.program == Program::Tidegate, ..job };
    let server = Server::start(binary, job)?;
    wait_for_response(&server)?;
    let walk =
        |clients| walk(server.address(), files, clients).map_err(|e| format!("clients: {e}"));
    if entry.warm {
        walk(1)?;
    }
    context.origin.take_traces();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| peak_memory(&server, &stop));
        let busy = || procfs::processor_busy(context.processors.server);
        let (cpu_before, busy_before, started) = (server.cpu_time(), busy(), Instant::now());
        let visits = walk(context.options.clients);
        let (elapsed, cpu) = (started.elapsed(), server.cpu_time().since(cpu_before));
        let others = (busy().since(busy_before).total() - cpu.total()).max(0.0);
        stop.store(true, Ordering::Relaxed);
        sampler.thread().unpark();
        let memory = sampler.join().map_err(|_| "the memory's sampler panicked".to_owned())?;
        let (visits, traces) = (visits?, context.origin.take_traces());
        Ok(Run { visits, traces, started, elapsed, cpu, others, memory })
    })
}

/// Waits until a server responds: some accept connections long before.
fn wait_for_response(server: &Server) -> Result<(), String> {
    let end = Instant::now() + READY_TIMEOUT;
    loop {
        let failure = match probe::ask(server.address(), "/bytes?n=1", READY_TIMEOUT) {
            Ok(response) if response.status == 200 => return Ok(()),
            Ok(response) => format!("status {}", response.status),
            Err(error) => format!("{error:?}"),
        };
        if Instant::now() > end {
            return Err(format!("does not serve: {failure}"));
        }
        thread::sleep(SAMPLE_EVERY);
    }
}

/// The largest memory, in bytes; sampled every [`SAMPLE_EVERY`].
fn peak_memory(server: &Server, stop: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !stop.load(Ordering::Relaxed) {
        peak = peak.max(server.memory().unwrap_or(0));
        thread::park_timeout(SAMPLE_EVERY);
    }
    peak.max(server.memory().unwrap_or(0))
}

/// As in the study.
const PARTS_PER_SECOND: f64 = 10.0;
/// Bytes of one client where the origin is not the limit.
const FULL_SPEED_BYTES: u64 = 60 * 1024 * 1024;
/// Shortest time of a row where the origin is the limit.
const SLOW_SECONDS: f64 = 8.0;
const FILES_MAX: usize = 20;
const READY_TIMEOUT: Duration = Duration::from_secs(10);
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
