//! An `otel_exporter` block, ready for use, and the task that sends its batches.
//!
//! The task belongs to the plan and ends with it; spans that wait stay in the queue, for the task of the next plan. A call
//! that fails for a reason that passes (no connection, UNAVAILABLE) is repeated, later each time, while further batches
//! wait; for any other reason the batch is dropped. Both are logged.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::protobuf::{bytes, message};
use tidegate_conf::{Diagnostic, Span, Word};
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_core::main_settings::Count;
use tidegate_core::plan::Service;
use tidegate_gateway::outbound;
use tidegate_plan::PlanBuilder;
use tidegate_rt::sync::select;
use tidegate_rt::{clock, random, timer};
use tidegate_upstream::care::{BackgroundTask, BackgroundTasks};

use super::Otel;
use super::collector::{Collector, Endpoint, Failure};
use super::conf::{Conf, ExporterConf, Protocol};
use super::queue::{Batch, Limits, Queue};
use super::span;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
const BATCH_SIZE_DEFAULT: u64 = 512;
const BATCH_COUNT_DEFAULT: u64 = 4;
/// The path of `http/protobuf` without one in the endpoint (OTLP, section "OTLP/HTTP Request").
const HTTP_PATH: &str = "/v1/traces";
const SERVICE_NAME_DEFAULT: &str = "unknown_service:nginx";
/// Wait before a failed call is repeated: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest wait for the last spans when the process ends: a master that ends at once (TERM) kills a worker that
/// has not ended after a second.
const FINISH_TIME_MAX: Duration = Duration::from_millis(500);

/// The exporter of a plan.
pub(super) struct Exporter {
    queue: Arc<Queue>,
    limits: Limits,
    interval: Duration,
    collector: Collector,
    /// In front of the spans of each message.
    resource: Vec<u8>,
    scope: Vec<u8>,
    log: ErrorLog,
}

