//! From a listening socket to connections.

use std::any::Any;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::client::{Address, Connection};
use tidegate_core::counters::Open;
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_os::{ListenAddr, PeerAddr};
use tidegate_rt::net::{Listener, Stream};

use crate::conn::{AcceptInfo, Conn, ListenerRef};
use crate::front::Front;
use crate::h1::{ServeResult, Serving};
use crate::io::Io;

/// Connections accepted at one turn with `multi_accept`: others must get their turn too.
const ACCEPT_BATCH: usize = 64;
/// Pause after running out of descriptors, as in nginx.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);

/// Accepts until the task is dropped. `address` finds the listener again in each new plan.
pub async fn run(front: Rc<Front>, listener: Rc<Listener>, address: Address) {
    let address = Rc::new(address);
    loop {
        wait_for_room(&front).await;
        let mut taken = 0;
        let each = |stream, peer| {
            take(&front, stream, peer, &address);
            taken += 1;
            takes_more(&front, taken)
        };
        let accepted = listener.accept_some(each).await;
        if front.is_ahead() {
            tidegate_rt::yield_now().await;
        }
        if let Err(error) = accepted {
            let log = front.plan().main.error_log.clone();
            log.say(Level::Alert, format_args!("accept4() failed ({error})"));
            if !front.reuse_idle() {
                tidegate_rt::timer::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Whether a thread that took so many connections in this turn takes another one at once (`multi_accept`).
/// What it leaves is there for any thread, and for itself in its next turn.
fn takes_more(front: &Front, taken: usize) -> bool {
    // Not held while waiting: an idle listener must not keep an old generation.
    let main = &front.plan().main;
    main.multi_accept
        && taken < ACCEPT_BATCH
        && (front.connected() as u64) < main.worker_connections
        && !front.is_ahead()
}

/// Waits while `worker_connections` are in use; idle connections are closed to make room.
async fn wait_for_room(front: &Rc<Front>) {
    loop {
        let room = front.room.notified();
        let count = front.plan().main.worker_connections;
        if (front.connected() as u64) < count {
            return;
        }
        if !front.reuse_idle() {
            let log = front.plan().main.error_log.clone();
            log.say(Level::Alert, format_args!("{count} worker_connections are not enough"));
        }
        room.await;
    }
}

fn take(front: &Rc<Front>, stream: Stream, peer: PeerAddr, address: &Rc<Address>) {
    let stream = Rc::new(stream);
    let plan = front.plan();
    let counted = front.counters.open();
    let local = local_address(&stream, address);
    let peer = match peer {
        PeerAddr::Inet(address) => Address::Inet(address),
        PeerAddr::Unix => Address::Unix(String::new()),
    };
    spare_pacing(&stream, address, &local, &peer);
    let listener_ref = ListenerRef::find(&plan, address, &local);
    let info = Connection {
        number: front.next_number(),
        peer_text: Default::default(),
        peer,
        local,
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(0),
        accepted_unix_millis: tidegate_rt::clock::unix_millis(),
    };
    let connection =
        AcceptedConnection { io: Io::Plain(stream), info, input: Vec::new(), open: counted };
    match listener_ref {
        Some(listener_ref) => enter(front, connection, address, listener_ref),
        None => crate::session::tcp::enter(front, connection, address),
    }
}

/// A connection as it was accepted, or as a session of `stream` passes it on.
pub(crate) struct AcceptedConnection {
    pub io: Io,
    pub info: Connection,
    /// Received already.
    pub input: Vec<u8>,
    pub open: Open,
}

/// Begins to serve a connection at an address of `http`, whose listener is one of the present plan.
pub(crate) fn enter(
    front: &Rc<Front>,
    connection: AcceptedConnection,
    address: &Rc<Address>,
    listener_ref: ListenerRef,
) {
    let plan = front.plan();
    let Some((tls, proxy_protocol)) = listener_ref.transport(&plan) else { return };
    let AcceptedConnection { io, info, input, open } = connection;
    let accept_info = AcceptInfo {
        address: address.clone(),
        listener_ref,
        generation: plan.generation,
        accepted: tidegate_rt::clock::now(),
        patience: crate::start::header_timeout(&plan, listener_ref),
        open,
    };
    let stream = match io {
        Io::Plain(stream) if tls || proxy_protocol => stream,
        // Behind a handshake of its own nothing is left to be done.
        io if input.is_empty() => {
            let conn = Conn::new(front.clone(), io, info, input, accept_info);
            return crate::parking::park_or_spawn(front, conn);
        }
        io => {
            let conn = Conn::new(front.clone(), io, info, input, accept_info);
            tidegate_rt::spawn_local(serve(conn, None));
            return;
        }
    };
    let front = front.clone();
    tidegate_rt::spawn_local(async move {
        // Boxed, so that the task stays as small as an idle connection.
        let starting = crate::start::start(&front, stream, info, input, listener_ref);
        let Some((io, info, input)) = Box::pin(starting).await else { return };
        serve(Conn::new(front, io, info, input, accept_info), None).await;
    });
}

/// Serves a connection until it ends or is parked, from the middle of a request on if that has begun.
pub(crate) async fn serve(conn: Rc<Conn>, begun: Option<Serving>) {
    let front = conn.front.clone();
    let key = front.enter(&conn);
    let end = guarded(&conn, begun).await;
    front.leave(key);
    match end {
        Some(ServeResult::Parked) => crate::parking::park_or_spawn(&front, conn),
        _ => front.parking.forget(&conn),
    }
}

/// Runs a connection; a panic ends it alone, and so does an abort.
async fn guarded(conn: &Rc<Conn>, begun: Option<Serving>) -> Option<ServeResult> {
    let mut run = Box::pin(crate::h1::run(conn.clone(), begun));
    let ended = std::future::poll_fn(|context| {
        conn.remember(context);
        if conn.aborted.get() {
            return Poll::Ready(Ok(None));
        }
        match std::panic::catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(end)) => Poll::Ready(Ok(Some(end))),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await;
    match ended {
        Ok(end) => end,
        Err(panic) => {
            tell_of(conn, &*panic);
            None
        }
    }
}

/// Logs a panic in the name of the connection that it ends.
pub(crate) fn tell_of(conn: &Conn, panic: &(dyn Any + Send)) {
    let log = conn.front.plan().main.error_log.clone();
    tell_of_panic(&log, conn.info.number, panic);
}

/// Logs a panic that ends what this connection was for.
pub(crate) fn tell_of_panic(log: &ErrorLog, number: u64, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    log.write(Level::Alert, number, &format!("request ended by a panic: {text}"));
}

/// What a listener on a loopback address says for all its connections is said for each here, when only the
/// connection tells where it comes from.
fn spare_pacing(stream: &Stream, listener: &Address, local: &Address, peer: &Address) {
    if let (Address::Inet(listener), Address::Inet(local), Address::Inet(peer)) =
        (listener, local, peer)
        && !listener.ip().is_loopback()
    {
        stream.spare_pacing(peer.ip(), local.ip());
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
