//! The quick suite: the cost of a request and of an idle connection, and shared fills.

use std::io;
use std::time::{Duration, Instant};

use super::beside::Beside;
use super::tails::{self, PACED_PART};
use super::{
    Alternation, Better, CaseReport, Context, Measure, Sample, alternate, idle, streaming,
};
use crate::config::{FIXED_BODY, LARGE_FILE, SMALL_FILE, Scenario};
use crate::load::{Bound, Load, LossPolicy, Mode, Outcome, Plan, TestRequest};
use crate::procfs;
use crate::raw::Work;
use crate::server::{Binary, Kind as Program, Server};
use crate::statistics::Spread;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    /// Largest acceptable ratio Tidegate/nginx of the first measure.
    pub target: Option<f64>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Load(LoadCase),
    Idle,
    Streaming,
}

#[derive(Clone, Copy, Debug)]
struct LoadCase {
    scenario: Scenario,
    target: &'static str,
    body_bytes: u64,
    mode: Mode,
}

/// The suite's table.
pub(crate) const CASES: [Case; 11] = [
    Case {
        name: "fixed",
        about: "return 200 with a short text",
        target: Some(0.92),
        kind: Kind::Load(keepalive(Scenario::Fixed, "/", FIXED_BODY.len() as u64)),
    },
    Case {
        name: "fixed-close",
        about: "the same, one connection for each request",
        target: None,
        kind: Kind::Load(LoadCase {
            mode: Mode::Close,
            ..keepalive(Scenario::Fixed, "/", FIXED_BODY.len() as u64)
        }),
    },
    Case {
        name: "file-small",
        about: "file of 452 bytes, tuned (sendfile, tcp_nopush, open_file_cache)",
        target: Some(0.75),
        kind: Kind::Load(keepalive(Scenario::Files, "/small.html", SMALL_FILE.1)),
    },
    Case {
        name: "file-large",
        about: "file of 100 KiB, tuned likewise",
        target: Some(0.80),
        kind: Kind::Load(keepalive(Scenario::Files, "/large.bin", LARGE_FILE.1)),
    },
    Case {
        name: "proxy-tuned",
        about: "proxy, 1 KiB response, upstream keepalive 64",
        target: Some(0.90),
        kind: Kind::Load(keepalive(Scenario::ProxyTuned, "/bytes?n=1024", 1024)),
    },
    Case {
        name: "proxy-default",
        about: "proxy, 1 KiB response, nothing but proxy_pass",
        target: Some(0.30),
        kind: Kind::Load(keepalive(Scenario::ProxyDefault, "/bytes?n=1024", 1024)),
    },
    Case {
        name: "cache-hit",
        about: "10 KiB response from the cache, tuned likewise",
        target: Some(0.70),
        kind: Kind::Load(keepalive(Scenario::Cache, "/bytes?n=10240&max-age=3600", 10_240)),
    },
    Case {
        name: "cache-hit-default",
        about: "the same without sendfile and open_file_cache, as by default",
        target: Some(0.58),
        kind: Kind::Load(keepalive(Scenario::CacheDefault, "/bytes?n=10240&max-age=3600", 10_240)),
    },
    Case {
        name: "cache-hit-large",
        about: "1 MiB response from the cache, tuned",
        target: Some(0.90),
        kind: Kind::Load(keepalive(Scenario::Cache, LARGE_HIT, 1 << 20)),
    },
    Case {
        name: "idle-memory",
        about: "memory of idle keepalive connections after one request each",
        target: Some(1.0),
        kind: Kind::Idle,
    },
    Case {
        name: "streaming",
        about: "100 clients on one uncached object that takes 3 s, with proxy_cache_lock",
        target: None,
        kind: Kind::Streaming,
    },
];

const fn keepalive(scenario: Scenario, target: &'static str, body_bytes: u64) -> LoadCase {
    LoadCase { scenario, target, body_bytes, mode: Mode::KeepAlive }
}

