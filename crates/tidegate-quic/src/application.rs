//! What an endpoint serves: it decides about clients, and takes their connections.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use tidegate_tls::quic::QuicHello;

use crate::connection::Connection;
use crate::event::{Closed, Served};
use crate::settings::ServerSettings;

/// The decision about a client that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It begins.
    Accept,
    /// The client has to show that it receives at its address (RFC 9000 section 8.1.2); where it has done that, it begins.
    Retry,
    /// It is refused with CONNECTION_REFUSED.
    Refuse,
    /// No response.
    Ignore,
}

/// A packet that belongs to a connection of another thread.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The datagram.
    pub bytes: Bytes,
    /// The sender.
    pub from: SocketAddr,
    /// The local address that it was sent to.
    pub to: Option<IpAddr>,
    /// The ECN field.
    pub ecn: u8,
}

/// What a connection begins with, while it is made; `None` as in [`Application::server_at`].
pub type Preparing = Pin<Box<dyn Future<Output = Option<ServerSettings>>>>;

/// What is served over an endpoint.
pub trait Application {
    /// Decides about a client's first packet; `validated` when a token shows that it receives at its address.
    fn admit(&self, from: SocketAddr, validated: bool) -> Admission;
    /// Returns what serves a connection that has begun.
    fn begin(&self, connection: &Rc<Connection>) -> Rc<dyn Served>;
    /// Returns what a connection to a local address begins with; `None` for the settings of the endpoint. What concerns
    /// packets before the handshake is the endpoint's in any case.
    fn server_at(&self, local: IpAddr) -> Option<ServerSettings> {
        let _ = local;
        None
    }
    /// Whether [`Application::prepare`] is asked by each client's hello.
    fn needs_hello(&self) -> bool {
        false
    }
    /// Returns what makes the settings that a connection to a local address begins with, for a client's hello, where
    /// that takes time: others are served meanwhile. `None` where [`Application::server_at`] has them.
    fn prepare(&self, local: Option<IpAddr>, hello: QuicHello) -> Option<Preparing> {
        let _ = (local, hello);
        None
    }
    /// Is called when a client's first packet begins no connection, because its handshake fails at once.
    fn failed(&self, local: Option<IpAddr>, closed: &Closed) {
        let _ = (local, closed);
    }
    /// Passes a packet on to the thread of its connection, if there is room for it there.
    fn pass_on(&self, thread: u16, packet: Packet);
    /// Returns the error code with which connections are closed that are open when the endpoint is dropped; `None` sends
    /// nothing, and their clients wait for the timeout.
    fn code_of_end(&self) -> Option<u64> {
        None
    }
}
