//! Subrequests: the state of their parent, their limits, and their end.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_codec::request::Method;
use tidegate_core::LocalFuture;
use tidegate_core::client::Socketless;
use tidegate_core::exchange::Exchange;
use tidegate_core::request_body::StoredBody;
use tidegate_core::subrequest::{
    COUNT_MAX, DEPTH_MAX, Subrequest, SubrequestBody, SubrequestOptions, SubrequestResponse,
    TooMany,
};

use crate::tests::probe::trace;
use crate::tests::{Bench, wait};

/// Checks the response to `POST /?q=1` of a server whose `/` includes `/part`, which has these handlers.
fn check(part: &str, expected: &str) {
    let bench = Bench::new(&format!(
        "server {{ location / {{ do rewrite set $v parent; do own include /part; }}
                   location /part {{ {part} }}
                   location /e {{ do own respond \"page $uri\"; }} }}"
    ));
    let reply =
        bench.send("POST /?q=1 HTTP/1.1\r\nHost: h\r\nX-A: field\r\nContent-Length: 4\r\n\r\nbody");
    assert_eq!(reply.text(), expected, "{part}");
}

#[test]
fn a_part_shares_fields_and_variables_and_passes_the_phases_anew() {
    for (part, expected) in [
        ("do own respond \"$uri [$args] $http_x_a $v $host\";", "[200 /part [] field parent h]"),
        // It is the request's, though the part is asked with GET.
        ("do own respond $request_method;", "[200 POST]"),
        ("do own respond \"[$request_body]\";", "[200 []]"),
        ("do own respond $request_uri;", "[200 /?q=1]"),
        ("do rewrite set $v part; do own respond $v;", "[200 part]"),
        ("do rewrite path /e; do own respond never;", "[200 page /e]"),
        ("do own jump /e;", "[200 page /e]"),
        // It skips the access phase and may use internal locations.
        ("do access status 403; do preaccess decline; do own respond in;", "[200 in]"),
        ("internal; do own respond in;", "[200 in]"),
        ("do preaccess status 429; error_page 429 /e;", "[429 page /e]"),
        ("do own close;", "[0 ]"),
        ("do own status 204;", "[204 ]"),
        ("client_max_body_size 1; do own respond in;", "[200 in]"),
        ("filter add F 1; filter instead 404; error_page 404 /e;", "[404 page /e]"),
    ] {
        check(part, expected);
    }
}

/// Modules' state of a subrequest is its own: its handlers leave no trace in the parent.
#[test]
fn state_of_modules_is_the_subrequests_own() {
    let bench = Bench::new(
        "server { location / { do rewrite decline; do own include /part; }
                  location /part { do rewrite decline; do own respond p; } }",
    );
    let reply = bench.get("/");
    assert_eq!(trace(&reply.x), "rewrite decline, own include /part");
}

/// nginx's limit of 50 below the first.
#[test]
fn nested_subrequests_have_a_limit() {
    let bench = Bench::new(
        "server { subrequest_output_buffer_size 1m; location / { do own include /x; } }",
    );
    let reply = bench.get("/");
    let depth = reply.text().matches("[200 ").count();
    assert_eq!((depth, reply.text().matches("too many").count()), (usize::from(DEPTH_MAX), 1));
    let log = bench.read("logs/error.log");
    assert_eq!(log.matches("subrequests cycle while processing \"/x\"").count(), 1, "{log}");
    assert!(log.contains(", subrequest: \"/x\""), "{log}");
}

#[test]
fn a_request_has_a_limited_number_of_subrequests() {
    let bench = Bench::new("server { location / { do own respond a; } }");
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let make =
        |x: &mut Exchange| x.subrequest(b"/p".to_vec(), vec![], SubrequestOptions::default());
    let mut first = make(&mut x).ok().unwrap();
    let mut made = 1;
    // Nested subrequests count as well.
    while make(if made % 2 == 0 { &mut x } else { first.exchange() }).is_ok() {
        made += 1;
    }
    assert_eq!((made, make(&mut x).err()), (COUNT_MAX, Some(TooMany)));
    assert!(make(first.exchange()).is_err());
    // Repetitions have no limit here: the caller limits them.
    drop(x.repetition());
}

/// Starts a subrequest and polls it once.
fn begun(x: &mut Exchange, path: &str) -> LocalFuture<'static, SubrequestResponse> {
    let part = x.subrequest(path.into(), vec![], SubrequestOptions::default());
    part.ok().unwrap().run()
}

