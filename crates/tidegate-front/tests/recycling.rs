//! No request sees anything of the one before it: any request, behind any others in recycled memory, has the log line
//! and the response that it has as the first one of a fresh server.

#[path = "support/plan.rs"]
mod plan;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::client::{Address, ClientAddress};
use tidegate_core::exchange::{
    ClientAbort, Conditions, FieldOwner, HeadSending, PieceSending, RangeSupport,
};
use tidegate_core::{Body, Exchange, Jump, Step};
use tidegate_front::Shared;
use tidegate_plan::Module;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::main_core::MainCore;
use tidegate_plan::module::{Arity, Contexts, Diagnostic, Directive, Entry, ErasedModule, Kind};
use tidegate_plan::{LocationBuilder, ReloadState};
use tidegate_rt::Worker;
use tidegate_rt::net::Listener;

/// `probe;` responds by the path, see [`respond`]. Every location logs what is known of its requests.
struct Probe;

#[derive(Default)]
struct Conf {
    probe: Option<()>,
}

impl Module for Probe {
    type Conf = Conf;
    const NAME: &'static str = "probe";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[Directive {
        name: "probe",
        contexts: Contexts::LOCATION,
        args: Arity::NONE,
        kind: Kind::Simple,
        default: "",
        doc: "test",
        has_effect: true,
        set: |conf: &mut Conf, _| {
            conf.probe = Some(());
            Ok(())
        },
    }]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.probe.is_some() {
            location.content(Box::new(respond));
        }
        location.logger(Box::new(record));
        Ok(())
    }
}

fn respond(x: &mut Exchange) -> Step<'_> {
    let path = x.request.path.clone();
    match &path[..] {
        b"/echo" => Step::Wait(Box::pin(async move {
            let options = x.settings().body_store.clone();
            match x.request.body.store(&options).await {
                Ok(stored) => Step::Respond(Body::Chunks(stored.chunks().collect())),
                Err(error) => Step::Status(error.status()),
            }
        })),
        b"/full" => {
            fill(x);
            Step::Respond(Body::from(Bytes::from_static(b"full")))
        }
        b"/404" => Step::Status(404),
        b"/403" => Step::Status(403),
        b"/jump" => {
            Step::Jump(Jump::Path { path: b"/internal".to_vec(), args: b"from=jump".to_vec() })
        }
        b"/close" => Step::Close,
        b"/left" => {
            x.disposition.end_without_response(499);
            Step::Close
        }
        _ => Step::Respond(Body::from(Bytes::from_static(b"plain"))),
    }
}

/// Leaves something in every field that a module can reach.
fn fill(x: &mut Exchange) {
    let peer = Address::Inet(SocketAddr::from(([192, 0, 2, 9], 9)));
    x.request.real_client_address = Some(Rc::new(ClientAddress::from(peer)));
    x.request.id = Some("id".into());
    x.routing.make_internal();
    x.routing.append_path_to_alias();
    x.response.headers.push(b"X-Full", b"yes");
    (x.response.reason, x.response.charset) = (Some("Full".into()), Some("koi8-r".into()));
    x.response.last_modified = Some(1);
    (x.response.ranges, x.response.conditions) = (RangeSupport::One, Conditions::Origin);
    (x.delivery.head, x.delivery.pieces) = (HeadSending::WithBody, PieceSending::Gathered);
    (x.delivery.date, x.delivery.server) = (FieldOwner::Origin, FieldOwner::Origin);
    (x.delivery.client_abort, x.delivery.expects_trailers) = (ClientAbort::Ignored, true);
    x.disposition.set_status(201);
    x.disposition.send_as(202);
    x.modules.extensions.insert(7u32);
    x.modules.captures.subject = b"subject".to_vec();
    x.modules.captures.ranges = vec![Some((0, 7)), Some((0, 3))];
    x.progress.action = "filling";
    x.progress.upstream.push_str("origin");
    x.preserved_headers.push(b"X-Preserved", b"yes");
    x.limit_rate = Some(1_000_000);
    x.lineage.page_type = Some(Rc::from(&b"text/full"[..]));
}

/// The variables of the request: not those of the time, the connection and the port.
const VARIABLES: &[&str] = &[
    "request",
    "request_method",
    "request_uri",
    "uri",
    "document_uri",
    "args",
    "query_string",
    "is_args",
    "host",
    "request_port",
    "is_request_port",
    "http_host",
    "http_user_agent",
    "http_referer",
    "http_cookie",
    "http_x",
    "cookie_c",
    "arg_q",
    "content_length",
    "content_type",
    "remote_addr",
    "remote_user",
    "document_root",
    "request_filename",
    "request_body",
    "request_body_file",
    "request_length",
    "scheme",
    "https",
    "server_name",
    "server_protocol",
    "status",
    "bytes_sent",
    "body_bytes_sent",
    "request_completion",
    "sent_http_content_type",
    "sent_http_content_length",
    "sent_http_last_modified",
    "sent_http_connection",
    "sent_http_location",
    "sent_http_transfer_encoding",
    "sent_http_x_full",
    "sent_http_x_preserved",
    "sent_trailer_x",
    "limit_rate",
    "named",
];

