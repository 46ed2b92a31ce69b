//! Trace contexts, messages, the queue, and mistakes of the configuration. What a collector receives is in the end-to-end
//! cases.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_codec::protobuf::{Fields, Value, bytes, fixed32, fixed64, integer, message};

use super::collector::refused_of;
use super::context::Parent;
use super::queue::{Limits, Queue};
use crate::testing::Bench;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

#[test]
fn a_traceparent_is_valid_or_none() {
    let valid = [
        (format!("00-{TRACE}-{SPAN}-01"), true),
        (format!("00-{TRACE}-{SPAN}-00"), false),
        (format!("00-{TRACE}-{SPAN}-03"), true),
        (format!("cc-{TRACE}-{SPAN}-01"), true),
        (format!("cc-{TRACE}-{SPAN}-01-of another version"), true),
    ];
    for (text, sampled) in valid {
        let parent = Parent::parse(text.as_bytes()).unwrap();
        assert_eq!(super::context::hex(&parent.trace), TRACE, "{text}");
        assert_eq!((&*super::context::hex(&parent.span), parent.sampled), (SPAN, sampled));
    }
    let invalid = [
        String::new(),
        format!("00-{TRACE}-{SPAN}"),
        format!("00-{TRACE}-{SPAN}-1"),
        format!("00-{TRACE}-{SPAN}-0g"),
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("cc-{TRACE}-{SPAN}-01more"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("0-{TRACE}-{SPAN}-001"),
        format!("00_{TRACE}-{SPAN}-01"),
        format!("00-{TRACE}_{SPAN}-01"),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{}-{SPAN}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!(" 00-{TRACE}-{SPAN}-01"),
    ];
    for text in invalid {
        assert_eq!(Parent::parse(text.as_bytes()), None, "{text}");
    }
}

/// Returns `$otel_trace_id $otel_parent_id $otel_parent_sampled` of a request.
fn variables(propagation: &str, fields: &[&str]) -> String {
    let bench = Bench::new(&format!(
        "server {{ location / {{ otel_trace on; otel_trace_context {propagation}; \
         return 200 \"$otel_trace_id $otel_parent_id $otel_parent_sampled\"; }} }}"
    ));
    let reply = bench.get_with("/", fields);
    reply.text().to_owned()
}

#[test]
fn a_context_is_taken_where_it_is_asked_for() {
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-01");
    assert_eq!(variables("extract", &[&parent]), format!("{TRACE} {SPAN} 1"));
    assert_eq!(variables("propagate", &[&parent]), format!("{TRACE} {SPAN} 1"));
    for propagation in ["inject", "ignore"] {
        let own = variables(propagation, &[&parent]);
        assert!(!own.contains(TRACE) && own.ends_with("  0"), "{own}");
    }
    // Two are as good as none.
    let own = variables("extract", &[&parent, &parent]);
    assert!(!own.contains(TRACE), "{own}");
}

#[test]
fn requests_have_contexts_of_their_own() {
    let bench = Bench::new(
        "server { location / { return 200 \"$otel_trace_id-$otel_span_id|$otel_span_id\"; } }",
    );
    let texts: Vec<String> = (0..3).map(|_| bench.text("/")).collect();
    for text in &texts {
        let (context, span) = text.split_once('|').unwrap();
        assert_eq!(context.len(), 32 + 1 + 16);
        assert!(context.ends_with(span), "one request has one span: {text}");
    }
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
}

#[test]
fn the_state_is_one_list_of_limited_length() {
    let bench = Bench::new(
        "server { location / { otel_trace on; otel_trace_context propagate; \
         try_files /none /inner; } \
         location = /inner { empty_gif; add_header X-State $http_tracestate; \
         add_header X-Parent $http_traceparent; } }",
    );
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-00");
    let reply = bench.get_with(
        "/",
        &[&parent, "tracestate: a=1 ,, b=2", "Tracestate: c=\u{e9}", "tracestate: d=4"],
    );
    assert_eq!(reply.field("X-State"), "a=1,b=2,d=4");
    let injected = reply.field("X-Parent");
    assert!(injected.starts_with(&format!("00-{TRACE}-")) && !injected.contains(SPAN));
    assert!(injected.ends_with("-01"), "it is sampled here: {injected}");
    let long = format!("tracestate: a={},b={},c=3", "x".repeat(250), "y".repeat(300));
    let reply = bench.get_with("/", &[&parent, &long]);
    assert_eq!(reply.field("X-State"), format!("a={}", "x".repeat(250)));
    // Without a parent there is no state.
    let reply = bench.get_with("/", &["tracestate: a=1"]);
    assert_eq!(reply.field("X-State"), "-");
}

#[test]
fn a_sampler_decides_by_request() {
    let bench = Bench::new(
        "map $arg_s $sampled { yes on; 1 1; default off; } \
         server { location / { otel_trace $sampled; otel_trace_context inject; try_files /none /inner; } \
         location = /inner { empty_gif; add_header X-Parent $http_traceparent; } \
         location /off { otel_trace off; otel_trace_context inject; try_files /none /inner; } }",
    );
    for (target, flag) in [("/?s=yes", "-01"), ("/?s=1", "-01"), ("/?s=on", "-00"), ("/", "-00")] {
        let parent = bench.get(target).field("X-Parent");
        assert!(parent.ends_with(flag), "{target}: {parent}");
    }
    // Where tracing is off, fields are as the client sent them.
    assert_eq!(bench.get_with("/off", &["traceparent: a"]).field("X-Parent"), "a");
}

/// A histogram of OpenMetrics shows the trace of a request that was traced, in the zones that have counted it.
#[test]
fn traces_are_examples_of_what_is_counted() {
    let bench = Bench::new(
        "otel_exporter { endpoint localhost:1; }
        server {
            status_zone s; otel_trace $arg_trace; otel_trace_context extract;
            location / { status_zone l; return 200; }
            location = /metrics { status_zone off; otel_trace off; metrics tidegate; }
        }",
    );
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-01");
    let shown = || {
        let reply = bench.get_with("/metrics", &["Accept: application/openmetrics-text"]);
        let traces = reply.text().lines().filter(|line| line.contains(TRACE)).map(str::to_owned);
        traces.collect::<Vec<_>>()
    };
    bench.get_with("/?trace=off", &[&parent]);
    assert_eq!(shown(), [""; 0]);
    bench.get_with("/?trace=on", &[&parent]);
    let shown = shown();
    let begins =
        |place: usize, start: &str| shown.get(place).is_some_and(|line| line.starts_with(start));
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(
        begins(0, "tidegate_server_request_duration_seconds_bucket{zone=\"s\",le="),
        "{shown:?}"
    );
    assert!(begins(1, "tidegate_location_request_duration_seconds_bucket{zone=\"l\",le="));
}

#[test]
fn mistakes_are_reported() {
    let exporter = |inner: &str| format!("otel_exporter {{ {inner} }}");
    let cases = [
        (exporter(""), "\"otel_exporter\" requires \"endpoint\""),
        (exporter("endpoint a;"), "invalid endpoint \"a\""),
        (exporter("endpoint a:0;"), "invalid endpoint \"a:0\""),
        (exporter("endpoint a:4317/x;"), "invalid endpoint \"a:4317/x\""),
        (
            exporter("endpoint \"a:4318/x y\"; protocol http/protobuf;"),
            "invalid endpoint \"a:4318/x y\"",
        ),
        (exporter("endpoint a:4318; protocol http/json;"), "invalid value \"http/json\""),
        (exporter("endpoint a:4318; header Content-Length 1;"), "sets \"content-length\" itself"),
        (exporter("endpoint https://:1;"), "invalid endpoint \"https://:1\""),
        (exporter("endpoint ftp://a:1;"), "invalid scheme \"ftp\" of \"endpoint\""),
        (exporter("endpoint a:1; endpoint b:1;"), "\"endpoint\" directive is duplicate"),
        (exporter("endpoint a:1; interval 0;"), "the \"interval\" of an exporter is more than 0"),
        (exporter("endpoint a:1; batch_size 0;"), "value must be between 1 and 100000"),
        (exporter("endpoint a:1; batch_count x;"), "\"batch_count\" directive invalid number"),
        (exporter("endpoint a:1; header 'a b' c;"), "invalid name of a field \"a b\""),
        (exporter("endpoint a:1; header TE c;"), "the exporter sets \"te\" itself"),
        (exporter("endpoint a:1; header a 'b\nc';"), "a field's value has no line ends"),
        (exporter("endpoint https://a:1; trusted_certificate none.pem;"), "none.pem"),
        (
            exporter("endpoint a:1;") + &exporter("endpoint b:1;"),
            "\"otel_exporter\" directive is duplicate",
        ),
        ("otel_trace yes;".to_owned(), "invalid value \"yes\""),
        ("otel_trace_context both;".to_owned(), "invalid value \"both\""),
        ("otel_trace on; otel_trace off;".to_owned(), "\"otel_trace\" directive is duplicate"),
        ("otel_span_attr a;".to_owned(), "invalid number of arguments"),
    ];
    for (config, expected) in cases {
        let errors = Bench::errors(&config).join("\n");
        assert!(errors.contains(expected), "{config}: {errors}");
    }
}

const LIMITS: Limits = Limits { spans: 2, batches: 2 };

/// Takes all batches, and returns their spans.
fn take_all(queue: &Queue, all: bool) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    while let Some(sending) = queue.take(all) {
        taken.push(sending.batch().spans.clone());
        sending.done();
    }
    taken
}