#[test]
fn dropping_a_subrequest_ends_it() {
    struct Guard(Rc<Cell<bool>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let bench = Bench::new(
        "server { log \"ended $uri\"; location / { log_subrequest on; log \"logged $uri\"; do own wait respond a; } }",
    );
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let ended = Rc::<Cell<bool>>::default();
    let mut part = x.subrequest(b"/p".to_vec(), vec![], SubrequestOptions::default()).ok().unwrap();
    part.exchange().modules.extensions.insert(Guard(ended.clone()));
    let mut run = part.run();
    let pending = wait(poll_fn(|context| Poll::Ready(run.as_mut().poll(context).is_pending())));
    assert!(pending && !ended.get());
    drop(run);
    assert!(ended.get());
    assert_eq!(bench.read("logs/error.log"), "");
}

/// Loggers run when the body has ended or is dropped, not before.
#[test]
fn a_subrequest_is_logged_when_its_body_has_ended_or_is_dropped() {
    let bench = Bench::new(
        "server { location / { log \"logged $uri $body_bytes_sent [$request_completion]\"; do own respond abc; } }",
    );
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let lines = || -> Vec<String> {
        let log = bench.read("logs/error.log");
        log.lines()
            .map(|line| {
                line.split(": ").nth(1).unwrap().split(", client").next().unwrap().to_owned()
            })
            .collect()
    };
    let whole = wait(begun(&mut x, "/whole"));
    assert_eq!((whole.status(), lines().len()), (200, 0));
    wait(whole.discard());
    assert!(lines()[0].ends_with("logged /whole 3 [OK]"), "{:?}", lines());
    let body = wait(begun(&mut x, "/dropped")).into_body();
    assert_eq!(lines().len(), 1);
    drop(body);
    assert!(lines()[1].ends_with("logged /dropped 0 []"), "{:?}", lines());
    drop(wait(begun(&mut x, "/unread")));
    assert!(lines()[2].ends_with("logged /unread 0 []"), "{:?}", lines());
}

#[test]
fn a_response_that_is_read_into_memory_has_a_limit() {
    let bench = Bench::new(
        "server { location / { do own respond abcd; } location /e { do own status 403; } }",
    );
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    for (bytes_max, expected) in [(4, Some("abcd")), (100, Some("abcd")), (3, None), (0, None)] {
        let read = wait(wait(begun(&mut x, "/p")).read(bytes_max));
        assert_eq!(read.ok().as_deref(), expected.map(str::as_bytes), "{bytes_max}");
    }
    let log = bench.read("logs/error.log");
    assert!(log.contains("too big subrequest response: 3 bytes are allowed"), "{log}");
    let refused = wait(begun(&mut x, "/e"));
    assert_eq!((refused.status(), refused.refused_with()), (403, Some(403)));
    assert_eq!(wait(begun(&mut x, "/p")).refused_with(), None);
}

/// The parent's variables are unchanged until it copies those that a subrequest has changed.
#[test]
fn changed_variables_are_copied_to_the_parent() {
    let bench = Bench::new(
        "server { location / { do rewrite set $a 1; do rewrite set $b 1; do own respond \"$a $b $c\"; }
                  location /part { do rewrite set $b 2; do rewrite set $c 2; do own respond x; } }",
    );
    let mut reply = bench.get("/");
    let x = &mut reply.x;
    let part = wait(begun(x, "/part"));
    let value = |x: &mut Exchange, name: &str| {
        let mut out = Vec::new();
        let found = x.variable_named(name.as_bytes(), &mut out);
        (found, String::from_utf8(out).unwrap())
    };
    let owned = |found, text: &str| (found, text.to_owned());
    assert_eq!([value(x, "b"), value(x, "c")], [owned(true, "1"), owned(false, "")]);
    x.take_variables(&part);
    assert_eq!(
        [value(x, "a"), value(x, "b"), value(x, "c")],
        [owned(true, "1"), owned(true, "2"), owned(true, "2")]
    );
}

#[test]
fn options_choose_method_and_body() {
    let bench = Bench::new(
        "server { location / { do own respond \"$request_method [$request_body] $content_length\"; } }",
    );
    let mut x = bench.received("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    let stored = |text: &'static str| {
        let memory = vec![Bytes::from(text)];
        Arc::new(StoredBody { memory, length: text.len() as u64, ..StoredBody::default() })
    };
    for (method, body, expected) in [
        (Method::Get, SubrequestBody::None, "Get PUT [] 4"),
        (Method::Head, SubrequestBody::Shared, "Head PUT [body] 4"),
        (Method::Post, SubrequestBody::Stored(stored("other")), "Post PUT [other] 4"),
    ] {
        let part =
            x.subrequest(b"/".to_vec(), vec![], SubrequestOptions { method, body }).ok().unwrap();
        let mut reply = wait(part.run());
        let asked = format!("{:?} ", reply.exchange().request.method);
        let body = wait(reply.read(100)).unwrap();
        assert_eq!(asked + &String::from_utf8_lossy(&body), expected);
    }
}

