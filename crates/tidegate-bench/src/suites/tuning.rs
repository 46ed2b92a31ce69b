//! The tuning suite: the effect of each setting of a reverse proxy on this machine, row by row, as in a published
//! study of nginx on another machine, and the settings that Tidegate does not need.
//!
//! All rows are measured one after another within a round, so that a slow drift of the machine affects all alike.
//! The load is a closed loop of 100 connections, like wrk's.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::beside::Beside;
use super::quick::{new_load, run_checked};
use super::tails::{self, PACED_PART};
use super::{Alternation, Better, CaseReport, Context, Measure, Row, Sample, idle};
use crate::config::tuning::Knobs;
use crate::config::{FIXED_BODY, Scenario};
use crate::load::{Bound, LossPolicy, Mode, Plan, TestRequest};
use crate::machine::{Place, Processors, pin_current_thread};
use crate::origin::Origin;
use crate::procfs::{self, CpuTime};
use crate::server::{Binary, Job, Server};

pub(crate) mod advice;
pub(crate) mod figures;
mod goals;
mod page;
mod rows;
mod skew;
pub(crate) mod table;

pub(crate) use goals::GOALS;
pub(crate) use page::html;
pub(crate) use rows::CASES;
#[cfg(test)]
pub(crate) use skew::{percent, shares};

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    pub section: Section,
    /// The row without this row's setting: the effect of the setting is the step from there.
    pub base: Option<&'static str>,
    /// Gain in percent that the study published for nginx.
    pub published: Option<f64>,
    kind: Kind,
}

/// A group of rows; gains are relative to the section's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// A reverse proxy, all programs on all processors.
    Proxy,
    /// `return 200` alone, likewise.
    Fixed,
    /// Placement of the programs on processors.
    Places,
    /// Further rows for the targets, with a processor for the server alone.
    Targets,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The load goes straight to the backend.
    Direct,
    Load(LoadCase),
    /// Latency at 80 % of nginx's maximum rate.
    Paced,
    /// How evenly connections are spread over two threads.
    Skew(Knobs),
    /// Memory of idle connections behind a proxied request.
    Idle,
}

#[derive(Clone, Copy, Debug)]
struct LoadCase {
    knobs: Knobs,
    places: Places,
    body_bytes: u64,
}

/// Placement of the programs on processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// All programs on all processors.
    Free,
    /// The server has one processor, load and backend another.
    Apart,
    /// Each of the three has its own.
    Own,
    /// All have one together.
    Together,
}

impl Section {
    pub(crate) const ALL: [Section; 4] =
        [Section::Proxy, Section::Fixed, Section::Places, Section::Targets];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Section::Proxy => {
                "a proxied response of 1 KiB; load, proxy and backend on all processors"
            }
            Section::Fixed => "return 200 alone",
            Section::Places => "the default configuration; where load, proxy and backend run",
            Section::Targets => "the server on a processor of its own",
        }
    }
}

impl Places {
    /// Processors of server, load and backend; `None` where there are too few.
    fn of(self, processors: Processors) -> Option<[Place; 3]> {
        let Processors { server, client, allowed } = processors;
        let one = Place::one;
        match self {
            Places::Free => Some([allowed; 3]),
            Places::Apart => Some([one(server), one(client), one(client)]),
            Places::Together => Some([one(server); 3]),
            Places::Own => {
                let third = allowed.list().into_iter().find(|cpu| ![server, client].contains(cpu));
                third.filter(|_| server != client).map(|third| [server, client, third].map(one))
            }
        }
    }
}

/// The measures of a loaded row.
pub(crate) const MEASURES: [Measure; 10] = [
    Measure::new(RATE, "", 0).better(Better::Higher),
    Measure::new("requests", "", 0).better(Better::Neither),
    Measure::new(COST, "µs", 2),
    Measure::new("of it user", "µs", 2),
    Measure::new(MEDIAN, "µs", 0),
    Measure::new("p90", "µs", 0),
    Measure::new(TAIL, "µs", 0),
    Measure::new("p99.9", "µs", 0),
    Measure::new("longest", "µs", 0),
    Measure::new(super::quick::OTHERS, "%", 0).better(Better::Neither),
];
/// Names of measures that tables, gains and targets use.
pub(crate) const RATE: &str = "requests/s";
pub(crate) const COST: &str = "CPU per request";
pub(crate) const MEDIAN: &str = "p50";
pub(crate) const TAIL: &str = "p99";
pub(crate) const SKEW: &str = "busiest thread above the mean";
pub(crate) const MEMORY: &str = idle::MEASURES[0].name;