/// Makes the exporter of the `http` block, with its task; `None` without an `otel_exporter`.
///
/// # Errors
/// There is more than one; `endpoint` is missing or invalid; a file cannot be read.
pub(super) fn prepare(
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Arc<Exporter>>, Diagnostic> {
    let Some(http) = plan.http_block() else { return Ok(None) };
    let mut blocks = http.blocks("otel_exporter");
    let Some(block) = blocks.next() else { return Ok(None) };
    if let Some(second) = blocks.next() {
        return Err(Diagnostic::emerg("\"otel_exporter\" directive is duplicate").at(second.span));
    }
    let nothing = ExporterConf::default();
    let own = block.conf::<Otel>().map_or(&nothing, |conf| &conf.exporter);
    let Some(word) = &own.endpoint else {
        return Err(Diagnostic::emerg("\"otel_exporter\" requires \"endpoint\"")
            .at(block.span)
            .help("write `endpoint HOST:4317;` in it"));
    };
    let collector = collector(word, own, block.span, plan)?;
    let threads = match plan.main.worker_processes {
        Count::Number(number) => number.max(1),
        Count::Auto => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let of = |given: Option<u64>, default: u64| {
        usize::try_from(given.unwrap_or(default)).unwrap_or(usize::MAX)
    };
    let limits = Limits {
        spans: of(own.batch_size, BATCH_SIZE_DEFAULT),
        batches: of(own.batch_count, BATCH_COUNT_DEFAULT).saturating_mul(threads),
    };
    let make = || Ok::<_, Diagnostic>(Queue::default());
    let exporter = Arc::new(Exporter {
        queue: plan.environment.reload_state.get_or_make("otel", make)?,
        limits,
        interval: own.interval.unwrap_or(INTERVAL_DEFAULT),
        collector,
        resource: resource(conf),
        scope: scope(),
        log: plan.main.error_log.clone(),
    });
    let protocol = exporter.collector.protocol;
    plan.show(&(&exporter.interval, &exporter.limits, &exporter.resource, protocol));
    plan.shared::<BackgroundTasks>().add(Arc::new(ExportTask(exporter.clone())));
    plan.services.push(Arc::new(LastSpans(exporter.queue.clone())));
    Ok(Some(exporter))
}

fn collector(
    word: &Word,
    own: &ExporterConf,
    span: Span,
    plan: &mut PlanBuilder<'_>,
) -> Result<Collector, Diagnostic> {
    let endpoint = word.display().into_owned();
    let protocol = own.protocol.unwrap_or_default();
    let (secure, rest) = match endpoint.split_once("://") {
        None => (false, &*endpoint),
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some((scheme, _)) => {
            let message = format!("invalid scheme \"{scheme}\" of \"endpoint\"");
            return Err(Diagnostic::emerg(message).at(word.span).help("it is `http` or `https`"));
        }
    };
    let (authority, path) = match rest.find('/').filter(|_| protocol == Protocol::Http) {
        Some(at) => rest.split_at(at),
        None => (rest, HTTP_PATH),
    };
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
    let is_valid = is_host && path.bytes().all(|byte| byte.is_ascii_graphic());
    let (true, Ok(port @ 1..)) = (is_valid, port.parse::<u16>()) else {
        let message = format!("invalid endpoint \"{endpoint}\"");
        return Err(Diagnostic::emerg(message).at(word.span).label("expected `HOST:PORT`"));
    };
    let owner = ("otel_exporter", "set `trusted_certificate`");
    let tls = match secure {
        false => None,
        true => {
            let options = outbound::tls_options(owner, own.trusted.as_ref(), true, span, plan)?;
            Some(outbound::tls(&options, span)?)
        }
    };
    let http = plan.http_block();
    Ok(Collector::new(
        Endpoint { protocol, host: bare, port, authority, path },
        tls,
        own.headers.clone(),
        http.map(|http| outbound::resolver(http, plan)).transpose()?.flatten(),
        plan.main.error_log.clone(),
    ))
}

/// Numbers of the fields of `ExportTraceServiceRequest`, `ResourceSpans`, `ScopeSpans`, `Resource` and
/// `InstrumentationScope`.
const RESOURCE_SPANS: u64 = 1;
const RESOURCE: u64 = 1;
const SCOPE_SPANS: u64 = 2;
const SCOPE: u64 = 1;
const ATTRIBUTES: u64 = 1;
const SCOPE_NAME: u64 = 1;
const SCOPE_VERSION: u64 = 2;

fn resource(conf: &Conf) -> Vec<u8> {
    let name = conf.service_name.as_deref().unwrap_or(SERVICE_NAME_DEFAULT);
    let attributes = conf.resource.iter().map(|(name, value)| (&**name, &**value));
    let mut out = Vec::new();
    message(RESOURCE, &mut out, |out| {
        for (name, value) in std::iter::once(("service.name", name)).chain(attributes) {
            message(ATTRIBUTES, out, |out| span::key_value(name, value.as_bytes(), out));
        }
    });
    out
}

fn scope() -> Vec<u8> {
    let mut out = Vec::new();
    message(SCOPE, &mut out, |out| {
        bytes(SCOPE_NAME, b"tidegate", out);
        bytes(SCOPE_VERSION, env!("CARGO_PKG_VERSION").as_bytes(), out);
    });
    out
}

impl Exporter {
    /// Adds an encoded span.
    pub(super) fn push(&self, span: &[u8]) {
        self.queue.push(span, self.limits);
    }

    /// Returns the message of a batch, an `ExportTraceServiceRequest`.
    fn request(&self, batch: &Batch) -> Vec<u8> {
        let mut out = Vec::with_capacity(batch.spans.len() + 256);
        message(RESOURCE_SPANS, &mut out, |out| {
            out.extend_from_slice(&self.resource);
            message(SCOPE_SPANS, out, |out| {
                out.extend_from_slice(&self.scope);
                out.extend_from_slice(&batch.spans);
            });
        });
        out
    }

    async fn run(&self) {
        self.collector.look_up().await;
        let mut due = clock::now() + self.interval;
        loop {
            let left = due.saturating_duration_since(clock::now());
            let is_due = select! {
                () = timer::sleep(left) => true,
                () = self.queue.changed() => false,
            };
            if is_due {
                due = clock::now() + self.interval;
                self.report_dropped();
            }
            while self.send_one(false).await {}
            // Once: spans of meanwhile belong to the next batch.
            if is_due {
                self.send_one(true).await;
            }
        }
    }

    /// Sends a batch, if there is one. Dropped while it waits (the plan is gone), it leaves the batch in the queue.
    async fn send_one(&self, all: bool) -> bool {
        let mut pause = PAUSE_MIN;
        let Some(sending) = self.queue.take(all) else { return false };
        let request = self.request(sending.batch());
        loop {
            let failure = match self.collector.export(&request).await {
                Ok(()) => break,
                Err(failure) => failure,
            };
            let repeats = failure.passes() && !self.queue.is_ending();
            let count = sending.batch().count;
            self.log.say(
                Level::Error,
                format_args!(
                    "OTel export failure: {failure}, {}",
                    match repeats {
                        true => format!("repeated in {} s", pause.as_secs()),
                        false => format!("{count} spans dropped"),
                    }
                ),
            );
            if !repeats {
                break;
            }
            let jitter = Duration::from_millis(random::below(250));
            select! {
                () = timer::sleep(pause + jitter) => {}
                () = self.ended() => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
            self.report_dropped();
        }
        sending.done();
        true
    }

    /// Waits until the process ends.
    async fn ended(&self) {
        while !self.queue.is_ending() {
            self.queue.changed().await;
        }
    }

    fn report_dropped(&self) {
        let dropped = self.queue.dropped();
        if dropped > 0 {
            let message = "spans were dropped: the collector does not keep up";
            self.log.say(Level::Warn, format_args!("OTel: {dropped} {message}"));
        }
    }
}

/// The task of a plan.
struct ExportTask(Arc<Exporter>);

impl BackgroundTask for ExportTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move { self.0.run().await })
    }
}

/// Waits for the last spans when the process ends.
struct LastSpans(Arc<Queue>);

impl Service for LastSpans {
    fn name(&self) -> String {
        "spans".to_owned()
    }

    fn step(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn finish(&self) {
        self.0.finish(FINISH_TIME_MAX);
    }
}

impl Failure {
    /// Whether the same call may succeed later (OTLP, section "Failures").
    fn passes(&self) -> bool {
        match self {
            Failure::Connection(_) => true,
            // CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS.
            Failure::Status(status, _) => matches!(status, 1 | 4 | 8 | 10 | 11 | 14 | 15),
            Failure::Http(status) => matches!(status, 429 | 502 | 503 | 504),
            Failure::Invalid(_) => false,
        }
    }
}
