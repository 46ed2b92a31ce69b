//! Tests without components that respond; `tests/handlers` runs those.

use std::sync::Arc;
use std::task::{Wake, Waker};

use bytes::Bytes;
use http_body_util::BodyExt;
use tidegate_handler::Request;
use tidegate_handler::server::Parts;
use wasmtime::{ResourceLimiter, Store};
use wasmtime_wasi::p2::OutputStream;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;

use crate::application::set_limits;
use crate::host::State;
use crate::limits::Limits;
use crate::output::Output;
use crate::program::engine;
use crate::request::convert;
use crate::watch::Watch;
use crate::{Programs, Settings};

fn problem(text: &str) -> String {
    let bytes = wat::parse_str(text).unwrap();
    Programs::default().program(&bytes, false, 1).map(drop).unwrap_err().to_string()
}

#[test]
fn files_that_are_no_handlers_are_refused_with_the_reason() {
    let check = |found: String, part: &str| assert!(found.contains(part), "{found}");
    check(problem("(component)"), "wasi:http/incoming-handler");
    check(problem("(module)"), "component");
    let wants =
        "(component (import \"shop:stock/items@1.0.0\" (instance (export \"count\" (func)))))";
    check(problem(wants), "shop:stock/items");
    for bytes in [&b""[..], b"\0asm", b"<html>", &[0; 100]] {
        let refused = Programs::default().program(bytes, true, 1).map(drop).unwrap_err();
        assert!(!refused.to_string().is_empty());
    }
}

#[test]
fn memories_and_tables_share_one_limit() {
    let mut limits = Limits::new(1000);
    let grow = |limits: &mut Limits, from, to| limits.memory_growing(from, to, None).unwrap();
    assert!(grow(&mut limits, 0, 600) && grow(&mut limits, 600, 700));
    assert!(limits.table_growing(0, 30, None).unwrap() && !limits.exceeded);
    assert!(!grow(&mut limits, 0, 61) && limits.exceeded);
    assert!(grow(&mut limits, 0, 60), "what is left can be had");
    assert!(!grow(&mut limits, 0, 1));
    assert!(!Limits::new(1000).table_growing(1, usize::MAX, None).unwrap());
}

#[test]
fn the_last_output_is_kept_as_a_line() {
    let output = Output::default();
    let mut stream = output.clone();
    stream.write(Bytes::from(vec![b'a'; 10_000])).unwrap();
    stream.write(Bytes::from_static(b"\nfirst\r\n\nsecond \n")).unwrap();
    let line = output.take_line();
    assert!(line.len() < 5000 && line.ends_with("aa | first | second"), "{line}");
    assert_eq!(output.take_line(), "");
}

struct Count(std::sync::atomic::AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_waiting_instance_is_woken_when_its_request_is_abandoned() {
    let count = Arc::new(Count(0.into()));
    let watch = Watch::default();
    assert!(!watch.poll_over(&Waker::from(count.clone())));
    watch.end();
    watch.end();
    assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(watch.is_over() && watch.poll_over(Waker::noop()));
}

#[test]
fn a_request_abandoned_before_its_start_does_not_run() {
    let engine = engine(false).unwrap();
    for abandoned in [false, true] {
        let watch = Arc::new(Watch::default());
        let settings = Settings::default();
        let mut store = Store::new(&engine, State::new(&settings, watch.clone()).unwrap());
        if abandoned {
            watch.end();
            engine.increment_epoch();
        }
        assert_eq!(set_limits(&mut store, &settings).is_err(), abandoned);
    }
}

fn request(target: &str, path: &str, variables: &[(&str, &str)]) -> Request {
    let (_, query) = target.split_once('?').unwrap_or((target, ""));
    let variables = variables.iter().map(|(name, value)| ((*name).into(), Some((*value).into())));
    Request::from(Parts {
        method: b"PUT".to_vec(),
        target: target.into(),
        path: path.into(),
        query: query.into(),
        variables: variables.collect(),
        body_memory: vec![Bytes::from_static(b"12"), Bytes::from_static(b"3")],
        ..Parts::default()
    })
}

#[test]
fn targets_are_as_received_unless_rewritten() {
    let table = [
        ("/a%2Fb?c=%20&d", "/a/b", "/a%2Fb?c=%20&d"),
        ("/old?x=1", "/new name", "/new%20name?x=1"),
        ("/a//b", "/a/b", "/a/b"),
        ("/\"<\u{e9}>?{|}", "/\"<\u{e9}>", "/%22%3C%C3%A9%3E?%7B%7C%7D"),
        ("http://other/x", "/x", "/x"),
    ];
    for (target, path, expected) in table {
        let (_, converted) = convert(request(target, path, &[])).unwrap();
        let found = converted.uri().path_and_query().unwrap().as_str();
        assert_eq!(found, expected, "{target}");
    }
}

#[test]
fn scheme_authority_fields_and_body_are_passed_on() {
    let secure = request("/", "/", &[("scheme", "https"), ("host", "shop.example")]);
    let secure = secure.with_header("X-A", "1").with_header("X-A", "2").with_header("bad name", "");
    let (scheme, converted) = convert(secure).unwrap();
    assert!(matches!(scheme, Scheme::Https));
    assert_eq!(converted.uri().to_string(), "https://shop.example/");
    assert_eq!(converted.method(), "PUT");
    let fields: Vec<_> = converted.headers().iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(fields, ["1", "2"]);
    let body = tidegate_rt::blocking::wait(converted.into_body().collect()).unwrap();
    assert_eq!(body.unwrap().to_bytes(), "123");
    let (scheme, converted) = convert(request("/", "/", &[("host", "")])).unwrap();
    assert!(matches!(scheme, Scheme::Http));
    assert_eq!(converted.uri().authority().unwrap(), "localhost");
}
