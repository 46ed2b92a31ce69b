//! What a thread takes from a listener in one turn. In a program of its own: threads are compared by what all
//! connections of the process count.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tidegate_conf::{Bundle, BundleLoader, Parser, Span};
use tidegate_core::builder::{Environment, Resources, Survivors, build};
use tidegate_core::client::Address;
use tidegate_core::http_core::HttpCore;
use tidegate_core::log_file::LogFile;
use tidegate_core::main_settings::MainCore;
use tidegate_core::module::Entry;
use tidegate_core::plan::Plan;
use tidegate_front::{Front, Shared};
use tidegate_rt::net::Listener;
use tidegate_rt::{Worker, spawn_local, yield_now};

/// Clients that wait before anything is accepted.
const CLIENTS: usize = 100;

struct NoFiles;

impl Resources for NoFiles {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn log_file(&self, path: &Path) -> std::io::Result<Arc<LogFile>> {
        let file = tidegate_core::log_file::open_append(path)?;
        Ok(Arc::new(LogFile::new(path.to_path_buf(), file)))
    }
}

fn plan(events: &str, address: SocketAddr) -> Arc<Plan> {
    let text = format!(
        "error_log stderr emerg; events {{ {events} }} http {{ server {{ listen {address}; }} }}"
    );
    let file = PathBuf::from("/test.conf");
    let bundle = Bundle { files: vec![(file.clone(), text.into_bytes())], globs: Vec::new() };
    let loader = BundleLoader::new(bundle);
    let mut parser = Parser::new(&loader, "/");
    let statements = parser.parse_file(&file);
    let environment = Environment {
        modules: &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW],
        prefix: "/",
        conf_folder: Path::new("/"),
        error_log: "stderr",
        resources: &NoFiles,
        survivors: &Survivors::default(),
        generation: 1,
        for_use: true,
    };
    match build(&environment, &statements, Span::NONE) {
        Ok((plan, _)) => Arc::new(plan),
        Err(diagnostics) => panic!("{}", diagnostics[0].message),
    }
}

/// How many connections one of `threads` threads has taken when another task of it gets its turn, and in how
/// many turns more it takes the rest.
fn taken_at_once(threads: usize, events: &str) -> (usize, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let plan = plan(events, address);
    let connect = |_| TcpStream::connect(address).expect("a connection");
    let _clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    let (told, answer) = std::sync::mpsc::channel();
    let _worker = Worker::run("test", None, move |_| async move {
        let shared = Arc::new(Shared::default());
        shared.set_threads(threads);
        let front = Front::new(plan, shared);
        listener.set_nonblocking(true).expect("non-blocking");
        let listener = Rc::new(Listener::from_fd(listener.into()).expect("a watched listener"));
        let running = tidegate_front::accept::run(front.clone(), listener, Address::Inet(address));
        spawn_local(running);
        while front.live() == 0 {
            yield_now().await;
        }
        let (first, mut turns) = (front.live(), 0);
        while front.live() < CLIENTS {
            turns += 1;
            yield_now().await;
        }
        let _ = told.send((first, turns));
        front.abort_all();
    })
    .expect("a worker");
    answer.recv().expect("all were taken")
}

#[test]
fn a_thread_ahead_of_the_others_leaves_them_their_share() {
    // In one test: the counts are those of the process.
    let (first, turns) = taken_at_once(2, "multi_accept on;");
    assert!((8..CLIENTS / 2).contains(&first), "{first} at once, though the other has none");
    assert!(turns > CLIENTS / 4, "the rest one by one, not in {turns} turns");
    let (first, _) = taken_at_once(2, "");
    assert!(first < CLIENTS / 2, "{first} at once");
    let (first, _) = taken_at_once(1, "multi_accept on;");
    assert_eq!(first, CLIENTS, "alone there is nobody to wait for");
}
