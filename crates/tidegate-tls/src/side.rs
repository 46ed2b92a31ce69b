//! The two sides of TLS, as types: the library has a session type for each.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;

use crate::session::Library;

/// One side of TLS: [`Server`] or [`Client`]. There are no others. It is a parameter of [`Io`](crate::Io) and
/// [`TlsStream`](crate::TlsStream), which both sides share; the types have no values.
pub trait Side: sealed::Sealed {
    /// The library's connection.
    type Connection: Library;

    /// Whether a stream that is dropped sends close_notify, as far as the peer's window has room.
    const CLOSES_ON_DROP: bool;

    /// Called when a read of the peer's bytes has been tried, plain or encrypted.
    fn received();
}

/// The server's side of connections that clients open.
#[derive(Clone, Copy, Debug)]
pub enum Server {}

/// The client's side of connections to origins.
#[derive(Clone, Copy, Debug)]
pub enum Client {}

mod sealed {
    pub trait Sealed: 'static {}

    impl Sealed for super::Server {}
    impl Sealed for super::Client {}
}

impl Side for Server {
    type Connection = UnbufferedServerConnection;

    /// Connections to clients are ended by [`Io::shutdown`](crate::Io::shutdown), or aborted.
    const CLOSES_ON_DROP: bool = false;

    /// Marks cached results of system calls as too old for the request in a client's bytes that have just
    /// arrived.
    #[inline]
    fn received() {
        tidegate_rt::batch_epoch::advance();
    }
}

impl Side for Client {
    type Connection = UnbufferedClientConnection;

    /// Some servers forget sessions that end without close_notify.
    const CLOSES_ON_DROP: bool = true;

    #[inline]
    fn received() {}
}
