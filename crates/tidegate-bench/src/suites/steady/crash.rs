//! A worker process that is killed under load on cached objects: the time until the next correct
//! response, the state of the cache, and damage.

use std::thread;
use std::time::{Duration, Instant};

use super::super::quick::new_load;
use super::super::{Better, Context, Measure, Sample};
use super::beside_load;
use super::reload::milliseconds;
use crate::config::Scenario;
use crate::load::{Bound, LossPolicy, Mode, Plan, TestRequest};
use crate::probe::{self, Failure, Response};
use crate::server::{Binary, Death, Server};
use crate::statistics::Limit;

/// The measures of the case. Connections that were open when the worker died are expected to break;
/// "unexplained" are failures of any others.
pub(super) const MEASURES: [Measure; 11] = [
    Measure::new("first correct response", "ms", 1),
    Measure::new("failed requests", "", 0),
    Measure::new("of them unexplained", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("damaged bodies", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("responses not a HIT", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("origin requests", "", 0).required(Limit::Exactly(0.0)),
    Measure::new("master pid before", "", 0).better(Better::Fact),
    Measure::new("master pid after", "", 0).better(Better::Fact),
    Measure::new("master changes", "", 0).better(Better::Fact).required(Limit::Exactly(0.0)),
    Measure::new("worker pid before", "", 0).better(Better::Fact),
    Measure::new("worker pid after", "", 0).better(Better::Fact),
];

/// One run: fresh server, filled cache, load, the kill in its middle, and a check of each object.
pub(super) fn run(context: &Context, binary: &Binary) -> Result<Sample, String> {
    let job = context.job(Scenario::Crash, WORKER_CONNECTIONS);
    let server = Server::start(binary, job)?;
    let asks: Vec<TestRequest> = objects();
    for ask in &asks {
        fill(&server, ask)?;
    }
    let origin_requests =
        || asks.iter().map(|ask| context.origin.requests(&ask.target)).sum::<u64>();
    let origin_before = origin_requests();
    let master_before = server.master_by_pid_file().unwrap_or_default();
    let plan = Plan {
        address: server.address(),
        asks: asks.clone(),
        connections: context.options.connections,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Count,
    };
    let time = context.options.run_time.min(RUN_TIME_MAX);
    let bound = Bound { duration: time + RECOVERY_TIMEOUT * 2, requests_max: u64::MAX };
    let mut load = new_load(plan)?;
    let ((death, mut seen), outcome) = beside_load(
        |stop| load.run_until(bound, stop),
        || kill_in_the_middle(&server, &asks[0], time),
    )?;
    drop(load);
    for ask in &asks {
        seen.look(ask, probe::ask(server.address(), &ask.target, PROBE_PATIENCE));
    }
    let master_after = server.master_by_pid_file().unwrap_or_default();
    let same = master_before == server.master() && master_after == server.master();
    let unexplained = outcome.unexplained(death.begin, death.end) + seen.failures;
    let error = outcome.first_error.as_ref().filter(|_| unexplained > 0);
    let error = seen.first_failure.as_ref().or(error);
    let values = vec![
        milliseconds(seen.first_good),
        (outcome.errors + seen.failures) as f64,
        unexplained as f64,
        (outcome.damaged + seen.damaged) as f64,
        (outcome.requests - outcome.hits + seen.not_hits) as f64,
        (origin_requests() - origin_before) as f64,
        f64::from(master_before),
        f64::from(master_after),
        f64::from(u8::from(!same)),
        f64::from(death.worker),
        f64::from(server.only_worker()?),
    ];
    let note = error.map(|error| format!("first error: {error}"));
    Ok(Sample { values, errors: 0, note })
}

/// The results of the probes since the kill.
#[derive(Default)]
struct Seen {
    first_good: Duration,
    failures: u64,
    first_failure: Option<String>,
    damaged: u64,
    not_hits: u64,
}

impl Seen {
    /// Checks one response; true when it is correct.
    fn look(&mut self, ask: &TestRequest, response: Result<Response, Failure>) -> bool {
        let reason = match response {
            Ok(response) if response.suits(ask) => {
                self.not_hits += u64::from(!response.hit);
                return true;
            }
            Ok(response) => {
                self.damaged += u64::from(response.status == ask.status);
                format!("status {}, {} body bytes", response.status, response.body.len())
            }
            Err(error) => format!("{error:?}"),
        };
        self.failures += 1;
        self.first_failure.get_or_insert_with(|| format!("{}: {reason}", ask.target));
        false
    }
}

/// Objects of several sizes, so that the kill hits responses in several states.
fn objects() -> Vec<TestRequest> {
    let object = |(number, bytes): (usize, u64)| {
        TestRequest::checked(
            format!("{}?n={bytes}&max-age=3600&object={number}", crate::config::PROXIED),
            bytes,
        )
    };
    OBJECT_SIZES.into_iter().enumerate().map(object).collect()
}

/// Requests an object until it comes from the cache.
fn fill(server: &Server, ask: &TestRequest) -> Result<(), String> {
    for _ in 0..FILL_TRIES {
        match probe::ask(server.address(), &ask.target, PROBE_PATIENCE) {
            Ok(response) if !response.suits(ask) => {
                let length = response.body.len();
                return Err(format!("{}: status {}, {length} bytes", ask.target, response.status));
            }
            Ok(response) if response.hit => return Ok(()),
            Ok(_) => thread::sleep(PROBE_INTERVAL),
            Err(error) => return Err(format!("{}: {error:?}", ask.target)),
        }
    }
    Err(format!("{} does not get into the cache", ask.target))
}

fn kill_in_the_middle(
    server: &Server,
    ask: &TestRequest,
    time: Duration,
) -> Result<(Death, Seen), String> {
    let started = Instant::now();
    thread::sleep(time / 2);
    let death = server.kill_worker()?;
    let mut seen = Seen::default();
    while !seen.look(ask, probe::ask(server.address(), &ask.target, PROBE_PATIENCE)) {
        if death.begin.elapsed() > RECOVERY_TIMEOUT {
            let reason = seen.first_failure.unwrap_or_default();
            let seconds = RECOVERY_TIMEOUT.as_secs();
            return Err(format!("no correct response within {seconds} s of the kill: {reason}"));
        }
        thread::sleep(PROBE_INTERVAL);
    }
    seen.first_good = death.begin.elapsed();
    thread::sleep(time.saturating_sub(started.elapsed()));
    Ok((death, seen))
}

const OBJECT_SIZES: [u64; 8] = [512, 1024, 10_240, 10_240, 65_536, 65_536, 262_144, 1_048_576];
/// One kill needs no longer load.
const RUN_TIME_MAX: Duration = Duration::from_secs(10);
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(15);
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
const PROBE_INTERVAL: Duration = Duration::from_millis(5);
const FILL_TRIES: usize = 200;
/// Enough for the largest `--connections`.
const WORKER_CONNECTIONS: u64 = 12_000;
