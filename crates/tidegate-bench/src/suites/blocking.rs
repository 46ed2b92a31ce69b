//! The blocking suite: application code beside an event loop. On Tidegate's side it is a handler in the
//! server (the example crate), on nginx's side PHP behind FastCGI, with the same pages.
//!
//! PHP runs on the servers' processor, as handlers do: rates and costs include it. Only where the figure is the
//! server's own cost of passing requests on, PHP is an origin and runs on the processor of origins.

mod jobs;
mod php;
mod side;

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::beside::Beside;
use super::quick::{disturbance, new_load, run_checked};
use super::{Alternation, Better, CaseReport, Context, Measure, Sample, alone, alternate, tails};
use crate::config::{COLD_FILE, DOCUMENT_BYTES, SMALL_FILE};
use crate::load::{Bound, Outcome, Plan};
use crate::procfs;
use crate::server::{self, Binary, Kind};
use crate::statistics::Limit;
use side::{Application, Side, Start};

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Document,
    Component,
    Gateway,
    Full,
    Apache,
    Jobs,
    Isolation,
    Cold,
}

/// The suite's table.
pub(crate) const CASES: [Case; 8] = [
    Case {
        name: "document",
        about: "a page of 10 kB made for each request: a Rust handler, beside nginx with php-fpm",
        what: What::Document,
    },
    Case {
        name: "wasm",
        about: "that page made by a WebAssembly component, beside nginx with php-fpm",
        what: What::Component,
    },
    Case {
        name: "php",
        about: "that page made by php-fpm: Tidegate with kept connections, beside nginx by default",
        what: What::Gateway,
    },
    Case {
        name: "php-full",
        about: "that page made by 8 processes of php-fpm for more clients, both servers by default",
        what: What::Full,
    },
    Case {
        name: "apache",
        about: "that page made by a Rust handler, beside Apache (prefork) with mod_php",
        what: What::Apache,
    },
    Case {
        name: "jobs",
        about: "a million pages of a Rust handler: threads that are started, memory that is kept",
        what: What::Jobs,
    },
    Case {
        name: "isolation",
        about: "a small file while 100 clients keep 100 ms of blocking work busy, and without them",
        what: What::Isolation,
    },
    Case {
        name: "cold",
        about: "a small file while 64 MiB that the page cache lacks are read, and without that",
        what: What::Cold,
    },
];

/// At least twice the rate of nginx with php-fpm, so at most half its cost.
const DOCUMENT_COST_RATIO: f64 = 0.5;
/// At least 0.60 of the rate of `return`: its rate divided by the handler's.
const RETURN_BY_DOCUMENT: Limit = Limit::MedianAtMost(1.67);
/// Processor time of the server for a page of php-fpm, divided by that of nginx with its defaults.
const GATEWAY_COST_RATIO: f64 = 0.70;
/// The same where clients wait for processes; none may wait longer than in nginx.
const FULL_COST_RATIO: f64 = 0.60;
const FULL_P99_RATIO: f64 = 1.1;
/// The slowest client gets at least 0.8 of the mean.
const UNEVENNESS: Limit = Limit::MedianAtMost(1.25);
/// At least 8.6 times the rate of Apache with mod_php: its rate divided by Tidegate's.
const APACHE_BY_DOCUMENT: Limit = Limit::MedianAtMost(0.116);
/// Static latency with blocking load divided by that without.
const ISOLATION: Limit = Limit::MedianAtMost(1.3);

const LATENCIES: [Measure; 5] = [
    Measure::new("p99 alone", "µs", 0),
    Measure::new("p99 beside it", "µs", 0),
    Measure::new("longest beside it", "µs", 0),
    Measure::new("p99 beside it / alone", "", 2),
    Measure::new("requests/s beside it", "", 0).better(Better::Higher),
];

