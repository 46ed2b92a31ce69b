//! A bench for tests of the engine and of modules: a plan is built from a text, and requests pass the phases without a
//! socket. Other crates enable it for their tests by the feature `testing`.
//!
//! ```ignore
//! type Bench = tidegate_plan::testing::Bench<AllModules>;
//!
//! let bench = Bench::new("server { location / { return 200 $uri; } }");
//! let reply = bench.get("/a");
//! assert_eq!((reply.status, reply.text()), (200, "/a"));
//! ```
//! `{dir}` in a configuration is the temporary directory of the bench, which is the prefix as well.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_codec::request::{Parse, RequestMeta, parse_request};
use tidegate_codec::{Headers, uri};
use tidegate_conf::{Diagnostic, FsLoader, Parser, Span};
use tidegate_core::client::{Address, Connection, NoClient};
use tidegate_core::exchange::{Captures, PathSource, PlanRef};
use tidegate_core::log_file::{LogFile, LogFiles, open_append};
use tidegate_core::request_body::{RequestBody, StoredBody};
use tidegate_core::{Body, Chunk, Exchange, PhaseResult, phases};

use crate::module::ErasedModule;
use crate::{Environment, Machine, ReloadState, Resources, build};

pub use random::Random;
pub use recorded::check_recorded;

mod random;
mod recorded;

/// Event-loop iterations that other tasks get after a response.
const SETTLE_ITERATIONS: usize = 8;

/// The modules that a bench reads configurations with.
pub trait ModuleList {
    /// Returns all modules.
    fn modules() -> &'static [&'static dyn ErasedModule];
}

/// A plan and a directory for its files.
pub struct Bench<L> {
    /// The plan of the configuration.
    pub plan: PlanRef,
    /// The directory of its files.
    pub dir: tempfile::TempDir,
    /// Messages of the build's warnings.
    pub warnings: Vec<String>,
    /// Settings that modules have shown, in the order of the build.
    pub shown: Vec<String>,
    /// The client's address of new exchanges.
    pub peer: Address,
    list: PhantomData<L>,
}

/// The response to a request.
pub struct TestResponse {
    /// The status; 0 when the connection was closed without a response.
    pub status: u16,
    /// The response's fields.
    pub headers: Headers,
    /// The whole body.
    pub body: Vec<u8>,
    /// Trailer fields, if the response has announced any.
    pub trailers: Option<Headers>,
    /// Whether the body ended early.
    pub broken: bool,
    /// The exchange after its log phase.
    pub x: Exchange,
}

#[derive(Default)]
struct Files(LogFiles);

impl Resources for Files {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        self.0.open(path, |path: &Path| -> io::Result<File> { open_append(path) })
    }

    fn machine(&self) -> Machine {
        Machine { privileged: true, host_name: HOST_NAME.to_owned(), ipv6: true }
    }
}

/// The machine's name in configurations of a bench.
pub const HOST_NAME: &str = "bench";

impl<L: ModuleList> Bench<L> {
    /// Creates a bench with `config` in its `http` block; panics on errors.
    pub fn new(config: &str) -> Bench<L> {
        Bench::with_files(config, &[])
    }

    /// Creates a bench with `config` in its `http` block.
    ///
    /// # Errors
    /// The messages of the configuration's diagnostics.
    pub fn try_new(config: &str) -> Result<Bench<L>, Vec<String>> {
        Bench::try_build(&format!("http {{\n{config}\n}}"), &[])
    }

    /// Like [`Bench::new`], with files (name, content) that are written before the plan is built; a name that ends in
    /// `/` is a directory.
    pub fn with_files(config: &str, files: &[(&str, &str)]) -> Bench<L> {
        let config = format!("http {{\n{config}\n}}");
        match Bench::try_build(&config, files) {
            Ok(bench) => bench,
            Err(errors) => panic!("{}", errors.join("\n")),
        }
    }

    /// Returns the messages of an `http` block that must be refused.
    pub fn errors(config: &str) -> Vec<String> {
        Bench::<L>::errors_of_file(&format!("http {{\n{config}\n}}"))
    }

    /// Returns the messages of a file without `events` that must be refused.
    pub fn errors_of_file(config: &str) -> Vec<String> {
        match Bench::<L>::try_build(config, &[]) {
            Ok(_) => panic!("accepted: {config}"),
            Err(errors) => errors,
        }
    }

