//! The cost of requests and of handshakes.

use std::time::Duration;

use super::super::quick::{LOAD_MEASURES, REQUESTS_MAX, measured};
use super::super::{Better, Context, Measure, Sample};
use super::http3;
use super::serving::{HTTP1, Serving, Via, start};
use crate::config::protocols::{self, MEDIUM_FILE, Part, TINY};
use crate::config::{FIXED_BODY, LARGE_FILE};
use crate::h2;
use crate::h2::client::Ask;
use crate::h3;
use crate::load::{self, Bound, LossPolicy, Mode, Outcome, TestRequest};
use crate::server::Binary;
use crate::wire::{Sessions, Tls};

/// What is requested of the server itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Tiny,
    Medium,
    Large,
}

/// What is requested of the origin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// A response of 1 KiB.
    Get,
    /// A message of gRPC, which is echoed.
    Unary,
}

/// A closed loop of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    via: Via,
    what: What,
    /// `None`: `--connections`.
    connections: Option<usize>,
    streams: u32,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Own(Request),
    Passed(Call),
}

impl Request {
    fn target(self) -> (String, u64) {
        match self {
            Request::Tiny => (TINY.to_owned(), FIXED_BODY.len() as u64),
            Request::Medium => (format!("/{}", MEDIUM_FILE.0), MEDIUM_FILE.1),
            Request::Large => (format!("/{}", LARGE_FILE.0), LARGE_FILE.1),
        }
    }
}

impl Load {
    pub(super) const fn h2(via: Via, request: Request, connections: usize, streams: u32) -> Load {
        Load { via, what: What::Own(request), connections: Some(connections), streams }
    }

    pub(super) const fn https(request: Request) -> Load {
        Load { via: Via::Https, what: What::Own(request), connections: None, streams: 1 }
    }

    pub(super) const fn h3(via: Via, request: Request, connections: usize, streams: u32) -> Load {
        Load::h2(via, request, connections, streams)
    }

    pub(super) const fn passed(call: Call, connections: usize, streams: u32) -> Load {
        let what = What::Passed(call);
        Load { via: Via::H2c, what, connections: Some(connections), streams }
    }

    /// One run: fresh server, warm-up, measurement over the same connections.
    pub(super) fn run(&self, context: &Context, binary: &Binary) -> Result<Sample, String> {
        let part = match self.what {
            What::Own(_) => Part::Front,
            What::Passed(Call::Get) => Part::Proxy,
            What::Passed(Call::Unary) => Part::Grpc,
        };
        let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
        let serving = match start(context, binary, part, self.via, job)? {
            Ok(serving) => serving,
            Err(reason) => return Ok(Sample::not_served(LOAD_MEASURES.len(), &reason)),
        };
        let bound = Bound { duration: context.options.run_time, requests_max: REQUESTS_MAX };
        let (values, outcome) = match self.via {
            Via::H2 | Via::H2c => {
                let mut load = self.h2_load(&serving)?;
                warm(|bound| load.run(bound))?;
                measured(context, &serving.server, || load.run(bound))?
            }
            Via::H3 | Via::H3Gso | Via::H3Workers => {
                let mut load = self.h3_load(&serving)?;
                warm(|bound| load.run(bound))?;
                measured(context, &serving.server, || load.run(bound))?
            }
            Via::Https => {
                let mut load = self.https_load(context, &serving)?;
                warm(|bound| load.run(bound))?;
                measured(context, &serving.server, || load.run(bound))?
            }
        };
        Ok(sample(values, &outcome))
    }

    fn h2_load(&self, serving: &Serving) -> Result<h2::load::Load, String> {
        let ask = match self.what {
            What::Own(request) => {
                let (target, bytes) = request.target();
                Ask::get(target, bytes)
            }
            What::Passed(Call::Get) => Ask::get("/bytes?n=1024", 1024),
            What::Passed(Call::Unary) => Ask::echo(MESSAGE_BYTES),
        };
        let plan = h2::load::Plan {
            address: serving.address(self.via),
            tls: self.via.tls()?,
            asks: vec![ask],
            connections: self.connections.unwrap_or(1),
            streams: self.streams,
        };
        h2::load::Load::new(plan).map_err(|error| format!("load: {error}"))
    }

    fn h3_load(&self, serving: &Serving) -> Result<h3::load::Load, String> {
        let What::Own(request) = self.what else { return Err("no such case".to_owned()) };
        let (target, bytes) = request.target();
        let size = (self.connections.unwrap_or(1), self.streams as usize);
        let asks = vec![Ask::get(target, bytes)];
        serving.h3_load(serving.address(self.via), asks, size, h3::load::Mode::Kept)
    }