impl Case {
    /// Measures both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        let report = match self.what {
            What::Document => {
                let cost = Measure::new("CPU per request, application too", "µs", 2);
                let measures = [
                    Measure { target: Some(DOCUMENT_COST_RATIO), ..cost },
                    Measure::new("requests/s", "", 0).better(Better::Higher),
                    Measure::new("return of that size: requests/s", "", 0).better(Better::Higher),
                    Measure::new("return by document", "", 2).required(RETURN_BY_DOCUMENT),
                    Measure::new(super::quick::OTHERS, "%", 0).better(Better::Neither),
                ];
                alternate(context, self.name, &with_tails(&measures), |binary, ours| {
                    document(context, binary, ours)
                })
            }
            What::Component => beside_component(context, self.name),
            What::Gateway => {
                let cost = Measure::new("CPU of the server per request", "µs", 2);
                let measures = [
                    Measure { target: Some(GATEWAY_COST_RATIO), ..cost },
                    Measure::new("requests/s", "", 0).better(Better::Higher),
                    Measure::new("CPU, both with kept connections", "µs", 2),
                    Measure::new("requests/s, both with kept connections", "", 0)
                        .better(Better::Higher),
                ];
                let alternation = Alternation::new(context, self.name, &with_tails(&measures));
                let alternation = alternation.beside(Beside::haproxy(context));
                alternation.all(|binary, ours| gateway(context, binary, ours))
            }
            What::Full => {
                let cost = Measure::new("CPU of the server per request", "µs", 2);
                let measures = [
                    Measure { target: Some(FULL_COST_RATIO), ..cost },
                    Measure::new("requests/s", "", 0).better(Better::Higher),
                    Measure::new("mean client by slowest client", "", 2).required(UNEVENNESS),
                ];
                let mut measures = with_tails(&measures);
                let tail = measures.iter_mut().find(|measure| measure.name == "p99");
                tail.into_iter().for_each(|tail| tail.target = Some(FULL_P99_RATIO));
                alternate(context, self.name, &measures, |binary, _| full(context, binary))
            }
            What::Apache => self.beside_apache(context),
            What::Jobs => {
                alone(context, 1, self.name, &jobs::MEASURES, |binary| jobs::run(context, binary))
            }
            What::Isolation => {
                let mut latencies = LATENCIES;
                latencies[3] = latencies[3].required(ISOLATION);
                alternate(context, self.name, &latencies, |binary, ours| {
                    beside(context, binary, ours, slow_clients)
                })
            }
            What::Cold => alternate(context, self.name, &LATENCIES, |binary, ours| {
                beside(context, binary, ours, cold_reader)
            }),
        };
        CaseReport {
            notes: [report.notes.clone(), disturbance(&report).into_iter().collect()].concat(),
            ..report
        }
    }

    /// Apache's figures are in Tidegate's column, under separate names.
    fn beside_apache(&self, context: &Context) -> CaseReport {
        let Some(apache) = context.others.iter().find(|binary| binary.kind == Kind::Apache) else {
            let note = "apache: left out, as Apache is not installed (with prefork and mod_php)";
            return CaseReport { notes: vec![note.to_owned()], ..CaseReport::default() };
        };
        let measures = [
            Measure::new("handler: requests/s", "", 0).better(Better::Higher),
            Measure::new("handler: CPU per request", "µs", 2),
            Measure::new("Apache with mod_php: requests/s", "", 0).better(Better::Higher),
            Measure::new("Apache with mod_php: CPU per request", "µs", 2),
            Measure::new("Apache's rate by the handler's", "", 3).required(APACHE_BY_DOCUMENT),
        ];
        let mut report = alone(context, context.options.rounds, self.name, &measures, |binary| {
            let run = |binary, application| {
                let start = Start::for_cost(context);
                made(&Side::start(start, context, binary, application)?, context)
            };
            let ours = run(binary, Application::Handlers)?;
            let theirs = run(apache, Application::Within)?;
            let [ours_rate, theirs_rate] =
                [&ours, &theirs].map(|made| made.outcome.requests_per_second());
            let values = vec![
                ours_rate,
                ours.cpu_per_request(),
                theirs_rate,
                theirs.cpu_per_request(),
                theirs_rate / ours_rate,
            ];
            let mut sample = sample(values, &ours.outcome);
            sample.note = sample.note.or(theirs.outcome.first_error.clone());
            sample.errors += theirs.outcome.errors;
            Ok(sample)
        });
        report.notes.push(format!("apache: {} (prefork, mod_php)", apache.version));
        report
    }
}

