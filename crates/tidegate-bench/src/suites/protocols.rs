//! The protocols suite: HTTP/2, HTTP/3 and TLS beside nginx: the cost of requests and handshakes, idle connections, HTTP/2
//! to origins, lossy paths, hostile clients, reloads; and the cost of `tidegate-h2` alone.
//!
//! A server that does not have a function is shown as "not served" in its rows.

use super::quick::{LOAD_MEASURES, disturbance};
use super::{Alternation, CaseReport, Context, Measure};
use crate::h2::hostile::Attack;
use crate::h3::hostile::Attack as H3Attack;
use crate::statistics::Limit;
use floods::Flood;
use loads::{Call, Handshake, Load, Request};
use serving::Via;

mod core;
mod floods;
mod http3;
mod idle;
mod loads;
mod origins;
mod reload;
mod serving;

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
    /// CPU time of requests.
    Load(Load),
    /// CPU time of handshakes.
    Handshake(Handshake),
    /// Memory of idle connections; bytes that each may cost Tidegate.
    Idle(Via, f64),
    /// Streams over connections to the origin.
    Streams,
    /// Other clients beside one that does not read.
    SlowReader,
    Flood(Flood),
    Reload,
    /// The same of HTTP/3, with the number of workers.
    ReloadWorkers,
    /// HTTP/3 over a path that loses datagrams.
    Lossy,
    Core,
}

const fn load(name: &'static str, about: &'static str, target: Option<f64>, load: Load) -> Case {
    Case { name, about, target, kind: Kind::Load(load) }
}

const fn flood(name: &'static str, about: &'static str, attack: Attack) -> Case {
    Case { name, about, target: None, kind: Kind::Flood(Flood::H2(attack)) }
}

const fn flood3(name: &'static str, about: &'static str, attack: H3Attack) -> Case {
    Case { name, about, target: None, kind: Kind::Flood(Flood::H3(attack)) }
}

const fn handshake(
    name: &'static str,
    about: &'static str,
    target: Option<f64>,
    handshake: Handshake,
) -> Case {
    Case { name, about, target, kind: Kind::Handshake(handshake) }
}

const fn idle(name: &'static str, about: &'static str, via: Via, bytes: f64) -> Case {
    Case { name, about, target: None, kind: Kind::Idle(via, bytes) }
}

