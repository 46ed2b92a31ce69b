//! The fairness suite: the waiting time of a quiet client beside one kind of busy clients, on one thread.
//!
//! The quiet client requests a small file, one request at a time over one connection, with pauses. The busy clients
//! run on threads of the lowest priority, so that they take no processor time from the quiet client.

mod busy;
mod partner;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Better, CaseReport, Context, Measure, Sample, alternate};
use crate::config::fairness::{Places, Port};
use crate::config::{SMALL_FILE, Scenario};
use crate::histogram::Histogram;
use crate::load::is_transient;
use crate::probe;
use crate::server::{Binary, Job, Server};
use crate::statistics::Limit;
pub(super) use busy::step_back;
use busy::{Busy, Work};
use partner::Partner;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    work: Option<Work>,
}

const fn case(name: &'static str, about: &'static str, work: Work) -> Case {
    Case { name, about, work: Some(work) }
}

/// The suite's table.
pub(crate) const CASES: [Case; 16] = [
    Case { name: "alone", about: "a quiet client alone", work: None },
    case(
        "pipeline",
        "beside pipelined requests for a small file",
        Work::Pipeline("GET", "/small.html"),
    ),
    case("pipeline-head", "beside pipelined HEAD", Work::Pipeline("HEAD", "/small.html")),
    case(
        "pipeline-return",
        "beside pipelined requests for return",
        Work::Pipeline("GET", "/return"),
    ),
    case("uploads", "beside uploads of 8 MiB that are buffered and proxied", Work::Uploads),
    case(
        "chunks",
        "beside uploads of chunks of one byte, buffered and proxied",
        Work::Chunks("/upload"),
    ),
    case("chunks-unread", "beside such uploads that no location reads", Work::Chunks("/return")),
    case("tunnel", "beside busy tunnels (Upgrade) of 4 clients", Work::Tunnel),
    case("stream", "beside 4 TCP sessions at full speed", Work::Stream),
    case(
        "datagrams",
        "beside a flood of datagrams of 64 clients, each of which gets one back",
        Work::Datagrams,
    ),
    case("sessions", "beside a flood of datagrams, each of which is a session", Work::Sessions),
    case("downloads", "beside 8 downloads of 16 MiB from the cache", Work::Downloads),
    case("followers", "beside 100 clients of one fill after the other", Work::Followers),
    case("parts", "beside 4 clients of a page of 500 parts (SSI)", Work::Parts),
    case("gzip", "beside 4 clients of 8 MiB that are compressed", Work::Compressed),
    case("tls", "beside 4 downloads of 16 MiB by TLS", Work::Tls),
];

/// The part of the requests that a user notices in a page of many requests.
const P99_MAX: Limit = Limit::MedianAtMost(20.0);

const MEASURES: [Measure; 4] = [
    Measure::new("p99", "ms", 2).required(P99_MAX),
    Measure::new("median", "ms", 2),
    Measure::new("longest", "ms", 2),
    Measure::new("the busy ones", "MB/s", 1).better(Better::Neither),
];

impl Case {
    /// Measures both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        let mut report = alternate(context, self.name, &MEASURES, |binary, ours| {
            self.run(context, binary, ours)
        });
        let above = |values: &[f64]| {
            !values.is_empty() && P99_MAX.judge(values) == super::TargetResult::Missed
        };
        let row = &report.rows[0];
        for (name, values) in [("Tidegate", &row.tidegate), ("nginx", &row.nginx)] {
            if above(values) {
                report.notes.push(format!("{}: {name}'s p99 is above 20 ms", self.name));
            }
        }
        report
    }

    fn run(&self, context: &Context, binary: &Binary, ours: bool) -> Result<Sample, String> {
        let partner = Partner::start().map_err(|error| format!("partner: {error}"))?;
        let places = places(&partner, needs_library(binary)).map_err(|error| error.to_string())?;
        let job = Job {
            tempfile_directive: ours,
            ..context.job(Scenario::Fairness(places), CONNECTIONS)
        };
        let server = Server::start(binary, job)?;
        let address = server.address();
        let busy = Busy {
            server: &server,
            places,
            moved: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        let mut work_took = Duration::ZERO;
        let (worked, asked) = thread::scope(|scope| {
            let worker = self.work.map(|work| {
                scope.spawn({
                    let busy = &busy;
                    move || busy.run(work)
                })
            });
            let asked = busy.wait_begun(worker.is_some()).and_then(|()| {
                let (begun, before) = (Instant::now(), busy.moved.load(Ordering::Relaxed));
                let asked = quiet(address, context.options.run_time);
                work_took = begun.elapsed();
                Ok((asked?, busy.moved.load(Ordering::Relaxed) - before))
            });
            busy.stop.store(true, Ordering::Relaxed);
            let worked = worker.map_or(Ok(Ok(())), |worker| worker.join());
            (worked.unwrap_or_else(|_| Err("the other load panicked".to_owned())), asked)
        });
        worked.map_err(|error| format!("the busy clients: {error}"))?;
        let (latencies, moved) = asked?;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let values = vec![
            millis(latencies.quantile(0.99)),
            millis(latencies.quantile(0.5)),
            millis(latencies.maximum()),
            moved as f64 / 1e6 / work_took.as_secs_f64().max(1e-9),
        ];
        Ok(Sample { values, ..Sample::default() })
    }
}

/// The quiet client: latencies of its requests.
fn quiet(address: SocketAddr, time: Duration) -> Result<Histogram, String> {
    let failed = |error: std::io::Error| format!("the quiet client: {error}");
    let mut client = probe::Kept::connect(address, PATIENCE).map_err(failed)?;
    let (mut latencies, end) = (Histogram::default(), Instant::now() + time);
    while Instant::now() < end {
        let begun = Instant::now();
        let asked = client.ask(&format!("/{}", SMALL_FILE.0));
        latencies.record(begun.elapsed());
        match asked {
            Ok((200, bytes)) if bytes == SMALL_FILE.1 => {}
            Ok((status, bytes)) => {
                return Err(format!("the quiet client got status {status}, {bytes} body bytes"));
            }
            // The timeout is the figure.
            Err(error) if is_transient(&error) => break,
            Err(error) => return Err(failed(error)),
        }
        thread::sleep(PAUSE);
    }
    Ok(latencies)
}

/// Free addresses for the further listeners.
fn places(partner: &Partner, loads_stream: bool) -> std::io::Result<Places> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    // All at once, so that none is returned twice.
    let (tls, stream) = (TcpListener::bind(any)?, TcpListener::bind(any)?);
    let (datagrams, sessions) = (UdpSocket::bind(any)?, UdpSocket::bind(any)?);
    Ok(Places {
        tls: Port(tls.local_addr()?.port()),
        stream: Port(stream.local_addr()?.port()),
        datagrams: Port(datagrams.local_addr()?.port()),
        sessions: Port(sessions.local_addr()?.port()),
        partner: Port(partner.address.port()),
        echo: Port(partner.echo.port()),
        loads_stream,
    })
}

/// Whether this program has `stream` in a library of its own.
fn needs_library(binary: &Binary) -> bool {
    let output = Command::new(&binary.path).arg("-V").stdin(Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("--with-stream=dynamic")
}

const CONNECTIONS: u64 = 4096;
const PAUSE: Duration = Duration::from_millis(1);
/// The timeout of a starved client.
const PATIENCE: Duration = Duration::from_secs(10);
