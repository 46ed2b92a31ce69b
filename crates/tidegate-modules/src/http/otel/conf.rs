//! The directives.

use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::connection::is_token;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Word, once, row};

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    /// In `otel_exporter`.
    pub(super) exporter: ExporterConf,
    pub(super) service_name: Option<String>,
    pub(super) resource: Vec<(String, String)>,
    pub(super) trace: Option<Word>,
    pub(super) propagation: Option<Propagation>,
    pub(super) name: Option<Word>,
    pub(super) attributes: Vec<(Arc<str>, Word)>,
    pub(super) children: Option<bool>,
}

/// An `otel_exporter` block.
#[derive(Default)]
pub(super) struct ExporterConf {
    pub(super) endpoint: Option<Word>,
    pub(super) protocol: Option<Protocol>,
    pub(super) trusted: Option<Word>,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) interval: Option<Duration>,
    pub(super) batch_size: Option<u64>,
    pub(super) batch_count: Option<u64>,
}

/// `protocol` of an exporter: the two forms of OTLP with binary messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// A call of gRPC.
    #[default]
    Grpc,
    /// A POST request of HTTP/1.1.
    Http,
}

/// `otel_trace_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Propagation {
    /// The context of the request is that of its parent.
    pub extract: bool,
    /// The context is sent to origins.
    pub inject: bool,
}

impl Propagation {
    pub(super) const IGNORE: Propagation = Propagation { extract: false, inject: false };
    const EXTRACT: Propagation = Propagation { extract: true, inject: false };
    const INJECT: Propagation = Propagation { extract: false, inject: true };
    const BOTH: Propagation = Propagation { extract: true, inject: true };
}

impl Conf {
    /// Takes what the outer block has and this one does not.
    pub(super) fn inherit(&mut self, parent: &Conf) {
        if self.trace.is_none() {
            self.trace.clone_from(&parent.trace);
        }
        self.propagation = self.propagation.or(parent.propagation);
        self.children = self.children.or(parent.children);
        if self.name.is_none() {
            self.name.clone_from(&parent.name);
        }
        if self.attributes.is_empty() {
            self.attributes.clone_from(&parent.attributes);
        }
    }
}

/// Most spans of a batch, and most batches: with values near their limit of length a batch has some megabytes.
const BATCH_SIZE_MAX: u64 = 100_000;
const BATCH_COUNT_MAX: u64 = 10_000;
const BLOCK: Contexts = Contexts::OTEL_EXPORTER;

pub(super) const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "otel_exporter",
        contexts: Contexts::HTTP,
        args: Arity::NONE,
        kind: Kind::Block,
        default: "",
        doc: "The collector of spans (OTLP), and how they are collected into batches.",
        has_effect: true,
        set: |_, _| Ok(()),
    },
    row(
        "otel_service_name",
        Contexts::HTTP,
        Arity::ONE,
        "unknown_service:nginx",
        "The attribute `service.name` of the resource that spans belong to.",
        |conf, args| once(&mut conf.service_name, args.text(0)?.to_owned(), args),
    ),
    row(
        "otel_resource_attr",
        Contexts::HTTP,
        Arity::TWO,
        "",
        "A further attribute, `NAME VALUE`, of the resource that spans belong to.",
        |conf, args| {
            let (name, value) = (args.text(0)?, args.text(1)?);
            conf.resource.retain(|(known, _)| known != name);
            conf.resource.push((name.to_owned(), value.to_owned()));
            Ok(())
        },
    ),
    row(
        "otel_trace",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "off",
        "Whether requests are traced: `on`, `off`, or a text with variables that is `on` or `1` for those that are.",
        |conf, args| {
            let word = args.word(0);
            let is_valid = matches!(&word.bytes[..], b"on" | b"off") || word.bytes.contains(&b'$');
            if !is_valid {
                let message = format!("invalid value \"{}\"", word.display());
                return Err(args.error(0, message).help("it is `on`, `off` or a variable"));
            }
            once(&mut conf.trace, word.clone(), args)
        },
    ),
    row(
        "otel_trace_context",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "ignore",
        "Use of the fields `traceparent` and `tracestate` (W3C Trace Context): `extract` continues the trace of the \
         request's fields, `inject` sets those that origins receive, `propagate` does both, `ignore` neither.",
        |conf, args| {
            let choices = [
                ("extract", Propagation::EXTRACT),
                ("inject", Propagation::INJECT),
                ("propagate", Propagation::BOTH),
                ("ignore", Propagation::IGNORE),
            ];
            once(&mut conf.propagation, args.choice(0, &choices)?, args)
        },
    ),
    row(
        "otel_span_name",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "",
        "Name of the span, with variables; else the name of the request's location.",
        |conf, args| once(&mut conf.name, args.word(0).clone(), args),
    ),
    row(
        "otel_child_spans",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "off",
        "Whether a request's span has children: one for each attempt at a server of a group, with the moments at which the \
         connection and the response's head were there, and one for each cause for which the request has waited otherwise \
         (`$request_verdict`): all waits for one cause together, up to the end of the last one.",
        |conf, args| once(&mut conf.children, args.flag(0)?, args),
    ),
    row(
        "otel_span_attr",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::TWO,
        "",
        "A further attribute, `NAME VALUE`, of the span; the value may have variables. An attribute whose name begins with \
         `http.request.header.` or `http.response.header.` is a list of one value, as the conventions say.",
        |conf, args| {
            conf.attributes.push((args.text(0)?.into(), args.word(1).clone()));
            Ok(())
        },
    ),
];