/// The suite's table.
#[rustfmt::skip]
pub(crate) const CASES: [Case; 40] = [
    load("h2-tiny", "return 200, HTTP/2 by TLS, 16 connections of 10 streams", Some(0.35),
        Load::h2(Via::H2, Request::Tiny, 16, 10)),
    load("h2-16k", "file of 16 KiB, HTTP/2 by TLS, 8 connections of 16 streams", Some(0.55),
        Load::h2(Via::H2, Request::Medium, 8, 16)),
    load("h2-100k", "file of 100 KiB, likewise", Some(0.40),
        Load::h2(Via::H2, Request::Large, 8, 16)),
    load("h2c-tiny", "return 200, HTTP/2 without TLS, 16 connections of 10 streams", None,
        Load::h2(Via::H2c, Request::Tiny, 16, 10)),
    load("h2c-16k", "file of 16 KiB, HTTP/2 without TLS, 8 connections of 16 streams", None,
        Load::h2(Via::H2c, Request::Medium, 8, 16)),
    load("h2c-100k", "file of 100 KiB, likewise", None,
        Load::h2(Via::H2c, Request::Large, 8, 16)),
    load("https-tiny", "return 200, HTTP/1.1 by TLS, 64 connections", Some(0.70),
        Load::https(Request::Tiny)),
    load("https-100k", "file of 100 KiB, likewise", Some(0.42),
        Load::https(Request::Large)),
    handshake("handshake-rsa", "connection, full handshake (RSA of 2048 bits), one request", Some(0.80),
        Handshake::Rsa),
    handshake("handshake-ecdsa", "the same with P-256", Some(0.55), Handshake::Ecdsa),
    handshake("handshake-resumed", "the same with a resumed session", None, Handshake::Resumed),
    idle("idle-h2c", "memory of idle HTTP/2 connections without TLS, after one request each", Via::H2c, 2_500.0),
    idle("idle-h2", "the same by TLS", Via::H2, 4_500.0),
    idle("idle-https", "the same of HTTP/1.1 by TLS", Via::Https, 4_500.0),
    load("proxy-h2", "proxy, 1 KiB response, HTTP/2 (without TLS) from client to origin", Some(0.60),
        Load::passed(Call::Get, 16, 10)),
    load("grpc", "proxy of unary calls of gRPC with 100 bytes", None,
        Load::passed(Call::Unary, 16, 10)),
    Case { name: "streams", about: "1,000 requests at once through the proxy, to an origin of HTTP/2",
        target: None, kind: Kind::Streams },
    Case { name: "slow-reader", about: "a proxied response of 1 KiB beside clients that do not read theirs",
        target: None, kind: Kind::SlowReader },
    flood("flood-reset", "other clients beside three that reset their requests at once", Attack::RapidReset),
    flood("flood-provoked", "beside three that make the server reset them (MadeYouReset)", Attack::MadeYouReset),
    flood("flood-continuation", "beside three that send header blocks without an end", Attack::Continuation),
    flood("flood-hpack", "beside three whose header blocks become large when decoded", Attack::HpackBomb),
    flood("flood-ping", "beside three that send PING", Attack::Ping),
    flood("flood-settings", "beside three that send SETTINGS", Attack::Settings),
    flood("flood-window", "beside three that request files and open no window", Attack::SlowReader),
    Case { name: "reload-h2", about: "HTTP/2 by TLS under load while the server is reloaded every second",
        target: None, kind: Kind::Reload },
    load("h3-tiny", "return 200, HTTP/3, 16 connections of 10 streams", Some(0.70),
        Load::h3(Via::H3, Request::Tiny, 16, 10)),
    load("h3-16k", "file of 16 KiB, HTTP/3, 8 connections of 16 streams", None,
        Load::h3(Via::H3, Request::Medium, 8, 16)),
    load("h3-100k", "file of 100 KiB, likewise", Some(0.45),
        Load::h3(Via::H3, Request::Large, 8, 16)),
    load("h3-100k-gso", "the same, both servers with quic_gso on", Some(0.90),
        Load::h3(Via::H3Gso, Request::Large, 8, 16)),
    handshake("handshake-h3", "connection of QUIC, full handshake (P-256), one request", None, Handshake::Quic),
    idle("idle-h3", "memory of at most 1,000 idle HTTP/3 connections, after one request each", Via::H3, 60_000.0),
    Case { name: "h3-lossy", about: "file of 100 KiB over a relay: 1 % loss and 5 ms each way, 4 connections of 2 streams",
        target: Some(1.0), kind: Kind::Lossy },
    flood3("flood3-reset", "HTTP/3: other clients beside three that reset their requests at once", H3Attack::RapidReset),
    flood3("flood3-ping", "beside three that send packets with PING", H3Attack::Ping),
    flood3("flood3-control", "beside three that send PRIORITY_UPDATE and frames without meaning", H3Attack::Control),
    flood3("flood3-window", "beside three that request files and open no window", H3Attack::SlowReader),
    flood3("flood3-spoofed", "beside three that send first packets from many addresses, and no others",
        H3Attack::Handshakes),
    Case { name: "reload-h3", about: "HTTP/3 under load while the server is reloaded 25 times, with 2, 4 and 2 workers",
        target: None, kind: Kind::ReloadWorkers },
    Case { name: "core", about: "tidegate-h2 alone, in memory: a tiny request and its response",
        target: None, kind: Kind::Core },
];

impl Case {
    /// Measures both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        match self.kind {
            Kind::Load(load) => {
                self.both(context, &LOAD_MEASURES).all(|binary, _| load.run(context, binary))
            }
            Kind::Handshake(kind) => {
                self.both(context, &loads::HANDSHAKES).all(|binary, _| kind.run(context, binary))
            }
            Kind::Idle(via, bytes) => {
                let mut measures = super::idle::MEASURES;
                measures[0] = measures[0].required(Limit::MedianAtMost(bytes));
                self.both(context, &measures).all(|binary, _| idle::run(context, binary, via))
            }
            Kind::Streams => self
                .both(context, &origins::STREAMS)
                .all(|binary, _| origins::streams(context, binary)),
            Kind::SlowReader => self
                .both(context, &origins::SLOW_READER)
                .all(|binary, _| origins::slow_reader(context, binary)),
            Kind::Flood(flood) => self
                .once(context, &floods::measures(flood))
                .all(|binary, _| floods::run(context, binary, flood)),
            Kind::Lossy => {
                self.both(context, &http3::LOSSY).all(|binary, _| http3::lossy(context, binary))
            }
            Kind::ReloadWorkers => self
                .once(context, &reload::MEASURES)
                .all(|binary, _| reload::run_h3(context, binary)),
            Kind::Reload => {
                self.once(context, &reload::MEASURES).all(|binary, _| reload::run(context, binary))
            }
            Kind::Core => {
                let rounds = context.options.rounds;
                super::alone(context, rounds, self.name, &core::MEASURES, |_| core::run())
            }
        }
        .with_disturbance()
    }

    /// All rounds; the case's target belongs to the first measure.
    fn both(&self, context: &Context, measures: &[Measure]) -> Alternation {
        let mut measures = measures.to_vec();
        if let Some(first) = measures.first_mut() {
            first.target = self.target;
        }
        Alternation::new(context, self.name, &measures)
    }

    /// One run of each side: they take seconds.
    fn once(&self, context: &Context, measures: &[Measure]) -> Alternation {
        let mut alternation = self.both(context, measures);
        alternation.rounds = 1;
        alternation
    }
}

impl CaseReport {
    fn with_disturbance(mut self) -> CaseReport {
        self.notes.extend(disturbance(&self));
        self
    }
}