thread_local! {
    /// Where the worker's thread logs to: the line, and whether the connection stays.
    static LOG: RefCell<Option<Sender<(String, bool)>>> = const { RefCell::new(None) };
}

fn record(x: &mut Exchange) {
    let mut line = String::new();
    for name in VARIABLES {
        let mut value = Vec::new();
        match x.variable_named(name.as_bytes(), &mut value) {
            true => line += &format!("{name}={} ", value.escape_ascii()),
            false => line += &format!("{name} "),
        }
    }
    let group = x.modules.captures.group(1).map(|group| group.escape_ascii().to_string());
    line += &format!("$1={group:?} internal={} ", x.routing.is_internal());
    line += &format!("client={} upstream={:?} ", x.client_text(), x.progress.upstream);
    line += &format!("extension={:?}", x.modules.extensions.of::<u32>());
    let stays = x.disposition.keeps_connection() && x.disposition.without_response().is_none();
    let stays = stays && x.outcome.complete;
    LOG.with_borrow(|log| log.as_ref().map(|log| log.send((line, stays))));
}

static MODULES: &[&dyn ErasedModule] =
    &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW, &Entry::<Probe>::NEW];

const LOCATIONS: &str = r"
    port_in_redirect off; client_header_buffer_size 512; large_client_header_buffers 2 512;
    client_max_body_size 100;
    error_page 400 /page?bad; error_page 404 @named; error_page 405 =200 /echo; error_page 403 =202 /other;
    location / { probe; }
    location /internal { internal; probe; }
    location /one { probe; }
    location ~ ^/re/(?<named>.*)$ { probe; }
    location @named { probe; }
";

/// A server with a thread of its own.
struct Server {
    _worker: Worker,
    address: SocketAddr,
    log: Receiver<(String, bool)>,
}

impl Server {
    fn start() -> Server {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = probe.local_addr().expect("its address");
        let text = format!(
            "error_log stderr emerg; events {{}} http {{
                 server {{ listen {address}; server_name a; {LOCATIONS} }}
                 server {{ listen {address}; server_name ~^(?<named>b)\\.example$; {LOCATIONS} }} }}"
        );
        let plan = plan::whole(plan::compile(text, MODULES, "/tmp/", &ReloadState::default()));
        let (sender, log) = channel();
        let worker = Worker::run("test", None, move |_| async move {
            LOG.set(Some(sender));
            let front = tidegate_front::open(plan, Arc::new(Shared::default()));
            probe.set_nonblocking(true).expect("non-blocking");
            let listener = Rc::new(Listener::from_fd(probe.into()).expect("a watched listener"));
            tidegate_front::accept_connections(front, listener, Address::Inet(address)).await;
        });
        Server { _worker: worker.expect("a worker"), address, log }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("a connection");
        client.set_read_timeout(Some(LIMIT)).expect("a limit");
        client
    }

    fn logged(&self) -> (String, bool) {
        self.log.recv_timeout(LIMIT).expect("a request that has begun is logged")
    }

    /// Sends a request and waits for its log line; returns it and whether another request may follow.
    fn ask(&self, client: &mut TcpStream, request: &Request) -> (String, bool) {
        client.write_all(&request.bytes).expect("written");
        if !request.whole {
            client.shutdown(Shutdown::Write).expect("half closed");
        }
        self.logged()
    }
}

/// Any wait of this test fails after this time.
const LIMIT: Duration = Duration::from_secs(20);

/// Reads the rest of a connection, without the time and the server's name.
fn rest(mut client: TcpStream) -> Vec<u8> {
    // The server may have closed it.
    let _ = client.shutdown(Shutdown::Write);
    let mut bytes = Vec::new();
    // A reset behind the response belongs to the next request: bytes behind a closing response are not read.
    let _ = client.read_to_end(&mut bytes);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"Date: ")).collect::<Vec<_>>().concat()
}

/// Returns the line and the response of a request that is the first one of a fresh server.
fn fresh(request: &Request) -> (String, Vec<u8>) {
    let server = Server::start();
    let mut client = server.connect();
    let (line, _) = server.ask(&mut client, request);
    (line, rest(client))
}

/// How a request follows the one before it, where that lets its connection stay; else it is sent on a new one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Follow {
    OtherConnection,
    SameConnection,
    /// In one write with the one before it.
    Pipelined,
}

#[derive(Clone, Debug)]
struct Request {
    bytes: Vec<u8>,
    /// The request is complete; else the client closes in the middle.
    whole: bool,
}