    /// Creates a bench with a whole file except `events`; panics on errors.
    pub fn of_file(config: &str) -> Bench<L> {
        match Bench::try_build(config, &[]) {
            Ok(bench) => bench,
            Err(errors) => panic!("{}", errors.join("\n")),
        }
    }

    /// Like [`Bench::of_file`].
    ///
    /// # Errors
    /// The messages of the configuration's diagnostics.
    pub fn try_of_file(config: &str) -> Result<Bench<L>, Vec<String>> {
        Bench::try_build(config, &[])
    }

    /// Creates a bench with a whole file except `events`, and other files as in [`Bench::with_files`].
    ///
    /// # Errors
    /// The messages of the configuration's diagnostics.
    pub fn try_build(config: &str, files: &[(&str, &str)]) -> Result<Bench<L>, Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match name.ends_with('/') {
                true => std::fs::create_dir_all(&path).unwrap(),
                false => std::fs::write(&path, content).unwrap(),
            }
        }
        let directory = dir.path().to_str().unwrap().to_owned();
        let events = if config.starts_with("events {") { "" } else { "events { }" };
        let text = format!("{events}\n{}\n", config.replace("{dir}", &directory));
        let file = dir.path().join("bench.conf");
        std::fs::write(&file, text).unwrap();
        let loader = FsLoader;
        let mut parser = Parser::new(&loader, dir.path());
        let statements = parser.parse_file(&file);
        let (sources, diagnostics) = parser.finish();
        if !diagnostics.is_empty() {
            return Err(messages(&diagnostics));
        }
        let prefix = format!("{directory}/");
        let (resources, reload_state) = (Files::default(), ReloadState::default());
        let shown = RefCell::default();
        let environment = Environment {
            modules: L::modules(),
            prefix: &prefix,
            conf_directory: dir.path(),
            error_log: "logs/error.log",
            layout: &tidegate_os::layout::PREFIX,
            sources: &sources,
            resources: &resources,
            reload_state: &reload_state,
            parsed: &reload_state,
            generation: 1,
            is_checked: false,
            shown: Some(&shown),
        };
        match build(&environment, statements, Span::NONE) {
            Ok((mut plan, mut warnings)) => {
                plan.open().map_err(|error| messages(&[error]))?;
                // The program sorts them as well.
                Diagnostic::sort(&mut warnings, &sources);
                Ok(Bench {
                    plan: PlanRef::new(Arc::new(plan)),
                    warnings: messages(&warnings),
                    shown: shown.into_inner(),
                    dir,
                    peer: Address::Inet("192.0.2.7:4711".parse().unwrap()),
                    list: PhantomData,
                })
            }
            Err(errors) => Err(messages(&errors)),
        }
    }

    /// Sends `GET target` with HTTP/1.1 and `Host: localhost`.
    pub fn get(&self, target: &str) -> TestResponse {
        self.get_with(target, &[])
    }

    /// Like [`Bench::get`] with further fields, `Name: value` each.
    pub fn get_with(&self, target: &str, fields: &[&str]) -> TestResponse {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    /// Returns the body's text for a `GET`, for tables.
    pub fn text(&self, target: &str) -> String {
        let reply = self.get(target);
        assert!(!reply.broken, "{target}: the body broke off");
        reply.text().to_owned()
    }

    /// Sends a head and a body, which has arrived completely.
    pub fn send(&self, request: &str) -> TestResponse {
        self.run(self.received(request))
    }

    /// Runs the phases for an exchange and reads its response to the end.
    pub fn run(&self, mut x: Exchange) -> TestResponse {
        self.settled(async {
            let timeline = x.timeline.clone();
            let run = phases::run(&mut x);
            let response = tidegate_core::timeline::around(timeline.as_deref(), run).await;
            reply(x, response).await
        })
    }

    /// Makes a response with `status` to an exchange instead of running the phases.
    pub fn refuse(&self, mut x: Exchange, status: u16) -> TestResponse {
        self.settled(async {
            let response = phases::refuse(&mut x, status).await;
            reply(x, response).await
        })
    }

    fn settled(&self, reply: impl Future<Output = TestResponse>) -> TestResponse {
        let settled = async {
            let reply = reply.await;
            // Runs tasks that the request has started and that wait for nothing.
            for _ in 0..SETTLE_ITERATIONS {
                tidegate_rt::yield_now().await;
            }
            reply
        };
        tidegate_rt::block_on(settled).unwrap()
    }

    /// Creates an exchange with a request that has not passed the phases.
    pub fn received(&self, request: &str) -> Exchange {
        let mut x = self.exchange();
        let options = Default::default();
        let Parse::Complete(length) =
            parse_request(request.as_bytes(), &options, &mut x.request.head).unwrap()
        else {
            panic!("the head is not complete: {request:?}");
        };
        self.prepare(&mut x, &request.as_bytes()[length..]);
        x
    }

    /// Creates an exchange without a request.
    pub fn exchange(&self) -> Exchange {
        let connection = Connection {
            number: 1,
            debug: false,
            peer_text: Default::default(),
            peer: self.peer.clone(),
            local: Address::Inet("192.0.2.1:8080".parse().unwrap()),
            proxy_protocol: None,
            tls: None,
            protocol: Cell::new(""),
            requests: Cell::new(1),
            accepted_unix_millis: tidegate_rt::clock::unix_millis(),
        };
        Exchange::new(self.plan.clone(), Rc::new(connection), Rc::new(NoClient))
    }

    fn prepare(&self, x: &mut Exchange, body: &[u8]) {
        let head = std::mem::take(&mut x.request.head);
        let meta = RequestMeta::of(&head).unwrap();
        if let Some(host) = &meta.host {
            x.request.host.extend_from_slice(host.as_bytes());
        }
        x.request.method = head.method;
        if meta.keep_alive {
            x.disposition.keep_connection();
        }
        x.progress.action = "";
        let mut decoded = Vec::new();
        let target = head.path_and_args();
        let parsed = uri::normalise(target, true, &mut decoded).unwrap();
        x.request.source = PathSource::Target;
        x.request.path = parsed.path(target, &decoded).to_vec();
        x.request.args = parsed.args(target).to_vec();
        let stored = StoredBody {
            memory: vec![bytes::Bytes::copy_from_slice(body)],
            length: body.len() as u64,
            ..StoredBody::default()
        };
        if !body.is_empty() {
            x.request.body = RequestBody::default();
            x.request.body.set_stored(Arc::new(stored));
        }
        x.outcome.request_length = (head.headers.text().len() + body.len()) as u64;
        let mut captures = Captures::default();
        let servers = &self.plan.listeners[0].servers;
        x.routing.server = servers.find(&x.request.host, &mut captures).0;
        x.routing.location = self.plan.server(x.routing.server).location;
        drop(meta);
        x.request.head = head;
    }

    /// Returns the contents of a file in the directory; empty if it is missing.
    pub fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.dir.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl TestResponse {
    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or("(not UTF-8)")
    }

    /// Returns all values of a field, joined by `|`; `-` for none.
    pub fn field(&self, name: &str) -> String {
        let values = self.headers.all_named(name.as_bytes());
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value)).collect();
        if values.is_empty() { "-".to_owned() } else { values.join("|") }
    }
}

