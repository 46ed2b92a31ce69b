//! Servers and configuration checks for tests of this crate.

mod plan;
pub(crate) mod tls;

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_conf::{SourceMap, Word};
use tidegate_core::client::Address;
use tidegate_core::{Body, Step};
use tidegate_front::{Front, Shared};
use tidegate_plan::main_core::MainCore;
use tidegate_plan::module::{Arity, Contexts, Diagnostic, Directive, Entry, ErasedModule, Kind};
use tidegate_plan::{LocationBuilder, ReloadState};
use tidegate_plan::{Module, http_core::HttpCore};
use tidegate_rt::Worker;
use tidegate_rt::net::Listener;

use plan::Built;
use tls::Directory;

/// `show TEXT;` responds with a text with variables; `fill N;` with `N` bytes; `parked TEXT;` with a text and the number
/// of parked connections.
struct Show;

thread_local! {
    static FRONT: RefCell<Option<Rc<Front>>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Conf {
    text: Option<Word>,
    fill: Option<u64>,
    parked: Option<Word>,
}

const fn row(
    name: &'static str,
    set: fn(&mut Conf, &tidegate_conf::Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    let contexts = Contexts::LOCATION;
    Directive {
        name,
        contexts,
        args: Arity::ONE,
        kind: Kind::Simple,
        default: "",
        doc: "",
        has_effect: true,
        set,
    }
}

impl Module for Show {
    type Conf = Conf;
    const NAME: &'static str = "show";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[
        row("show", |conf, args| {
            conf.text = Some(args.word(0).clone());
            Ok(())
        }),
        row("fill", |conf, args| {
            conf.fill = Some(args.number(0, 0..=u64::MAX)?);
            Ok(())
        }),
        row("parked", |conf, args| {
            conf.parked = Some(args.word(0).clone());
            Ok(())
        }),
    ]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if let Some(word) = &conf.text {
            let template = location.plan.template(word)?;
            location.content(Box::new(move |x| {
                let text = template.value(x).to_vec();
                Step::Respond(Body::from(Bytes::from(text)))
            }));
        }
        if conf.parked.is_some() {
            location.content(Box::new(|_| {
                let count =
                    FRONT.with_borrow(|front| front.as_ref().map_or(0, |front| front.parked()));
                Step::Respond(Body::from(Bytes::from(format!("parked: {count}"))))
            }));
        }
        if let Some(count) = conf.fill {
            let bytes = Bytes::from(vec![b'f'; count as usize]);
            location.content(Box::new(move |_| Step::Respond(Body::from(bytes.clone()))));
        }
        Ok(())
    }
}

fn compile(directory: &Directory, text: String, reload_state: &ReloadState) -> (Built, SourceMap) {
    let modules: &[&'static dyn ErasedModule] = &[
        &Entry::<MainCore>::NEW,
        &Entry::<HttpCore>::NEW,
        &Entry::<Show>::NEW,
        &Entry::<tidegate_front::Ssl>::NEW,
    ];
    let prefix = format!("{}/", directory.path("").display().to_string().trim_end_matches('/'));
    plan::compile(text, modules, &prefix, reload_state)
}

fn config(address: SocketAddr, servers: &[&str]) -> String {
    let servers: String =
        servers.iter().map(|text| format!("server {{ listen {address} ssl; {text} }}\n")).collect();
    format!("error_log stderr emerg; events {{}} http {{ {servers} }}")
}

/// A running server.
pub(crate) struct Server {
    pub address: SocketAddr,
    reload_state: Arc<ReloadState>,
    _worker: Worker,
}

impl Server {
    /// Starts a server; `servers` are the contents of `server` blocks, without `listen`.
    pub(crate) fn tls(directory: &Directory, servers: &[&str]) -> Server {
        Server::start(directory, servers, Arc::default())
    }

    /// Starts a later generation with the same reload state, on a port of its own.
    pub(crate) fn next(&self, directory: &Directory, servers: &[&str]) -> Server {
        Server::start(directory, servers, self.reload_state.clone())
    }

    fn start(directory: &Directory, servers: &[&str], reload_state: Arc<ReloadState>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let plan = plan::whole(compile(directory, config(address, servers), &reload_state));
        let worker = Worker::run("test", None, move |_| async move {
            let front = tidegate_front::open(plan, Arc::new(Shared::default()));
            FRONT.set(Some(front.clone()));
            listener.set_nonblocking(true).expect("non-blocking");
            let listener = Rc::new(Listener::from_fd(listener.into()).expect("a watched listener"));
            tidegate_front::accept_connections(front, listener, Address::Inet(address)).await;
        });
        Server { address, reload_state, _worker: worker.expect("a worker") }
    }
}

/// Checks the first diagnostic for one server block: an error's start, `warn: ` and a warning's, or `ok`.
#[track_caller]
pub(crate) fn check_config(directory: &Directory, server: &str, expected: &str) {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let (built, _) = compile(directory, config(address, &[server]), &ReloadState::default());
    let found = match built {
        Ok((_, diagnostics)) => match diagnostics.first() {
            Some(diagnostic) => format!("warn: {}", diagnostic.message),
            None => "ok".to_owned(),
        },
        Err(diagnostics) => diagnostics[0].message.clone(),
    };
    assert!(found.starts_with(expected), "{server}\nfound    {found}\nexpected {expected}");
}
