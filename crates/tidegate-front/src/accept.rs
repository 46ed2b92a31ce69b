//! Accepts connections from a listening socket.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::client::{Address, Connection};
use tidegate_core::debug_log;
use tidegate_core::error_log::Level;
use tidegate_core::log_context::write_debug;
use tidegate_os::error::is_out_of_descriptors;
use tidegate_os::{ListenAddr, PeerAddr, os_error};
use tidegate_rt::clock;
use tidegate_rt::net::{Listener, Stream};

use crate::front::Front;
use crate::io::Io;
use crate::listener::ListenerRef;
use crate::session;
use crate::start::{self, AcceptedConnection};
use crate::starting::SILENT_MIN;

/// Connections accepted in one event-loop iteration with `multi_accept`: other tasks must run in between.
const ACCEPT_BATCH: usize = 64;
/// Pause after an accept failed for want of descriptors, as in nginx.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);

/// Accepts connections and starts to serve them on this thread until the future is dropped; connections that were
/// accepted by then continue. `address` finds the listener again in each new plan, whether it belongs to `http` or to
/// `stream`.
///
/// It waits while `worker_connections` are in use, and takes no more of a batch than `multi_accept` says. Without
/// descriptors it closes idle connections, or waits for half a second.
pub async fn accept_connections(front: Rc<Front>, listener: Rc<Listener>, address: Address) {
    let address = Rc::new(address);
    loop {
        if wait_for_room(&front, &listener).await.is_err() {
            return;
        }
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
            let is_out = error.raw_os_error().is_some_and(is_out_of_descriptors);
            let level = if is_out { Level::Crit } else { Level::Alert };
            log.say(level, format_args!("accept4() failed ({})", os_error(&error)));
            match front.reuse_idle(clock::now()) {
                // The tasks of some have to run before they close.
                true => tidegate_rt::yield_now().await,
                false => tidegate_rt::timer::sleep(EXHAUSTED_PAUSE).await,
            }
        }
    }
}

/// Whether a thread that accepted `taken` connections in this event-loop iteration accepts another one at once
/// (`multi_accept`). The rest stays in the queue for any thread, and for this one in its next iteration.
fn takes_more(front: &Front, taken: usize) -> bool {
    // Not held while waiting: an idle listener must not keep an old generation alive.
    let main = &front.plan().main;
    main.multi_accept
        && taken < ACCEPT_BATCH
        && (front.connected() as u64) < main.worker_connections
        && !front.is_ahead()
}

/// Waits while `worker_connections` are in use. Once a client waits for a connection, idle connections are closed to
/// make room: not before, since each of them may be about to send a request.
///
/// Invariant: the wait for room begins before the count is read, so that a connection which ends in between is not
/// missed. Dropped at an await it leaves nothing behind. Source: `worker_connections`.
///
/// # Errors
/// The event loop is ending.
async fn wait_for_room(front: &Rc<Front>, listener: &Listener) -> io::Result<()> {
    let (mut has_waited, mut has_logged) = (false, false);
    loop {
        let room = front.room.notified();
        let count = front.plan().main.worker_connections;
        let is_full = || front.connected() as u64 >= count;
        if !is_full() {
            if has_waited {
                // The end of one connection wakes one listener, which may have no client.
                front.room.notify_one();
            }
            return Ok(());
        }
        has_waited = true;
        tidegate_rt::sync::pin!(room);
        tidegate_rt::sync::select! {
            () = room.as_mut() => continue,
            waits = listener.connection_waits() => waits?,
        }
        if is_full() && !front.reuse_idle(clock::now()) && !has_logged {
            has_logged = true;
            let log = front.plan().main.error_log.clone();
            log.say(Level::Alert, format_args!("{count} worker_connections are not enough"));
        }
        if is_full() {
            // Those that are silent make room by and by.
            let _ = tidegate_rt::timer::timeout(SILENT_MIN, room).await;
        }
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
    disable_local_pacing(&stream, address, &local, &peer);
    let listener_ref = ListenerRef::find(&plan, address, &local);
    let info = Connection {
        number: front.next_number(),
        debug: plan.main.debugs(&peer),
        peer_text: Default::default(),
        peer,
        local,
        protocol: Cell::new(""),
        proxy_protocol: None,
        tls: None,
        requests: Cell::new(0),
        accepted_unix_millis: clock::unix_millis(),
    };
    if debug_log::is_on() {
        let text = || format!("accepted a connection of {}", info.peer.text());
        write_debug(&plan.main.error_log, &info, text);
    }
    let connection = AcceptedConnection {
        io: Io::Plain(stream),
        info,
        input: Vec::new(),
        open: counted,
        accepted: clock::now(),
        passes: 0,
    };
    match listener_ref {
        Some(listener_ref) => start::enter(front, connection, address, listener_ref),
        None => session::tcp::enter(front, connection, address),
    }
}

/// Turns pacing off for a connection within this machine, unless the listener is on a loopback address, which turns it
/// off for all of its connections. On other addresses only the connection shows where it comes from.
fn disable_local_pacing(stream: &Stream, listener: &Address, local: &Address, peer: &Address) {
    if let (Address::Inet(listener), Address::Inet(local), Address::Inet(peer)) =
        (listener, local, peer)
        && !listener.ip().is_loopback()
    {
        stream.disable_local_pacing(peer.ip(), local.ip());
    }
}

/// Returns the local address. It is read from the system only for sockets that listen on all addresses.
fn local_address(stream: &Stream, listener: &Address) -> Address {
    match listener {
        Address::Inet(address) if address.ip().is_unspecified() => match stream.local_addr() {
            Ok(ListenAddr::Inet(address)) => Address::Inet(address),
            _ => listener.clone(),
        },
        _ => listener.clone(),
    }
}
