//! Chooses the driver of a connection. A protocol is a variant of [`Protocol`], a row in each function here, and a
//! directory beside [`crate::h1`].

use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::client::Connection;
use tidegate_core::plan::{Plan, ServerId};
use tidegate_rt::clock;

use crate::action::Serving;
use crate::front::Front;
use crate::h2::connection::Multiplexer;
use crate::h2::directives::Http2Server;
use crate::link::{Link, Protocol};
use crate::{h1, h2};

/// Returns HTTP/2 for a new connection to `server` if its handshake has negotiated that; `None` for HTTP/1.
pub(crate) fn negotiated(
    info: &Connection,
    plan: &Plan,
    server: ServerId,
) -> Option<Rc<Multiplexer>> {
    let alpn = info.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
    (alpn == Some("h2")).then(|| {
        info.protocol.set("h2");
        let config = Arc::clone(&Http2Server::of(plan, server).config);
        Multiplexer::new(config, clock::now())
    })
}

/// Whether the server sends first, before the client's first bytes.
pub(crate) fn greets(link: &Link) -> bool {
    matches!(link.protocol(), Protocol::Http2(_))
}

/// Reads the bytes that have arrived on a parked connection, without serving them yet.
pub(crate) fn read_ahead(front: &Front, link: &Link) {
    h1::read_ahead(front, link);
}

/// Serves the requests that have arrived on an idle connection, until it is idle again or ends. The protocol is looked
/// up each time: a driver may hand the connection over to another one, and returns
/// [`Next`](crate::action::ConnectionAction::Next).
///
/// It may be polled first with a waker that does nothing, and then again in a task.
pub(crate) fn serve(front: &Rc<Front>, link: &Rc<Link>) -> Serving {
    match link.protocol() {
        Protocol::Http1 => Box::pin(h1::serve(front.clone(), link.clone())),
        Protocol::Http2(_) => Box::pin(h2::serve(front.clone(), link.clone())),
    }
}
