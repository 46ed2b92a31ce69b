//! From a listening socket to connections.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::client::{Address, Connection};
use tidegate_core::error_log::Level;
use tidegate_os::{ListenAddr, PeerAddr};
use tidegate_rt::net::{Listener, Stream};

use crate::conn::{Conn, Entrance, Lasting};
use crate::front::Front;
use crate::h1::End;

/// Connections accepted at one turn with `multi_accept`: others must get their turn too.
const ACCEPT_BATCH: usize = 64;
/// Pause after running out of descriptors, as in nginx.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);

/// Accepts until the task is dropped. `address` finds the listener again in each new plan.
pub async fn run(front: Rc<Front>, listener: Rc<Listener>, address: Address) {
    loop {
        wait_for_room(&front).await;
        // The plan is not held while waiting: an idle listener must not keep an old generation.
        let batch = if front.plan().main.multi_accept { ACCEPT_BATCH } else { 1 };
        let accepted = listener.accept_some(batch, |stream| take(&front, stream, &address)).await;
        if let Err(error) = accepted {
            let log = front.plan().main.error_log.clone();
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
        let count = front.plan().main.worker_connections;
        if (front.live() as u64) < count {
            return;
        }
        if !front.reuse_idle() {
            let log = front.plan().main.error_log.clone();
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
    // Boxed, so that the task stays as small as an idle connection.
    let Some(conn) = Box::pin(open(front, stream, address)).await else { return };
    serve(conn).await;
}

/// Brings a new connection to the point where HTTP begins.
async fn open(front: Rc<Front>, stream: Rc<Stream>, address: Address) -> Option<Rc<Conn>> {
    let counted = front.counters.open();
    let local = local_address(&stream, &address);
    let plan = front.plan();
    let entrance = Entrance::find(&plan, &address, &local)?;
    let (tls, proxy_protocol) = entrance.transport(&plan)?;
    let peer = peer_address(&stream);
    let info = Connection {
        number: front.next_number(),
        peer_text: peer.host_text(),
        peer,
        local,
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(0),
        accepted_unix_millis: tidegate_rt::clock::unix_millis(),
    };
    let generation = plan.generation;
    drop(plan);
    let started = crate::start::start(&front, stream, info, entrance, tls, proxy_protocol).await?;
    let (io, info, input) = started;
    // One reading for both: idle time is decided by their being the same.
    let accepted = tidegate_rt::clock::now();
    let lasting = Lasting {
        address,
        entrance,
        generation,
        accepted,
        idle_until: accepted,
        nodelay: false,
        open: counted,
    };
    Some(Conn::new(front, io, info, input, lasting))
}

/// Serves a connection until it ends or is parked.
pub(crate) async fn serve(conn: Rc<Conn>) {
    let front = conn.front.clone();
    let key = front.enter(&conn);
    let end = guarded(&conn).await;
    front.leave(key);
    if end == Some(End::Parked) {
        crate::parking::park(&front, conn);
    }
}

/// Runs a connection; a panic ends it alone, and so does an abort.
async fn guarded(conn: &Rc<Conn>) -> Option<End> {
    let mut run = Box::pin(crate::h1::run(conn.clone()));
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
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            let log = conn.front.plan().main.error_log.clone();
            let number = conn.info.number;
            log.write(Level::Alert, number, &format!("request ended by a panic: {text}"));
            None
        }
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
