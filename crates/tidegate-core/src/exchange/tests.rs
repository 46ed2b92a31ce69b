//! Recycled exchanges: the next request on a connection gets the memory, and no contents.

use std::cell::Cell;

use bytes::Bytes;
use tidegate_codec::request::{Method, ParseOptions, RequestHead, parse_request};

use super::progress::FIRST_ACTION;
use super::*;
use crate::client::{ClientAddress, NoClient};
use crate::figures::{Figures, Kind};
use crate::main_settings::MainSettings;
use crate::plan::{LocationId, ServerId};
use crate::request_body::{BodySource, RequestBody, RequestBodyError};
use crate::variables::VariableTable;

struct NoBytes;

impl BodySource for NoBytes {
    fn set_timeout(&mut self, _: std::time::Duration) {}

    fn poll_bytes(
        &mut self,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<Option<Bytes>, RequestBodyError>> {
        std::task::Poll::Pending
    }

    fn take_received(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        Ok(None)
    }

    fn trailers(&mut self) -> Option<Headers> {
        None
    }
}

/// Makes a plan without servers, with `slot_count` variables of `set`.
fn plan(slot_count: usize) -> PlanRef {
    PlanRef::new(Arc::new(Plan {
        main: main_settings(),
        listeners: vec![],
        servers: vec![],
        locations: vec![],
        variables: VariableTable::new([].into_iter()),
        slot_count,
        generation: 1,
        figures: Default::default(),
        openings: Vec::new(),
        timelines: false,
        entering: Vec::new(),
        extensions: Default::default(),
        services: vec![],
        sessions: None,
    }))
}

fn main_settings() -> MainSettings {
    MainSettings {
        plain: Default::default(),
        prefix: "/".to_owned(),
        machine: Default::default(),
        working_directory: None,
        user: None,
        user_spans: None,
        pid: Default::default(),
        env: vec![],
        thread_pools: vec![],
        error_log: Default::default(),
    }
}

/// Makes an exchange in the middle of a request: no field has its default.
fn used(plan: PlanRef) -> Exchange {
    let connection = Connection {
        number: 7,
        debug: false,
        peer: Address::Unix(String::new()),
        local: Address::Unix(String::new()),
        peer_text: Default::default(),
        proxy_protocol: None,
        tls: None,
        protocol: Cell::new(""),
        requests: Cell::new(1),
        accepted_unix_millis: 0,
    };
    let mut x = Exchange::new(plan, Rc::new(connection), Rc::new(NoClient));
    x.rewrite_in_place(b"/p".into(), None);
    x.ordinal = 3;
    (x.routing.server, x.routing.location) = (ServerId(3), LocationId(4));
    x.routing.kind = ExchangeKind::Subrequest;
    x.routing.make_internal();
    assert!(x.routing.count_redirect());
    use_request(&mut x.request);
    x.response.headers.push(b"A", b"b");
    x.response.trailers.push(b"T", b"t");
    (x.response.reason, x.response.charset) = (Some("r".into()), Some("c".into()));
    (x.response.content_length, x.response.last_modified) = (Some(1), Some(2));
    (x.response.ranges, x.response.conditions) = (RangeSupport::One, Conditions::Origin);
    (x.delivery.head, x.delivery.pieces) = (HeadSending::WithBody, PieceSending::Gathered);
    (x.delivery.date, x.delivery.server) = (FieldOwner::Origin, FieldOwner::Origin);
    (x.delivery.client_abort, x.delivery.expects_trailers) = (ClientAbort::Ignored, true);
    x.disposition.refuse(403);
    x.disposition.use_error_page(404, Some(200), false);
    x.disposition.end_without_response(499);
    x.disposition.keep_connection();
    x.modules.captures = Captures { subject: b"s".into(), ranges: vec![Some((0, 1))] };
    x.modules.extensions.insert(7u32);
    x.modules.slots[0] = Some(Rc::from(&b"v"[..]));
    x.progress.action = "sending response to client";
    x.progress.upstream.push_str("origin");
    (x.outcome.bytes_sent, x.outcome.body_bytes_sent, x.outcome.request_length) = (7, 6, 5);
    (x.outcome.complete, x.outcome.pipelined, x.outcome.chunked) = (true, true, true);
    x.outcome.logging = Some(tidegate_rt::sync::oneshot::channel().1);
    x.preserved_headers.push(b"C", b"d");
    x.limit_rate = Some(1);
    x.processing = Figures::default().zone(Kind::Server, "z").begin();
    x.timeline = Some(Timeline::begun(tidegate_rt::clock::exact_now(), None));
    x.lineage.page_type = Some(Rc::from(&b"text/html"[..]));
    x
}

fn use_request(request: &mut Request) {
    let head = b"DELETE http://a/p?q HTTP/1.0\r\nX: y\r\n\r\n";
    parse_request(head, &ParseOptions::default(), &mut request.head).unwrap();
    request.method = Method::Delete;
    (request.path, request.args, request.host) = (b"/p".into(), b"q".into(), b"a".into());
    request.source = PathSource::Target;
    request.body = RequestBody::new(Some(7), true, Box::new(NoBytes));
    request.expects_continue = true;
    let real = ClientAddress::from(Address::Unix(String::new()));
    request.real_client_address = Some(Rc::new(real));
    request.id = Some("id".into());
}

/// Patterns have no `..`: a new field does not compile until its value for the next request is decided here.
#[test]
fn the_next_request_sees_nothing_of_the_previous_one() {
    let mut x = used(plan(1));
    x.reset(plan(2));
    let Exchange {
        plan,
        connection,
        client: _,
        ordinal,
        routing,
        request,
        response,
        delivery,
        disposition,
        modules,
        progress,
        outcome,
        preserved_headers,
        limit_rate,
        lineage,
        processing,
        timeline,
    } = x;
    assert!(processing.is_none() && timeline.is_some_and(|timeline| !timeline.is_on()));
    assert_eq!((plan.slot_count, connection.number, limit_rate), (2, 7, None));
    assert_eq!(ordinal, 0);
    assert!(preserved_headers.is_empty() && preserved_headers.text().is_empty());
    assert!(lineage.is_fresh());
    check_routing(routing);
    check_request(request);
    check_response(response);
    check_delivery(delivery);
    check_disposition(disposition);
    check_modules(modules);
    // The time is set when the next request's first byte arrives.
    let Progress { action, upstream, started: _, tags, evaluating } = progress;
    assert_eq!(evaluating, Evaluating::default());
    assert!(tags.is_none());
    assert_eq!((action, upstream.as_str()), (FIRST_ACTION, ""));
    check_outcome(outcome);
}

fn check_routing(routing: Routing) {
    assert_eq!((routing.server, routing.location), (ServerId(0), LocationId(0)));
    assert_eq!((routing.kind, routing.path), (ExchangeKind::Main, PathState::Matched));
    assert!(!routing.is_internal());
    assert_eq!(routing.redirects_left(), REDIRECTS_MAX);
}

fn check_request(request: Request) {
    let Request {
        head,
        method,
        path,
        args,
        source,
        host,
        body,
        expects_continue,
        real_client_address,
        came_by_tls,
        id,
    } = request;
    let fresh = RequestHead::new();
    assert_eq!((head.method, head.version, head.form), (fresh.method, fresh.version, fresh.form));
    assert!(head.line().is_empty() && head.target().is_empty() && head.headers.is_empty());
    assert!(head.headers.text().is_empty() && head.ignored_lines.is_empty());
    assert_eq!((method, path, args, host), (Method::Get, vec![], vec![], vec![]));
    assert_eq!((source, expects_continue, id), (PathSource::Server, false, None));
    assert!(real_client_address.is_none() && !came_by_tls);
    assert!(body.length.is_none() && !body.chunked && body.is_finished() && !body.is_broken());
}

fn check_response(response: Response) {
    let Response {
        reason,
        headers,
        content_length,
        last_modified,
        ranges,
        charset,
        conditions,
        trailers,
    } = response;
    assert_eq!(
        (reason, content_length, last_modified, charset),
        (None::<Bytes>, None, None, None::<Bytes>)
    );
    assert!(headers.is_empty() && headers.text().is_empty() && trailers.is_empty());
    assert_eq!((ranges, conditions), (RangeSupport::None, Conditions::Server));
}

fn check_delivery(delivery: DeliveryHints) {
    let DeliveryHints { head, pieces, client_abort, date, server, expects_trailers, filtering } =
        delivery;
    assert_eq!((head, pieces), (HeadSending::AtOnce, PieceSending::AtOnce));
    assert_eq!((date, server), (FieldOwner::Server, FieldOwner::Server));
    assert_eq!((client_abort, expects_trailers), (ClientAbort::Ends, false));
    assert_eq!(filtering, Filtering::Filtered);
}

fn check_disposition(mut disposition: Disposition) {
    assert_eq!((disposition.status(), disposition.logged_status()), (0, 0));
    assert_eq!((disposition.without_response(), disposition.refused_with()), (None, None));
    assert!(disposition.takes_error_page() && !disposition.keeps_connection());
    assert_eq!((disposition.take_forced(), disposition.take_replacement()), (None, None));
}

fn check_modules(modules: ModuleState) {
    let ModuleState { extensions, captures: Captures { subject, ranges }, slots } = modules;
    assert!(extensions.0.is_empty() && subject.is_empty() && ranges.is_empty());
    assert_eq!(slots, [None, None]);
}

fn check_outcome(outcome: Outcome) {
    let Outcome {
        bytes_sent,
        body_bytes_sent,
        request_length,
        complete,
        pipelined,
        chunked,
        logging,
    } = outcome;
    assert!(logging.is_none());
    assert_eq!([bytes_sent, body_bytes_sent, request_length], [0; 3]);
    assert_eq!([complete, pipelined, chunked], [false; 3]);
}

#[test]
fn buffers_keep_their_memory() {
    let mut x = used(plan(1));
    x.request.path.reserve(1000);
    x.progress.upstream.reserve(1000);
    let text = x.request.head.headers.capacity();
    x.reset(plan(1));
    assert!(x.request.path.capacity() >= 1000 && x.progress.upstream.capacity() >= 1000);
    assert_eq!(x.request.head.headers.capacity(), text);
}

/// A status step by step: in the head, in the log, and whether an error page is being sent.
#[test]
fn a_status_has_one_place() {
    let mut disposition = Disposition::default();
    disposition.refuse(403);
    disposition.use_error_page(403, Some(404), false);
    disposition.set_status(200);
    assert_eq!((disposition.status(), disposition.logged_status()), (200, 404));
    assert!(disposition.is_error_page());
    // Each override is taken once, and only by its own function.
    assert_eq!(disposition.take_replacement(), None);
    assert_eq!((disposition.take_forced(), disposition.take_forced()), (Some(404), None));
    disposition.replace_response(416);
    assert_eq!((disposition.take_forced(), disposition.take_replacement()), (None, Some(416)));
    disposition.refuse(500);
    assert_eq!(disposition.refused_with(), Some(403));
    disposition.end_without_response(499);
    disposition.settle();
    assert_eq!((disposition.status(), disposition.logged_status()), (499, 499));
}

/// A changed path that stays in its location is a replaced one; a counted redirect resets the state.
#[test]
fn a_path_is_in_one_state() {
    let mut routing = Routing::default();
    for (path, kept, counted) in [
        (PathState::Matched, PathState::Matched, PathState::Matched),
        (PathState::Changed, PathState::Replaced, PathState::Matched),
        (PathState::Replaced, PathState::Replaced, PathState::Replaced),
        (PathState::Appended, PathState::Appended, PathState::Appended),
    ] {
        routing.path = path;
        routing.stay_in_location();
        assert_eq!(routing.path, kept);
        routing.path = path;
        assert!(routing.count_redirect());
        assert_eq!(routing.path, counted);
    }
    let counted = (0..REDIRECTS_MAX).filter(|_| routing.count_redirect()).count();
    assert_eq!((counted, routing.redirects_left()), (6, 0));
}