/// Returns the chosen rows and the rows that they are compared with, in the suite's order.
pub(crate) fn with_bases(chosen: &[Case]) -> Vec<Case> {
    let mut names: BTreeSet<&str> = chosen.iter().map(|case| case.name).collect();
    let within = |names: &BTreeSet<&str>| -> Vec<Case> {
        CASES.into_iter().filter(|case| names.contains(&case.name)).collect()
    };
    loop {
        let cases = within(&names);
        let needs = cases.iter().flat_map(|case| [case.base, case.default_row()]).flatten();
        let known = names.len();
        names.extend(needs);
        if names.len() == known {
            return cases;
        }
    }
}

/// Measures the rows, round by round; gains and targets are rows after the others.
pub(crate) fn measure(context: &Context, cases: &[Case]) -> Vec<CaseReport> {
    let mut capacity = None;
    let mut running: Vec<(Case, Alternation)> = Vec::new();
    let mut left_out = Vec::new();
    for case in cases {
        match case.possible(context.processors) {
            true => {
                let haproxy = Beside::haproxy(context).filter(|_| case.is_load_with_targets());
                let alternation = Alternation::new(context, case.name, case.measures());
                running.push((*case, alternation.beside(haproxy)));
            }
            false => left_out.push(format!("{}: left out: too few processors", case.name)),
        }
    }
    for round in 1..=context.options.rounds {
        for (case, alternation) in &mut running {
            alternation.round(round, |binary, _| case.run(context, binary, &mut capacity));
        }
    }
    // The next run binds itself again.
    let _ = pin_current_thread(Place::one(context.processors.client));
    let mut reports: Vec<CaseReport> =
        running.into_iter().map(|(_, alternation)| alternation.report()).collect();
    let gains: Vec<Row> = cases.iter().filter_map(|case| figures::gain(case, &reports)).collect();
    for gain in gains {
        let report = reports.iter_mut().find(|report| report.rows[0].case == gain.case);
        if let Some(report) = report {
            report.rows.push(gain);
        }
    }
    let many = context.processors.allowed.list().len() >= goals::PROCESSORS_FOR_TWO;
    let goals = GOALS.iter().filter_map(|goal| goal.row(&reports, many)).collect();
    let disturbed = figures::disturbance(&reports);
    let notes = left_out.into_iter().chain(disturbed).collect();
    reports.push(CaseReport { rows: goals, notes });
    reports
}

impl Case {
    /// The row that gains are against.
    pub(crate) fn default_row(&self) -> Option<&'static str> {
        match self.section {
            Section::Proxy | Section::Places => Some("default"),
            Section::Fixed => Some("return"),
            Section::Targets => self.base,
        }
    }

    fn measures(&self) -> &'static [Measure] {
        match self.kind {
            Kind::Direct | Kind::Load(_) => &MEASURES,
            Kind::Paced => &PACED,
            Kind::Skew(_) => &SKEWS,
            Kind::Idle => &idle::MEASURES,
        }
    }

    /// Whether HAProxy is measured beside it.
    fn is_load_with_targets(&self) -> bool {
        self.section == Section::Targets && matches!(self.kind, Kind::Load(_))
    }

    fn possible(&self, processors: Processors) -> bool {
        match self.kind {
            Kind::Load(case) => case.places.of(processors).is_some(),
            _ => true,
        }
    }

    fn run(
        &self,
        context: &Context,
        binary: &Binary,
        capacity: &mut Option<f64>,
    ) -> Result<Sample, String> {
        match self.kind {
            Kind::Direct => direct(context),
            Kind::Load(case) => case.run(context, binary, None),
            Kind::Paced => paced(context, binary, capacity),
            Kind::Skew(knobs) => skew::run(context, binary, knobs),
            Kind::Idle => idle::run(context, binary, &idle::PROXIED),
        }
    }
}

impl LoadCase {
    /// One run: fresh server and backends, a warm-up, the measurement over the same connections; paced where
    /// a rate is given.
    fn run(&self, context: &Context, binary: &Binary, rate: Option<f64>) -> Result<Sample, String> {
        let places = self.places.of(context.processors).ok_or("too few processors")?;
        let [place, load, backend] = places;
        let origins = [origin_at(backend)?, origin_at(backend)?];
        pin(load)?;
        let second = Some(origins[1].address());
        let job = Job {
            origin: origins[0].address(),
            place,
            ..context.job(Scenario::Tuning(self.knobs, second), 0)
        };
        let server = Server::start(binary, job)?;
        let (target, bytes) = match self.knobs.fixed {
            true => ("/".to_owned(), FIXED_BODY.len() as u64),
            false => (format!("/bytes?n={}", self.body_bytes), self.body_bytes),
        };
        let plan = plan(context, server.address(), target, bytes);
        timed(context, plan, rate, || server.cpu_time())
    }
}

