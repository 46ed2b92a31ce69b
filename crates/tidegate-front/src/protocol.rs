//! Chooses the driver of a connection. A protocol is a variant of [`Protocol`], a row in each function here, and a
//! directory beside [`crate::h1`].

use std::rc::Rc;

use tidegate_core::client::Connection;

use crate::action::Serving;
use crate::front::Front;
use crate::h1;
use crate::link::{Link, Protocol};

/// Returns the protocol of a new connection, by what its handshake has negotiated.
pub(crate) fn of(_info: &Connection) -> Protocol {
    Protocol::Http1
}

/// Reads the bytes that have arrived on a parked connection, without serving them yet.
pub(crate) fn read_ahead(front: &Front, link: &Link) {
    match link.protocol {
        Protocol::Http1 => h1::read_ahead(front, link),
    }
}

/// Serves the requests that have arrived on an idle connection, until it is idle again or ends. The protocol is looked
/// up each time: a driver may hand the connection over to another one, and returns
/// [`Next`](crate::action::ConnectionAction::Next).
///
/// It may be polled first with a waker that does nothing, and then again in a task.
pub(crate) fn serve(front: &Rc<Front>, link: &Rc<Link>) -> Serving {
    match link.protocol {
        Protocol::Http1 => Box::pin(h1::serve(front.clone(), link.clone())),
    }
}