impl Case {
    /// Measures both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        match self.kind {
            Kind::Load(load) => self.measure_load(context, load),
            Kind::Idle => {
                let measures = self.with_target(&idle::MEASURES);
                alternate(context, self.name, &measures, |binary, _| {
                    idle::run(context, binary, &idle::FIXED)
                })
            }
            Kind::Streaming => {
                let measures = self.with_target(&streaming::MEASURES);
                let mut number = 0;
                alternate(context, self.name, &measures, |binary, is_tidegate| {
                    number += 1;
                    streaming::run(context, binary, is_tidegate, number)
                })
            }
        }
    }

    fn measure_load(&self, context: &Context, load: LoadCase) -> CaseReport {
        let measures = tails::with_goals([LOAD_MEASURES.as_slice(), &tails::PACED].concat());
        let measures = self.with_target(&measures);
        let haproxy = Beside::haproxy(context).filter(|_| load.is_plain_proxy());
        let besides = load.floor().map(Beside::floor).into_iter().chain(haproxy);
        let alternation = Alternation::new(context, self.name, &measures).beside(besides);
        let pace = pace(context, load);
        let mut report = alternation.all(|binary, _| run_load(context, binary, load, &pace));
        report.notes.extend(disturbance(&report));
        report
    }

    /// The case's target belongs to the first measure.
    fn with_target(&self, measures: &[Measure]) -> Vec<Measure> {
        let mut measures = measures.to_vec();
        if let Some(first) = measures.first_mut() {
            first.target = self.target;
        }
        measures
    }
}

impl LoadCase {
    /// Returns a server that only transfers the same number of bytes: on kept connections, and where
    /// the bytes fit the socket's buffer or are a file's.
    fn floor(&self) -> Option<Binary> {
        let fits = self.body_bytes <= 16 * 1024;
        let work = match self.scenario {
            Scenario::Files if !fits => Work::SendFile(self.body_bytes),
            _ if !fits => return None,
            Scenario::Fixed | Scenario::Cache | Scenario::CacheDefault | Scenario::Files => {
                Work::Respond(self.body_bytes)
            }
            Scenario::ProxyTuned => Work::Pass,
            _ => return None,
        };
        let is_kept = matches!(self.mode, Mode::KeepAlive);
        let path = std::env::current_exe().ok().filter(|_| is_kept)?;
        Some(Binary { kind: Program::Raw(work), path, version: String::new() })
    }

    /// Whether any proxy does this.
    fn is_plain_proxy(&self) -> bool {
        matches!(self.scenario, Scenario::ProxyTuned | Scenario::ProxyDefault)
    }
}

/// A warning when the figures are those of a busy machine.
pub(crate) fn disturbance(report: &CaseReport) -> Option<String> {
    let row = report.rows.iter().find(|row| row.measure.name == OTHERS)?;
    let percent = Spread::of(&[row.tidegate.as_slice(), row.nginx.as_slice()].concat())?.median;
    (percent > OTHERS_PERCENT_MAX).then(|| {
        format!(
            "{}: other programs took {percent:.0} % of the server's processor; \
             repeat when the machine is quiet",
            row.case
        )
    })
}

const LARGE_HIT: &str = "/bytes?n=1048576&max-age=3600";
pub(super) const LOAD_MEASURES: [Measure; 9] = [
    Measure::new("CPU per request", "µs", 2),
    Measure::new("of it user", "µs", 2),
    Measure::new("requests/s", "", 0).better(Better::Higher),
    tails::SATURATED[0],
    tails::SATURATED[1],
    tails::SATURATED[2],
    tails::SATURATED[3],
    Measure::new("server busy", "%", 0).better(Better::Neither),
    Measure::new(OTHERS, "%", 0).better(Better::Neither),
];

/// The rate of the open loop: a part of what nginx can do, or Tidegate where there is no nginx.
///
/// # Errors
/// In words: that server failed.
fn pace(context: &Context, case: LoadCase) -> Result<f64, String> {
    let binary = context.nginx.as_ref().unwrap_or(&context.tidegate);
    let (_server, mut load) = loaded(context, binary, case)?;
    let bound = Bound { duration: context.options.run_time, requests_max: REQUESTS_MAX };
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    Ok(outcome.requests_per_second() * PACED_PART)
}

/// A fresh server and its load behind the warm-up.
fn loaded(context: &Context, binary: &Binary, case: LoadCase) -> Result<(Server, Load), String> {
    let server = Server::start(binary, context.job(case.scenario, WORKER_CONNECTIONS))?;
    let load = warmed(Plan {
        address: server.address(),
        asks: vec![TestRequest::counted(case.target, case.body_bytes)],
        connections: context.options.connections,
        mode: case.mode,
        loss_policy: LossPolicy::Count,
    })?;
    Ok((server, load))
}