pub(super) const EXPORTER_ROWS: &[Directive<Conf>] = &[
    row(
        "endpoint",
        BLOCK,
        Arity::ONE,
        "",
        "The collector: `[http://|https://]HOST:PORT`; with `https` over TLS. With `protocol http/protobuf` a path may follow, \
         which is `/v1/traces` by default.",
        |conf, args| {
            args.text(0)?;
            once(&mut conf.exporter.endpoint, args.word(0).clone(), args)
        },
    ),
    row(
        "protocol",
        BLOCK,
        Arity::ONE,
        "grpc",
        "How batches are sent: `grpc`, which is HTTP/2, or `http/protobuf`, requests of HTTP/1.1.",
        |conf, args| {
            let choices = [("grpc", Protocol::Grpc), ("http/protobuf", Protocol::Http)];
            once(&mut conf.exporter.protocol, args.choice(0, &choices)?, args)
        },
    ),
    row(
        "trusted_certificate",
        BLOCK,
        Arity::ONE,
        "",
        "File with the certificates of authorities that may sign the collector's, in PEM; else those that the system \
         trusts.",
        |conf, args| once(&mut conf.exporter.trusted, args.word(0).clone(), args),
    ),
    row(
        "header",
        BLOCK,
        Arity::TWO,
        "",
        "A field `NAME VALUE` of the requests to the collector, such as a token.",
        header,
    ),
    row(
        "interval",
        BLOCK,
        Arity::ONE,
        "5s",
        "Longest time between two exports, while there are spans.",
        |conf, args| {
            let interval = args.milliseconds(0)?;
            if interval.is_zero() {
                return Err(args.error(0, "the \"interval\" of an exporter is more than 0"));
            }
            once(&mut conf.exporter.interval, interval, args)
        },
    ),
    row(
        "batch_size",
        BLOCK,
        Arity::ONE,
        "512",
        "Most spans of a batch, which is sent when it is full, for each of `worker_processes` in `batch_count`.",
        |conf, args| once(&mut conf.exporter.batch_size, args.number(0, 1..=BATCH_SIZE_MAX)?, args),
    ),
    row(
        "batch_count",
        BLOCK,
        Arity::ONE,
        "4",
        "Most full batches that wait, for each of `worker_processes`. Further spans are dropped; the error log says how \
         many.",
        |conf, args| {
            once(&mut conf.exporter.batch_count, args.number(0, 1..=BATCH_COUNT_MAX)?, args)
        },
    ),
];

/// Names of fields that the call itself has.
const OWN_FIELDS: [&str; 7] = [
    "te",
    "content-type",
    "content-length",
    "connection",
    "transfer-encoding",
    "host",
    "user-agent",
];

fn header(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = args.text(0)?.to_ascii_lowercase();
    if !is_token(name.as_bytes()) {
        return Err(args.error(0, format!("invalid name of a field \"{name}\"")));
    }
    if OWN_FIELDS.contains(&&*name) || name.starts_with("grpc-") {
        return Err(args.error(0, format!("the exporter sets \"{name}\" itself")));
    }
    let value = args.bytes(1);
    if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(args.error(1, "a field's value has no line ends and control characters"));
    }
    conf.exporter.headers.push((name.into_bytes(), value.to_vec()));
    Ok(())
}
