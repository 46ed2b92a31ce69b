//! How many connections a thread accepts in one event-loop iteration. This is a program of its own: the counts that
//! threads are compared by are those of the process.

#[path = "support/plan.rs"]
mod plan;

use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::client::Address;
use tidegate_front::Shared;
use tidegate_plan::ReloadState;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::main_core::MainCore;
use tidegate_plan::module::{Entry, ErasedModule};
use tidegate_rt::net::Listener;
use tidegate_rt::{Worker, spawn_local, yield_now};

/// Clients that wait before anything is accepted.
const CLIENTS: usize = 100;

static MODULES: &[&dyn ErasedModule] = &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW];

/// Returns how many connections one of `threads` threads has accepted when another task of it runs, and in how many
/// further iterations it accepts the rest.
fn taken_at_once(threads: usize, events: &str) -> (usize, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let text = format!(
        "error_log stderr emerg; events {{ {events} }} http {{ server {{ listen {address}; }} }}"
    );
    let plan = plan::whole(plan::compile(text, MODULES, "/", &ReloadState::default()));
    let connect = |_| TcpStream::connect(address).expect("a connection");
    let _clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    let (sender, response) = std::sync::mpsc::channel();
    let worker = Worker::run("test", None, move |_| async move {
        let shared = Arc::new(Shared::default());
        shared.set_threads(threads);
        let front = tidegate_front::open(plan, shared);
        listener.set_nonblocking(true).expect("non-blocking");
        let listener = Rc::new(Listener::from_fd(listener.into()).expect("a watched listener"));
        let running =
            tidegate_front::accept_connections(front.clone(), listener, Address::Inet(address));
        spawn_local(running);
        while front.live() == 0 {
            yield_now().await;
        }
        let (first, mut iterations) = (front.live(), 0);
        while front.live() < CLIENTS {
            iterations += 1;
            yield_now().await;
        }
        let _ = sender.send((first, iterations));
        front.abort_all();
    })
    .expect("a worker");
    let taken = response.recv().expect("all were taken");
    // Until then its connections count.
    worker.join().expect("the worker's end");
    taken
}

#[test]
fn a_thread_ahead_of_the_others_leaves_connections_to_them() {
    // In one test: the counts are those of the process.
    let (first, iterations) = taken_at_once(2, "multi_accept on;");
    assert!((8..CLIENTS / 2).contains(&first), "{first} at once, though the other has none");
    assert!(iterations > CLIENTS / 4, "the rest one by one, not in {iterations} iterations");
    let (first, _) = taken_at_once(2, "");
    assert!(first < CLIENTS / 2, "{first} at once");
    let (first, _) = taken_at_once(1, "multi_accept on;");
    assert_eq!(first, CLIENTS, "alone there is no other thread to wait for");
}