/// State that all exchanges of a request share: its id, its type, inherited objects.
#[test]
fn exchanges_of_a_request_share_state() {
    let bench = Bench::new("server { location / { do own respond $request_id; } }");
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    x.response.headers.push(b"Content-Type", b"text/css");
    let left = Rc::new(RefCell::new(vec![1]));
    x.lineage.inherited.insert(left.clone());
    x.lineage.inherited.insert(Rc::new("text"));
    let mut part = x.subrequest(b"/".to_vec(), vec![], SubrequestOptions::default()).ok().unwrap();
    part.exchange().response.headers.push(b"Content-Type", b"text/html");
    let mut inner = part
        .exchange()
        .subrequest(b"/".to_vec(), vec![], SubrequestOptions::default())
        .ok()
        .unwrap();
    inner.exchange().lineage.inherited.of::<RefCell<Vec<i32>>>().unwrap().borrow_mut().push(2);
    assert_eq!(*left.borrow(), [1, 2]);
    assert_eq!(inner.exchange().lineage.inherited.of::<&str>().as_deref(), Some(&"text"));
    assert!(inner.exchange().lineage.inherited.of::<u8>().is_none());
    assert_eq!(inner.exchange().lineage.page_type.as_deref(), Some(&b"text/css"[..]));
    let number = |part: Subrequest| wait(wait(part.run()).read(100)).unwrap();
    let mut own = Vec::new();
    assert!(x.variable_named(b"request_id", &mut own));
    let (outer, inner) = (number(part), number(inner));
    assert_eq!((outer.len(), &outer), (32, &inner));
    assert_eq!(own, outer);
}

/// A client that counts the interim responses that it receives.
#[derive(Default)]
struct Counting {
    gone: Cell<bool>,
    interim: Cell<u32>,
}

impl Socketless for Counting {
    fn poll_closed(&self, _context: &mut Context<'_>) -> Poll<()> {
        if self.gone.get() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn note_interim(&self) {
        self.interim.set(self.interim.get() + 1);
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        Some([1, 2, 3, 4])
    }
}

#[test]
fn a_subrequests_client_can_close_and_gets_no_interim_responses() {
    let bench = Bench::new("server { location / { do own respond a; } }");
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let client = Rc::new(Counting::default());
    x.client = client.clone();
    let mut part = x.subrequest(b"/".to_vec(), vec![], SubrequestOptions::default()).ok().unwrap();
    let of_part = part.exchange().client.clone();
    let gone = || wait(poll_fn(|context| Poll::Ready(of_part.poll_closed(context).is_ready())));
    assert!(!gone());
    client.gone.set(true);
    assert!(gone());
    wait(of_part.send_interim(103, &Headers::new())).unwrap();
    assert_eq!((client.interim.get(), of_part.tcp_info()), (0, Some([1, 2, 3, 4])));
}

/// A repetition of the request runs the content handler alone.
#[test]
fn a_repetition_runs_the_content_handler_alone() {
    let bench = Bench::new(
        "server { error_page 404 /e; location /e { do own respond page; }
                  location / { filter add F 1; do access status 403; do preaccess decline; do own respond \"$uri $request_method\"; }
                  location /404 { filter add F 1; do own status 404; }
                  location /close { do own close; } location /jump { do own jump /e; } }",
    );
    for (target, expected) in
        [("/a?b", "200 /a GET"), ("/404", "404 "), ("/close", "0 "), ("/jump", "0 ")]
    {
        let mut x = bench.received(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        // It runs in the request's location.
        let found = tidegate_core::location::find_config(&mut x, &bench.plan);
        assert!(matches!(found, tidegate_core::Step::Decline));
        let mut reply = wait(x.repetition().run());
        assert!(!reply.exchange().response.headers.iter().any(|(_, name, _)| name == b"F"));
        let status = reply.status();
        let text = wait(reply.read(100)).unwrap();
        assert_eq!(format!("{status} {}", String::from_utf8_lossy(&text)), expected, "{target}");
    }
}