const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS", "CONNECT", "BREW", "get"];
const TARGETS: &[&str] = &[
    "/",
    "/a?q=1",
    "/%41%2fb?q=%20",
    "//x/../y",
    "/re/some?q",
    "http://b.example/abs?q=2",
    "http://bad host/",
    "*",
    "/full",
    "/full",
    "/echo",
    "/404",
    "/403",
    "/jump",
    "/close",
    "/left",
    "/internal",
    "/one",
    "/%zz",
    "none",
];
const VERSIONS: &[&str] =
    &[" HTTP/1.1", " HTTP/1.1", " HTTP/1.0", "", " HTTP/9.1", " HTTP/1.5", " HTTX/1"];
const FIELDS: &[&str] = &[
    "Host: a",
    "Host: a",
    "Host: a",
    "Host: b.example:8080",
    "Host: B.EXAMPLE",
    "Host: a/b",
    "no colon",
    "X: \u{1}",
    "X: y",
    "Cookie: c=1",
    "User-Agent: u",
    "Referer: r",
    "Authorization: Basic dTpw",
    "Content-Type: text/x",
    "Connection: close",
    "Connection: keep-alive",
    "Content-Length: -1",
    "Upgrade: x",
    "Expect: 100-continue",
    "If-None-Match: *",
    "Range: bytes=0-1",
];

fn long_field() -> String {
    format!("X-Long: {}", "l".repeat(600))
}

/// Heads and bodies, valid ones and others.
fn http() -> impl Strategy<Value = Request> {
    let head = (select(METHODS), select(TARGETS), select(VERSIONS));
    let fields = vec(
        prop_oneof![19 => select(FIELDS).prop_map(str::to_owned), 1 => Just(long_field())],
        0..5,
    );
    // Three of four have exactly the one host that they need.
    (head, fields, 0..4u8, 0..6u8, "[a-z]{0,120}").prop_map(|(head, fields, host, frame, body)| {
        let (method, target, version) = head;
        let mut text = format!("{method} {target}{version}\r\n");
        if version.is_empty() {
            return Request { bytes: text.into_bytes(), whole: true };
        }
        let fields = fields.into_iter().filter(|field| host == 0 || !field.starts_with("Host"));
        let host = (host > 0).then(|| "Host: a".to_owned());
        host.into_iter().chain(fields).for_each(|field| text += &format!("{field}\r\n"));
        let whole = frame != 5;
        match frame {
            0 => text += &format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            1 => {
                let chunk = if body.is_empty() {
                    String::new()
                } else {
                    format!("{:x}\r\n{body}\r\n", body.len())
                };
                text += &format!("Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
            }
            5 => {}
            _ => text += "\r\n",
        }
        Request { bytes: text.into_bytes(), whole }
    })
}

fn request() -> impl Strategy<Value = Request> {
    // A ClientHello's beginning, and a line without an end that is too long.
    let hello = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03".to_vec();
    let long = format!("GET /{} HTTP/1.1\r\n", "l".repeat(600)).into_bytes();
    prop_oneof![
        18 => http(),
        1 => Just(Request { bytes: hello, whole: true }),
        1 => Just(Request { bytes: long, whole: true }),
    ]
}

fn follow() -> impl Strategy<Value = Follow> {
    select(&[Follow::OtherConnection, Follow::SameConnection, Follow::Pipelined][..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_request_sees_nothing_of_those_before_it(
        before in vec((request(), follow()), 1..4),
        last in request(),
    ) {
        let (line, response) = fresh(&last);
        let server = Server::start();
        let mut client = server.connect();
        let mut requests: Vec<_> = before;
        requests.push((last, Follow::OtherConnection));
        let mut seen = Vec::new();
        let mut at = 0;
        let mut alone = true;
        while let Some((request, how)) = requests.get(at) {
            at += 1;
            let next = requests.get(at).map(|(next, _)| next);
            let (logged, stays) = match next.filter(|_| *how == Follow::Pipelined && request.whole) {
                Some(next) => {
                    let both = [&request.bytes[..], &next.bytes].concat();
                    let both = Request { bytes: both, whole: next.whole };
                    let first = server.ask(&mut client, &both);
                    if first.1 {
                        // That was served as well.
                        (at, alone) = (at + 1, false);
                        server.logged()
                    } else {
                        first
                    }
                }
                None => server.ask(&mut client, request),
            };
            let again = stays && *how == Follow::SameConnection;
            if !again || at == requests.len() {
                seen = rest(std::mem::replace(&mut client, server.connect()));
            }
            if at == requests.len() {
                prop_assert_eq!(&logged, &line);
                break;
            }
            alone = !again;
        }
        let matches = if alone { seen == response } else { seen.ends_with(&response) };
        let (seen, response) = (seen.escape_ascii(), response.escape_ascii());
        prop_assert!(matches, "{response} is not what {seen} ends with");
    }
}