fn direct(context: &Context) -> Result<Sample, String> {
    let [_, load, backend] = Places::Free.of(context.processors).ok_or("no processor")?;
    let origin = origin_at(backend)?;
    pin(load)?;
    let target = format!("/bytes?n={}", rows::SMALL);
    let plan = plan(context, origin.address(), target, rows::SMALL);
    let mut sample = timed(context, plan, None, CpuTime::default)?;
    // There is no server.
    sample.values[2..4].fill(f64::NAN);
    Ok(sample)
}

/// Measures nginx's maximum rate once, and requests a part of it.
fn paced(context: &Context, binary: &Binary, capacity: &mut Option<f64>) -> Result<Sample, String> {
    let case = rows::OWN_TUNED;
    let most = match *capacity {
        Some(most) => most,
        None => {
            let nginx = context.nginx.as_ref().ok_or("nginx is not installed")?;
            let sample = case.run(context, nginx, None)?;
            *capacity.insert(sample.values[0])
        }
    };
    let rate = most * PACED_PART;
    let sample = case.run(context, binary, Some(rate))?;
    let [got, _, cost, _, median, p90, tail, far, longest, others] = sample.values[..] else {
        return Err("the figures are others".to_owned());
    };
    Ok(Sample { values: vec![tail, median, p90, far, longest, cost, rate, got, others], ..sample })
}

fn plan(context: &Context, address: std::net::SocketAddr, target: String, body_bytes: u64) -> Plan {
    Plan {
        address,
        asks: vec![TestRequest::counted(target, body_bytes)],
        connections: context.options.connections,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Count,
    }
}

/// The figures of [`MEASURES`].
fn timed(
    context: &Context,
    plan: Plan,
    rate: Option<f64>,
    server: impl Fn() -> CpuTime,
) -> Result<Sample, String> {
    let mut load = new_load(plan)?;
    run_checked(&mut load, WARM_UP)?;
    let bound = Bound { duration: context.options.run_time, requests_max: REQUESTS_MAX };
    let own = || procfs::cpu_time(&[std::process::id() as i32]);
    let before = [server(), own(), procfs::machine_busy()];
    let started = Instant::now();
    let outcome = match rate {
        Some(rate) => load.run_paced(bound, rate),
        None => load.run(bound),
    };
    let outcome = outcome.map_err(|error| format!("load: {error}"))?;
    let wall = started.elapsed().as_secs_f64();
    let [cpu, own] = [server().since(before[0]), own().since(before[1])];
    let busy = procfs::machine_busy().since(before[2]).total();
    let others = (busy - cpu.total() - own.total()).max(0.0);
    let processors = context.processors.allowed.list().len().max(1) as f64;
    let requests = outcome.requests.max(1) as f64;
    let p90 = outcome.latency.quantile(0.9).as_secs_f64() * 1e6;
    let [median, tail, far, longest] = tails::values(&outcome);
    let values = vec![
        outcome.requests_per_second(),
        outcome.requests as f64,
        cpu.total() / requests,
        cpu.user / requests,
        median,
        p90,
        tail,
        far,
        longest,
        others / wall / processors / 1e4,
    ];
    let note = outcome.first_error.as_ref().map(|error| format!("first error: {error}"));
    Ok(Sample { values, errors: outcome.errors, note })
}

/// Starts a backend for each run: its port has no closing connections.
fn origin_at(place: Place) -> Result<Origin, String> {
    pin(place)?;
    Origin::start().map_err(|error| format!("origin: {error}"))
}

fn pin(place: Place) -> Result<(), String> {
    pin_current_thread(place).map_err(|error| format!("processors: {error}"))
}

const PACED: [Measure; 9] = [
    Measure::new(TAIL, "µs", 0),
    Measure::new(MEDIAN, "µs", 0),
    Measure::new("p90", "µs", 0),
    Measure::new("p99.9", "µs", 0),
    Measure::new("longest", "µs", 0),
    Measure::new(COST, "µs", 2),
    Measure::new("requests/s sent", "", 0).better(Better::Neither),
    Measure::new("requests/s served", "", 0).better(Better::Neither),
    Measure::new(super::quick::OTHERS, "%", 0).better(Better::Neither),
];
const SKEWS: [Measure; 2] = [
    Measure::new(SKEW, "%", 1),
    Measure::new("connections counted", "", 0).better(Better::Neither),
];
const WARM_UP: Bound = Bound { duration: Duration::from_secs(1), requests_max: 5_000 };
/// More requests than loopback allows in the longest run of the options.
const REQUESTS_MAX: u64 = 100_000_000;