/// One run: fresh server, warm-up, measurement over the same connections at saturation, then, of the two sides, at
/// `pace`.
fn run_load(
    context: &Context,
    binary: &Binary,
    case: LoadCase,
    pace: &Result<f64, String>,
) -> Result<Sample, String> {
    let origin_before = context.origin.requests(case.target);
    let (server, mut load) = loaded(context, binary, case)?;
    let (mut values, mut outcome) =
        measure_on(context, &server, &mut load, context.options.run_time)?;
    if binary.kind == Program::Nginx {
        let paced = tails::paced(&mut load, context.options.run_time, pace.clone()?)?;
        values.extend(tails::values(&paced));
        outcome.errors += paced.errors;
        outcome.first_error = outcome.first_error.or(paced.first_error);
    }
    let misses = match case.scenario {
        // The first request is one.
        Scenario::Cache | Scenario::CacheDefault => {
            (context.origin.requests(case.target) - origin_before).saturating_sub(1)
        }
        _ => 0,
    };
    let mut note = outcome.first_error.as_ref().map(|error| format!("first error: {error}"));
    if misses > 0 {
        note = Some("a cached object was fetched again".to_owned());
    }
    Ok(Sample { values, errors: outcome.errors + misses, note })
}

/// A load whose connections have had a warm-up.
pub(super) fn warmed(plan: Plan) -> Result<Load, String> {
    // One request alone fills caches; otherwise each connection of the warm-up would miss.
    let prime = Plan { connections: 1, ..plan.clone() };
    run_checked(&mut new_load(prime)?, Bound { duration: WARM_UP, requests_max: 1 })?;
    let mut load = new_load(plan)?;
    run_checked(&mut load, Bound { duration: WARM_UP, requests_max: WARM_UP_REQUESTS })?;
    Ok(load)
}

/// A measured run: the figures of [`LOAD_MEASURES`].
pub(super) fn measure_on(
    context: &Context,
    server: &Server,
    load: &mut Load,
    duration: Duration,
) -> Result<(Vec<f64>, Outcome), String> {
    let bound = Bound { duration, requests_max: REQUESTS_MAX };
    measured(context, server, || load.run(bound))
}

/// The same of any load.
pub(super) fn measured(
    context: &Context,
    server: &Server,
    load: impl FnOnce() -> io::Result<Outcome>,
) -> Result<(Vec<f64>, Outcome), String> {
    let busy = || procfs::processor_busy(context.processors.server);
    let (cpu_before, busy_before, started) = (server.cpu_time(), busy(), Instant::now());
    let outcome = load().map_err(|error| format!("load: {error}"))?;
    let (cpu, wall) = (server.cpu_time().since(cpu_before), started.elapsed().as_secs_f64());
    let others = (busy().since(busy_before).total() - cpu.total()).max(0.0);
    let requests = outcome.requests.max(1) as f64;
    let mut values =
        vec![cpu.total() / requests, cpu.user / requests, outcome.requests_per_second()];
    values.extend(tails::values(&outcome));
    values.extend([cpu.total() / wall / 1e4, others / wall / 1e4]);
    Ok((values, outcome))
}

pub(super) fn new_load(plan: Plan) -> Result<Load, String> {
    Load::new(plan).map_err(|error| format!("load: {error}"))
}

/// A run whose errors end the case: it would measure error pages.
pub(super) fn run_checked(load: &mut Load, bound: Bound) -> Result<(), String> {
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    match outcome.first_error {
        Some(error) if outcome.errors > 0 => Err(format!("wrong response in warm-up: {error}")),
        _ => Ok(()),
    }
}

pub(crate) const OTHERS: &str = "CPU taken by others";
/// Above it, costs and rates are those of a disturbed machine.
pub(crate) const OTHERS_PERCENT_MAX: f64 = 5.0;
/// Enough for the largest `--connections`, upstream connections included.
const WORKER_CONNECTIONS: u64 = 12_000;
const WARM_UP: Duration = Duration::from_secs(2);
const WARM_UP_REQUESTS: u64 = 5_000;
/// More requests than loopback allows in the longest run of the options.
pub(super) const REQUESTS_MAX: u64 = 100_000_000;
