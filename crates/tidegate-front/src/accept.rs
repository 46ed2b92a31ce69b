//! From a listening socket to connections.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::client::{Address, Connection};
use tidegate_core::error_log::Level;
use tidegate_os::{ListenAddr, PeerAddr};
use tidegate_rt::net::{Listener, Stream};
use tidegate_rt::sync::Notify;
use tidegate_rt::timer::Deadline;

use crate::conn::{Conn, Entrance};
use crate::front::Front;

/// Connections accepted at one turn with `multi_accept`: others must get their turn too.
const ACCEPT_BATCH: usize = 64;
/// Pause after running out of descriptors, as in nginx.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);

/// Accepts until the task is dropped. `address` finds the listener again in each new plan.
pub async fn run(front: Rc<Front>, listener: Rc<Listener>, address: Address) {
    loop {
        wait_for_room(&front).await;
        let plan = front.plan();
        let batch = if plan.main.multi_accept { ACCEPT_BATCH } else { 1 };
        let accepted = listener.accept_some(batch, |stream| take(&front, stream, &address)).await;
        if let Err(error) = accepted {
            let log = &plan.main.error_log;
            log.say(Level::Alert, format_args!("accept4() failed ({error})"));
            if !front.reuse_idle() {
                tidegate_rt::timer::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Waits while `worker_connections` are in use; idle connections are closed to make room.
async fn wait_for_room(front: &Rc<Front>) {
    loop {
        let room = front.room.notified();
        let plan = front.plan();
        if (front.live() as u64) < plan.main.worker_connections {
            return;
        }
        if !front.reuse_idle() {
            let count = plan.main.worker_connections;
            let log = &plan.main.error_log;
            log.say(Level::Alert, format_args!("{count} worker_connections are not enough"));
        }
        room.await;
    }
}

fn take(front: &Rc<Front>, stream: Stream, address: &Address) {
    let front = front.clone();
    let address = address.clone();
    tidegate_rt::spawn_local(connection(front, Rc::new(stream), address));
}

async fn connection(front: Rc<Front>, stream: Rc<Stream>, address: Address) {
    let local = local_address(&stream, &address);
    let plan = front.plan();
    let Some(entrance) = Entrance::find(&plan, &address, &local) else { return };
    let Some((tls, proxy_protocol)) = entrance.transport(&plan) else { return };
    let info = Connection {
        number: front.next_number(),
        peer: peer_address(&stream),
        local,
        peer_text: peer_address(&stream).host_text(),
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(0),
        accepted_unix_millis: tidegate_rt::clock::unix_millis(),
    };
    let started = crate::start::start(&front, stream, info, entrance, tls, proxy_protocol).await;
    let Some((io, info, input)) = started else { return };
    let conn = Rc::new(Conn {
        front: front.clone(),
        io,
        info: Rc::new(info),
        entrance: Cell::new(entrance),
        address,
        generation: Cell::new(plan.generation),
        input: RefCell::new(input),
        deadline: Deadline::new(),
        accepted: tidegate_rt::clock::now(),
        nodelay: Cell::new(false),
        closing: Cell::new(false),
        idle_since: Cell::new(0),
        waker: RefCell::new(None),
        handed_over: Cell::new(false),
        gone: RefCell::new(None),
        abort: Notify::new(),
    });
    let key = front.enter(&conn);
    guarded(conn).await;
    front.leave(key);
}

/// Runs a connection; a panic ends it alone, and so does an abort.
async fn guarded(conn: Rc<Conn>) {
    let run = std::pin::pin!(crate::h1::run(conn.clone()));
    let mut run = run;
    let caught = std::future::poll_fn(|context| {
        let poll = std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context)));
        match poll {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(None),
            Err(panic) => Poll::Ready(Some(panic)),
        }
    });
    let panic = tidegate_rt::sync::select! {
        panic = caught => panic,
        () = conn.abort.notified() => None,
    };
    if let Some(panic) = panic {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let log = conn.front.plan().main.error_log.clone();
        let number = conn.info.number;
        log.write(Level::Alert, number, &format!("request ended by a panic: {text}"));
    }
}

fn peer_address(stream: &Stream) -> Address {
    match stream.peer_addr() {
        PeerAddr::Inet(address) => Address::Inet(address),
        PeerAddr::Unix => Address::Unix(String::new()),
    }
}

/// The local address: asked from the system only for sockets that listen on all addresses.
fn local_address(stream: &Stream, listener: &Address) -> Address {
    match listener {
        Address::Inet(address) if address.ip().is_unspecified() => match stream.local_addr() {
            Ok(ListenAddr::Inet(address)) => Address::Inet(address),
            _ => listener.clone(),
        },
        _ => listener.clone(),
    }
}