    fn https_load(&self, context: &Context, serving: &Serving) -> Result<load::Load, String> {
        let (target, bytes) = match self.what {
            What::Own(request) => request.target(),
            What::Passed(_) => return Err("no such case".to_owned()),
        };
        let plan = load::Plan {
            address: serving.address(self.via),
            asks: vec![TestRequest::counted(target, bytes)],
            connections: self.connections.unwrap_or(context.options.connections),
            mode: Mode::KeepAlive,
            loss_policy: LossPolicy::Count,
        };
        load::Load::over(plan, self.via.tls()?).map_err(|error| format!("load: {error}"))
    }
}

/// The handshake of each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    Rsa,
    Ecdsa,
    /// With P-256, of a session before it.
    Resumed,
    /// With P-256, over QUIC.
    Quic,
}

impl Handshake {
    /// One run: fresh server, warm-up, one connection after the other with one request each.
    pub(super) fn run(self, context: &Context, binary: &Binary) -> Result<Sample, String> {
        let job = |scenario| context.job(scenario, WORKER_CONNECTIONS);
        let via = if self == Handshake::Quic { Via::H3 } else { Via::Https };
        let serving = match start(context, binary, Part::Front, via, job)? {
            Ok(serving) => serving,
            Err(reason) => return Ok(Sample::not_served(HANDSHAKES.len(), &reason)),
        };
        let (pair, port) = match self {
            Handshake::Rsa => (protocols::rsa(), serving.places.rsa),
            Handshake::Ecdsa | Handshake::Resumed => (protocols::ecdsa(), serving.places.ecdsa),
            Handshake::Quic => return http3::handshakes(context, &serving),
        };
        let sessions = match self {
            Handshake::Resumed => Sessions::Resumed,
            Handshake::Rsa | Handshake::Ecdsa | Handshake::Quic => Sessions::Full,
        };
        let pem = pair.map_err(|error| error.to_string())?.certificate.as_bytes();
        let tls = Tls::new(pem, protocols::NAME, &[HTTP1], sessions)?;
        let (target, bytes) = Request::Tiny.target();
        let plan = load::Plan {
            address: port.address(),
            asks: vec![TestRequest::counted(target, bytes)],
            connections: HANDSHAKES_AT_ONCE,
            mode: Mode::Close,
            loss_policy: LossPolicy::Count,
        };
        let load = load::Load::over(plan, Some(tls));
        let mut load = load.map_err(|error| format!("load: {error}"))?;
        warm(|bound| load.run(bound))?;
        let bound = Bound { duration: context.options.run_time, requests_max: REQUESTS_MAX };
        let (values, outcome) = measured(context, &serving.server, || load.run(bound))?;
        let mut sample = sample(values, &outcome);
        let resumed = outcome.resumed as f64 / outcome.opened.max(1) as f64;
        let is_right = match sessions {
            Sessions::Resumed => resumed > RESUMED_MIN,
            Sessions::Full => outcome.resumed == 0,
        };
        if !is_right {
            let percent = resumed * 100.0;
            sample.note = Some(format!("{percent:.0} % of the handshakes were resumed ones"));
            sample.errors += 1;
        }
        Ok(sample)
    }
}

/// Fills caches by one request, then all connections. A wrong response ends the case: error pages would be measured.
///
/// # Errors
/// In words.
pub(super) fn warm(mut run: impl FnMut(Bound) -> std::io::Result<Outcome>) -> Result<(), String> {
    for requests_max in [1, WARM_UP_REQUESTS] {
        let outcome = run(Bound { duration: WARM_UP, requests_max });
        let outcome = outcome.map_err(|error| format!("load: {error}"))?;
        if let Some(error) = outcome.first_error {
            return Err(format!("wrong response in warm-up: {error}"));
        }
    }
    Ok(())
}

pub(super) fn sample(values: Vec<f64>, outcome: &Outcome) -> Sample {
    let note = outcome.first_error.as_ref().map(|error| format!("first error: {error}"));
    Sample { values, errors: outcome.errors, note }
}

/// Those of [`LOAD_MEASURES`] by other names.
pub(super) const HANDSHAKES: [Measure; LOAD_MEASURES.len()] = [
    Measure::new("CPU per handshake", "µs", 1),
    Measure::new("of it user", "µs", 1),
    Measure::new("handshakes/s", "", 0).better(Better::Higher),
    Measure::new("p50 of the request", "µs", 0),
    Measure::new("p99 of the request", "µs", 0),
    Measure::new("p99.9 of the request", "µs", 0),
    Measure::new("longest request", "µs", 0),
    LOAD_MEASURES[7],
    LOAD_MEASURES[8],
];
const MESSAGE_BYTES: usize = 100;
/// Connections with a request; their handshakes are done one after the other.
pub(super) const HANDSHAKES_AT_ONCE: usize = 4;
/// Resumed handshakes of all.
const RESUMED_MIN: f64 = 0.9;
pub(super) const WORKER_CONNECTIONS: u64 = 4_096;
const WARM_UP: Duration = Duration::from_millis(500);
const WARM_UP_REQUESTS: u64 = 3_000;
