//! The HTTP/3 driver (RFC 9114): the requests of a QUIC connection are streams of it.

pub(crate) mod threads;

use std::rc::Rc;
use std::sync::atomic::Ordering;

use tidegate_core::client::Address;
use tidegate_core::error_log::Level;
use tidegate_quic::{Admission, Application, Connection, Endpoint, Event, Keys, Packet, Served};
use tidegate_rt::net::Packets;
use tidegate_rt::sync::select;

use crate::front::Front;
use threads::Threads;

/// Serves HTTP/3 over a UDP socket. `address` finds the listener again in each new plan.
///
/// It ends by itself: once the plan no longer has the listener or the front side drains, it accepts no new connection, and
/// returns behind the last one. Dropped before that, it drops its connections without a word to their clients.
pub async fn serve_packets(
    front: Rc<Front>,
    socket: Packets,
    _address: Address,
    mut threads: Threads,
) {
    let application = Port { pass_on: threads.pass_on.clone() };
    let keys = Keys::derive(b"");
    let count = threads.count.load(Ordering::Relaxed);
    let endpoint = Endpoint::new(socket, application, &keys, None, (threads.thread, count));
    let mail = async {
        while let Some(packet) = threads.mail.recv().await {
            endpoint.receive(&packet);
        }
        std::future::pending::<()>().await;
    };
    select! {
        error = endpoint.run() => {
            let log = front.plan().main.error_log.clone();
            log.say(Level::Alert, format_args!("recvmsg() failed ({error})"));
        }
        () = mail => {}
    }
}

struct Port {
    pass_on: Rc<dyn Fn(u16, Packet)>,
}

struct Nothing;

impl Served for Nothing {
    fn event(&self, _: &Rc<Connection>, _: Event) {}
}

impl Application for Port {
    fn admit(&self, _: std::net::SocketAddr, _: bool) -> Admission {
        Admission::Refuse
    }

    fn begin(&self, _: &Rc<Connection>) -> Rc<dyn Served> {
        Rc::new(Nothing)
    }

    fn pass_on(&self, thread: u16, packet: Packet) {
        (self.pass_on)(thread, packet);
    }
}
