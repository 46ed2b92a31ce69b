//! What a request leaves to the next one on its connection: memory, and nothing that was in it.

use std::cell::Cell;
use std::io;
use std::path::Path;

use tidegate_conf::{FsLoader, Parser, Span};
use tidegate_http::request::{ParseOptions, parse_request};

use super::*;
use crate::builder::{Environment, Resources, Survivors, build};
use crate::client::NoClient;
use crate::http_core::HttpCore;
use crate::log_file::LogFile;
use crate::main_settings::MainCore;
use crate::module::Entry;
use crate::request_body::{BodySource, RequestBodyError};

struct NoFiles;

impl Resources for NoFiles {
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        Ok(Arc::new(LogFile::new(path.to_owned(), tempfile::tempfile()?)))
    }
}

struct NoBytes;

impl BodySource for NoBytes {
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

/// A plan without servers, which has `slot_count` variables of `set`.
fn plan(slot_count: usize) -> PlanRef {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, "events { }").unwrap();
    let loader = FsLoader;
    let statements = Parser::new(&loader, folder.path()).parse_file(&file);
    let environment = Environment {
        modules: &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW],
        prefix: "/",
        conf_folder: Path::new("/"),
        error_log: "error.log",
        layout: &tidegate_os::layout::PREFIX,
        resources: &NoFiles,
        survivors: &Survivors::default(),
        generation: 1,
        for_use: false,
    };
    let Ok((plan, _)) = build(&environment, &statements, Span::NONE) else { panic!("no plan") };
    PlanRef::new(Arc::new(Plan { slot_count, ..plan }))
}

/// An exchange in the middle of a request: no field has its first value.
fn used(plan: PlanRef) -> Exchange {
    let connection = Connection {
        number: 7,
        peer: Address::Unix(String::new()),
        local: Address::Unix(String::new()),
        peer_text: Default::default(),
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(1),
        accepted_unix_millis: 0,
    };
    let mut x = Exchange::new(plan, Rc::new(connection), Rc::new(NoClient));
    let told = ClientAddress::from(Address::Unix(String::new()));
    let head = b"DELETE http://a/p?q HTTP/1.0\r\nX: y\r\n\r\n";
    parse_request(head, &ParseOptions::default(), &mut x.request.head).unwrap();
    (x.server, x.location, x.real_client_address) =
        (ServerId(3), LocationId(4), Some(Rc::new(told)));
    let request = &mut x.request;
    request.method = Method::Delete;
    (request.path, request.args, request.host) = (b"/p".into(), b"q".into(), b"a".into());
    request.body = RequestBody::new(Some(7), true, Box::new(NoBytes));
    for flag in [
        &mut request.path_is_raw,
        &mut request.target_is_current,
        &mut request.keep_alive,
        &mut request.upgrade,
        &mut request.expects_continue,
        &mut x.internal,
        &mut x.path_changed,
        &mut x.path_replaced,
        &mut x.alias_takes_path,
        &mut x.error_page_active,
        &mut x.keep_alive,
        &mut x.is_subrequest,
    ] {
        *flag = true;
    }
    x.ordinal = 3;
    x.response.status = 200;
    x.response.headers.push(b"A", b"b");
    x.captures = Captures { subject: b"s".into(), ranges: vec![Some((0, 1))] };
    x.extensions.insert(7u32);
    x.outcome.bytes_sent = 7;
    x.slots[0] = Some(Rc::from(&b"v"[..]));
    x.redirects_left = 1;
    x.preserved_headers.push(b"C", b"d");
    (x.answer_instead, x.status_override, x.refused_with) = (Some(404), Some(200), Some(403));
    (x.error_status, x.limit_rate, x.action) = (400, Some(1), "sending response to client");
    x.upstream_text.push_str("origin");
    x.lineage.page_type = Some(Rc::from(&b"text/html"[..]));
    x.request_id = Some("id".into());
    x
}

/// Without `..`, so that whoever adds a field decides here what the next request sees of it.
#[test]
fn the_next_request_finds_nothing_of_the_one_before() {
    let mut x = used(plan(1));
    x.reset(plan(2));
    let Exchange {
        plan,
        server,
        location,
        connection,
        client: _,
        ordinal,
        real_client_address,
        request,
        response,
        captures,
        extensions,
        outcome,
        slots,
        internal,
        redirects_left,
        path_changed,
        path_replaced,
        preserved_headers,
        alias_takes_path,
        answer_instead,
        error_page_active,
        status_override,
        error_status,
        keep_alive,
        limit_rate,
        action,
        upstream_text,
        // Set when the next request's first byte is there.
        started: _,
        is_subrequest,
        lineage,
        refused_with,
        request_id,
    } = x;
    assert_eq!((plan.slot_count, server, location), (2, ServerId(0), LocationId(0)));
    assert_eq!((connection.number, ordinal, slots), (7, 0, vec![None, None]));
    assert!(
        real_client_address.is_none() && captures.subject.is_empty() && captures.ranges.is_empty()
    );
    assert!(extensions.0.is_empty() && preserved_headers.is_empty() && upstream_text.is_empty());
    assert_eq!(
        [internal, path_changed, path_replaced, alias_takes_path, error_page_active],
        [false; 5]
    );
    assert_eq!([keep_alive, is_subrequest], [false; 2]);
    assert_eq!((answer_instead, status_override, refused_with), (None, None, None));
    assert_eq!((redirects_left, error_status, limit_rate), (REDIRECTS_MAX, 0, None));
    assert_eq!((action, request_id), ("reading client request line", None));
    check_request(request);
    check_response(response);
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
    assert!(lineage.is_fresh());
}

fn check_request(request: Request) {
    let Request {
        head,
        method,
        path,
        args,
        host,
        path_is_raw,
        target_is_current,
        body,
        keep_alive,
        upgrade,
        expects_continue,
    } = request;
    let fresh = RequestHead::new();
    assert_eq!((head.method, head.version, head.form), (fresh.method, fresh.version, fresh.form));
    assert!(head.line().is_empty() && head.target().is_empty() && head.headers.is_empty());
    assert!(head.headers.text().is_empty() && head.ignored_lines.is_empty());
    assert_eq!((method, path, args, host), (Method::Get, vec![], vec![], vec![]));
    assert_eq!([path_is_raw, target_is_current, keep_alive, upgrade, expects_continue], [false; 5]);
    assert!(body.length.is_none() && !body.chunked && body.is_finished() && !body.is_broken());
}

fn check_response(response: Response) {
    let Response {
        status,
        reason,
        headers,
        content_length,
        last_modified,
        allow_ranges,
        single_range,
        charset,
        omit_date,
        omit_server,
        outlives_client,
        expects_trailers,
        trailers,
        conditions_judged,
        waits_for_body,
        gathers,
    } = response;
    assert_eq!(
        (status, reason, content_length, last_modified, charset),
        (0, None, None, None, None)
    );
    assert!(headers.is_empty() && headers.text().is_empty() && trailers.is_empty());
    let flags = [
        allow_ranges,
        single_range,
        omit_date,
        omit_server,
        outlives_client,
        expects_trailers,
        conditions_judged,
        waits_for_body,
        gathers,
    ];
    assert_eq!(flags, [false; 9]);
}

#[test]
fn buffers_keep_their_memory() {
    let mut x = used(plan(1));
    x.request.path.reserve(1000);
    x.upstream_text.reserve(1000);
    let text = x.request.head.headers.capacity();
    x.reset(plan(1));
    assert!(x.request.path.capacity() >= 1000 && x.upstream_text.capacity() >= 1000);
    assert_eq!(x.request.head.headers.capacity(), text);
}