/// An instance of its own for each page, as by default.
fn beside_component(context: &Context, name: &'static str) -> CaseReport {
    if server::component().is_none() {
        let note = "wasm: left out, as there is no component (scripts/wasm.sh builds it)";
        return CaseReport { notes: vec![note.to_owned()], ..CaseReport::default() };
    }
    let measures = [
        Measure::new("CPU per request, application too", "µs", 2),
        Measure::new("requests/s", "", 0).better(Better::Higher),
        Measure::new(super::quick::OTHERS, "%", 0).better(Better::Neither),
    ];
    alternate(context, name, &with_tails(&measures), |binary, ours| {
        let application = if ours { Application::Component } else { Application::Php };
        let start = Start::for_cost(context);
        let made = made(&Side::start(start, context, binary, application)?, context)?;
        let values = vec![made.cpu_per_request(), made.outcome.requests_per_second(), made.others];
        Ok(sample_with_tails(values, &made.outcome))
    })
}

/// Pages that were made under load, and their cost in microseconds.
struct Made {
    outcome: Outcome,
    cpu: f64,
    /// The server's share.
    server_cpu: f64,
    /// Percent of the processor time that other programs used.
    others: f64,
}

impl Made {
    fn cpu_per_request(&self) -> f64 {
        self.cpu / self.outcome.requests.max(1) as f64
    }
}

fn made(side: &Side, context: &Context) -> Result<Made, String> {
    let busy = || procfs::processor_busy(context.processors.server);
    let connections = context.options.connections;
    let mut load = new_load(side.plan(side.target("document"), DOCUMENT_BYTES, connections))?;
    run_checked(&mut load, WARM_UP)?;
    let (cpu_before, server_before) = (side.cpu_time(), side.server.cpu_time());
    let (busy_before, started) = (busy(), Instant::now());
    let bound = Bound { duration: context.options.run_time, requests_max: u64::MAX };
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    let cpu = side.cpu_time().since(cpu_before).total();
    let server_cpu = side.server.cpu_time().since(server_before).total();
    let others = (busy().since(busy_before).total() - cpu).max(0.0);
    let others = others / started.elapsed().as_secs_f64() / 1e4;
    Ok(Made { outcome, cpu, server_cpu, others })
}

fn document(context: &Context, binary: &Binary, ours: bool) -> Result<Sample, String> {
    let side = Side::start_own(Start::for_cost(context), context, binary, ours)?;
    let constant = side.plan("/return".to_owned(), DOCUMENT_BYTES, context.options.connections);
    let constant = measured(constant, context.options.run_time)?;
    let made = made(&side, context)?;
    let rate = made.outcome.requests_per_second();
    let values = vec![
        made.cpu_per_request(),
        rate,
        constant.requests_per_second(),
        constant.requests_per_second() / rate,
        made.others,
    ];
    Ok(sample_with_tails(values, &made.outcome))
}

/// Tidegate and HAProxy with kept connections have one run, nginx one by default and one with kept connections.
fn gateway(context: &Context, binary: &Binary, ours: bool) -> Result<Sample, String> {
    let start = Start { php_cpu: context.processors.client, ..Start::for_cost(context) };
    let run = |application| made(&Side::start(start, context, binary, application)?, context);
    let kept = run(Application::PhpKept)?;
    let is_nginx = !ours && binary.kind == Kind::Nginx;
    let default = if is_nginx { Some(run(Application::Php)?) } else { None };
    let first = default.as_ref().unwrap_or(&kept);
    let cpu = |made: &Made| made.server_cpu / made.outcome.requests.max(1) as f64;
    let values = vec![
        cpu(first),
        first.outcome.requests_per_second(),
        cpu(&kept),
        kept.outcome.requests_per_second(),
    ];
    let mut sample = sample_with_tails(values, &first.outcome);
    if default.is_some() {
        sample.errors += kept.outcome.errors;
    }
    Ok(sample)
}

/// More clients than processes.
fn full(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let start = Start {
        php_cpu: context.processors.client,
        php_children: FEW_CHILDREN,
        ..Start::for_cost(context)
    };
    let made = made(&Side::start(start, context, binary, Application::Php)?, context)?;
    let outcome = &made.outcome;
    let values = vec![
        made.server_cpu / outcome.requests.max(1) as f64,
        outcome.requests_per_second(),
        outcome.unevenness(context.options.connections),
    ];
    Ok(sample_with_tails(values, outcome))
}