async fn reply(mut x: Exchange, response: PhaseResult) -> TestResponse {
    let (mut body, mut broken, mut trailers) = (Vec::new(), false, None);
    let closed = matches!(response, PhaseResult::Close);
    if let PhaseResult::Send(mut source) = response {
        broken = !collect(&mut source, &mut body).await;
        if x.delivery.expects_trailers {
            trailers = Some(phases::trailers(&mut x, &mut source).clone());
        }
    }
    x.outcome.body_bytes_sent = body.len() as u64;
    x.outcome.complete = !broken && !closed;
    phases::log(&mut x);
    let status = if closed { 0 } else { x.disposition.status() };
    TestResponse { status, headers: x.response.headers.clone(), body, trailers, broken, x }
}

async fn collect(source: &mut Body, out: &mut Vec<u8>) -> bool {
    while let Some(chunk) = source.next().await {
        match chunk {
            Ok(Chunk::Bytes(bytes)) => out.extend_from_slice(&bytes),
            Ok(Chunk::File(range)) => {
                let mut bytes = vec![0; range.length as usize];
                assert_eq!(
                    tidegate_os::file::pread(&range.file, &mut bytes, range.offset).unwrap(),
                    bytes.len()
                );
                out.extend_from_slice(&bytes);
            }
            Ok(Chunk::Flush) => {}
            Err(_) => return false,
        }
    }
    true
}

fn messages(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(|diagnostic| diagnostic.message.clone()).collect()
}