#[test]
fn full_batches_leave_at_once_and_others_with_the_interval() {
    let queue = Queue::default();
    (1..=3).for_each(|span| queue.push(&[span], LIMITS));
    assert_eq!(take_all(&queue, false), [vec![1, 2]]);
    assert_eq!(take_all(&queue, true), [vec![3]]);
    assert!(take_all(&queue, true).is_empty());
}

#[test]
fn spans_without_room_are_counted() {
    let queue = Queue::default();
    (1..=9).for_each(|span| queue.push(&[span], LIMITS));
    // Two full batches, and one that is full but waits for their place.
    assert_eq!((queue.dropped(), queue.dropped()), (3, 0));
    assert_eq!(take_all(&queue, true), [vec![1, 2], vec![3, 4], vec![5, 6]]);
    queue.push(&[10], LIMITS);
    assert_eq!((take_all(&queue, true), queue.dropped()), (vec![vec![10]], 0));
}

#[test]
fn an_interrupted_batch_waits_again() {
    let queue = Queue::default();
    (1..=4).for_each(|span| queue.push(&[span], LIMITS));
    drop(queue.take(false));
    assert_eq!(take_all(&queue, false), [vec![1, 2], vec![3, 4]]);
}

#[test]
fn the_end_waits_for_the_last_spans() {
    let queue = Queue::default();
    queue.push(&[1], LIMITS);
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| queue.finish(Duration::from_secs(60)));
        while !queue.is_ending() {
            std::thread::yield_now();
        }
        assert_eq!(take_all(&queue, false), [vec![1]]);
        ending.join().unwrap();
    });
    // Nothing is left to wait for.
    queue.finish(Duration::from_secs(60));
}