/// Measures a small file's latency alone, then while `work` runs in a separate thread until it is stopped.
fn beside(
    context: &Context,
    binary: &Binary,
    ours: bool,
    work: fn(&Side, &AtomicBool) -> Result<(), String>,
) -> Result<Sample, String> {
    let side = Side::start_own(Start::for_waits(context), context, binary, ours)?;
    let plan = || side.plan(format!("/{}", SMALL_FILE.0), SMALL_FILE.1, STATIC_CONNECTIONS);
    let alone = measured(plan(), context.options.run_time)?;
    let stop = AtomicBool::new(false);
    let (worked, outcome) = thread::scope(|scope| {
        let worker = scope.spawn(|| work(&side, &stop));
        let outcome = measured(plan(), context.options.run_time);
        stop.store(true, Ordering::Relaxed);
        (worker.join().unwrap_or_else(|_| Err("the other load panicked".to_owned())), outcome)
    });
    worked?;
    let outcome = outcome?;
    let p99 = |outcome: &Outcome| micros(outcome.latency.quantile(0.99));
    let values = vec![
        p99(&alone),
        p99(&outcome),
        micros(outcome.latency.maximum()),
        p99(&outcome) / p99(&alone).max(1.0),
        outcome.requests_per_second(),
    ];
    Ok(sample(values, &outcome))
}

/// Runs 100 clients, each of which repeatedly requests 100 ms of blocking work.
fn slow_clients(side: &Side, stop: &AtomicBool) -> Result<(), String> {
    let mut load = new_load(side.plan(side.target("slow"), SLOW_BYTES as u64, SLOW_CLIENTS))?;
    let bound = Bound { duration: Duration::from_secs(3600), requests_max: u64::MAX };
    let outcome = load.run_until(bound, stop).map_err(|error| format!("load: {error}"))?;
    checked(&outcome)
}

/// Runs one client that requests a large file, each time after it was dropped from the page cache.
fn cold_reader(side: &Side, stop: &AtomicBool) -> Result<(), String> {
    let path = side.server.directory().join("html").join(COLD_FILE.0);
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut load = new_load(side.plan(format!("/{}", COLD_FILE.0), COLD_FILE.1, 1))?;
    while !stop.load(Ordering::Relaxed) {
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, advice).map_err(|error| error.to_string())?;
        let bound = Bound { duration: Duration::from_secs(60), requests_max: 1 };
        checked(&load.run(bound).map_err(|error| format!("load: {error}"))?)?;
    }
    Ok(())
}

fn measured(plan: Plan, time: Duration) -> Result<Outcome, String> {
    let mut load = new_load(plan)?;
    run_checked(&mut load, WARM_UP)?;
    let bound = Bound { duration: time, requests_max: u64::MAX };
    load.run(bound).map_err(|error| format!("load: {error}"))
}

fn checked(outcome: &Outcome) -> Result<(), String> {
    match &outcome.first_error {
        Some(error) => Err(format!("wrong response to the other load: {error}")),
        None => Ok(()),
    }
}

fn sample(values: Vec<f64>, outcome: &Outcome) -> Sample {
    let note = outcome.first_error.as_ref().map(|error| format!("first error: {error}"));
    Sample { values, errors: outcome.errors, note }
}

/// The measures, and behind them the latencies of requests.
fn with_tails(measures: &[Measure]) -> Vec<Measure> {
    [measures, &tails::SATURATED].concat()
}

/// The figures of [`with_tails`].
fn sample_with_tails(mut values: Vec<f64>, outcome: &Outcome) -> Sample {
    values.extend(tails::values(outcome));
    sample(values, outcome)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

const SLOW_BYTES: usize = "That took 100 ms.\n".len();
const SLOW_CLIENTS: usize = 100;
const FEW_CHILDREN: usize = 8;
const STATIC_CONNECTIONS: usize = 8;
const WARM_UP: Bound = Bound { duration: Duration::from_secs(1), requests_max: 5_000 };
