//! The two sides of TLS, as types: the library has a session type for each.

use tidegate_rt::net::Stream;
use tidegate_rt::sync::{AsyncBufRead, AsyncWrite, StreamIo};
use tokio_rustls::rustls::ConnectionCommon;
use tokio_rustls::{client, server};

/// One side of TLS: [`Server`] or [`Client`]. There are no others. It is a parameter of [`Io`](crate::Io) and
/// [`TlsStream`](crate::TlsStream), which both sides share; the types have no values.
pub trait Side: sealed::Sealed {
    /// The library's session over a socket.
    type Session: AsyncBufRead + AsyncWrite + Unpin;

    /// Called when a read of the peer's bytes has been tried, plain or encrypted.
    fn received();

    /// Returns whether a read would return something without a system call: decrypted bytes, the end, or an
    /// error.
    fn is_read_ready(session: &mut Self::Session) -> bool;

    /// Ends a session whose stream is dropped, without waiting.
    fn drop_session(session: &mut Self::Session, stream: &Stream);
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
    type Session = server::TlsStream<StreamIo>;

    /// Marks cached results of system calls as too old for the request in a client's bytes that have just
    /// arrived.
    #[inline]
    fn received() {
        tidegate_rt::batch_epoch::advance();
    }

    fn is_read_ready(session: &mut Self::Session) -> bool {
        is_read_ready(session.get_mut().1)
    }

    /// Does nothing: connections to clients are ended by [`Io::shutdown`](crate::Io::shutdown), or aborted.
    fn drop_session(_: &mut Self::Session, _: &Stream) {}
}

impl Side for Client {
    type Session = client::TlsStream<StreamIo>;

    #[inline]
    fn received() {}

    fn is_read_ready(session: &mut Self::Session) -> bool {
        is_read_ready(session.get_mut().1)
    }

    /// Sends close_notify as far as the origin's window has room: some servers forget sessions that end
    /// without it.
    fn drop_session(session: &mut Self::Session, stream: &Stream) {
        let connection = session.get_mut().1;
        connection.send_close_notify();
        let mut last = Vec::new();
        while connection.wants_write() {
            if connection.write_tls(&mut last).is_err() {
                return;
            }
        }
        let _ = stream.try_write(&last);
    }
}

fn is_read_ready<Data>(connection: &mut ConnectionCommon<Data>) -> bool {
    match connection.process_new_packets() {
        Ok(state) => state.plaintext_bytes_to_read() > 0 || state.peer_has_closed(),
        Err(_) => true,
    }
}