#[test]
fn refused_spans_are_found_in_a_response() {
    let mut body = Vec::new();
    assert_eq!(refused_of(&body), None);
    message(1, &mut body, |out| {
        integer(1, 3, out);
        bytes(2, b"no\nroom", out);
    });
    assert_eq!(refused_of(&body), Some((3, "noroom".to_owned())));
    let cut = body.len() - 1;
    assert_eq!(refused_of(&body[..cut]), None);
    assert_eq!(refused_of(b"\0"), None);
}

proptest! {
    #[test]
    fn fields_are_read_as_written(
        number in any::<u64>(), field in 1_u64..536_870_911, text in any::<Vec<u8>>(), fixed in any::<u64>(),
    ) {
        let mut out = Vec::new();
        integer(field, number, &mut out);
        fixed64(2, fixed, &mut out);
        bytes(3, &text, &mut out);
        fixed32(4, fixed as u32, &mut out);
        let low = (fixed as u32).to_le_bytes();
        let read: Vec<_> = Fields(&out).collect();
        let expected = [
            (field, Value::Integer(number)),
            (2, Value::Fixed(&fixed.to_le_bytes())),
            (3, Value::Bytes(&text)),
            (4, Value::Fixed(&low)),
        ];
        prop_assert_eq!(read, expected);
        // Whatever arrives ends.
        for end in 0..out.len() {
            prop_assert!(Fields(&out[..end]).count() <= 4);
        }
    }

    #[test]
    fn anything_is_a_response(body in any::<Vec<u8>>()) {
        let _ = refused_of(&body);
    }

    #[test]
    fn anything_is_a_parent_or_not(text in "[0-9a-fA-F-]{50,60}") {
        if let Some(parent) = Parent::parse(text.as_bytes()) {
            prop_assert!(parent.trace != [0; 16] && parent.span != [0; 8]);
        }
    }
}
