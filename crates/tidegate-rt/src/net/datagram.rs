//! A UDP socket on the event loop: DNS, syslog, `listen … udp`.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use tidegate_os::{
    BorrowedSocket, ConnectOptions, ListenAddr, ListenOptions, OwnedSocket, Transport, connect,
    datagram, listen, socket,
};
use tokio::io::Interest;

use super::watched::{Watched, watched};
use crate::share;

/// A datagram socket, bound or connected. One task receives and one sends.
#[derive(Debug)]
pub struct Datagram {
    io: Watched,
}

impl Datagram {
    /// Opens a socket bound to an address; `options.transport` is ignored.
    ///
    /// # Errors
    /// Those of bind and setsockopt.
    pub fn bind(address: &ListenAddr, options: &ListenOptions) -> io::Result<Datagram> {
        let options = ListenOptions { transport: Transport::Datagram, ..options.clone() };
        Datagram::from_fd(listen::listen_socket(address, &options)?)
    }

    /// Opens a socket that exchanges datagrams with one peer; `options.transport` is ignored.
    ///
    /// # Errors
    /// Those of connect.
    pub fn connect(address: &ListenAddr, options: &ConnectOptions) -> io::Result<Datagram> {
        let options = ConnectOptions { transport: Transport::Datagram, ..options.clone() };
        Datagram::from_fd(connect::connect_nonblocking(address, &options)?.0)
    }

    /// Takes over a socket.
    ///
    /// # Errors
    /// The event loop cannot watch it.
    pub fn from_fd(fd: OwnedSocket) -> io::Result<Datagram> {
        socket::set_nonblocking(&fd, true)?;
        Ok(Datagram { io: watched(fd, Interest::READABLE | Interest::WRITABLE)? })
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Those of getsockname.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        socket::local_addr(self.socket())
    }

    /// Receives one datagram, cut to the buffer, and its sender where it has an address. Dropped at an await it has
    /// taken none.
    ///
    /// # Errors
    /// `ConnectionRefused` when a connected peer's port is closed.
    pub async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
        share::wait().await;
        loop {
            // An ICMP error ("port unreachable") makes the socket fail, but not readable.
            let mut guard = self.io.ready(Interest::READABLE | Interest::ERROR).await?;
            match socket::receive_from(self.socket(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                other => return spent(other),
            }
        }
    }

    /// As [`Datagram::receive_from`], with the local address that it was sent to, if [`Datagram::set_packet_info`]
    /// enabled that.
    ///
    /// # Errors
    /// As [`Datagram::receive_from`].
    pub async fn receive_with_local(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<SocketAddr>, Option<IpAddr>)> {
        share::wait().await;
        loop {
            let mut guard = self.io.ready(Interest::READABLE | Interest::ERROR).await?;
            match datagram::receive_with_local(self.socket(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                other => return spent(other),
            }
        }
    }

    /// Enables local addresses with datagrams: for sockets that are bound to all of them.
    ///
    /// # Errors
    /// Those of setsockopt.
    pub fn set_packet_info(&self, is_ipv6: bool) -> io::Result<()> {
        datagram::set_packet_info(self.socket(), is_ipv6)
    }

    /// Sends one datagram from a local address if that is possible at once. Returns the bytes sent.
    ///
    /// # Errors
    /// As [`Datagram::try_send`].
    pub fn try_send_from(&self, bytes: &[u8], to: &SocketAddr, from: IpAddr) -> io::Result<usize> {
        spent(datagram::send_from(self.socket(), bytes, to, from))
    }

    /// Receives one datagram, cut to the buffer, for hand-written futures.
    ///
    /// # Errors
    /// As [`Datagram::receive_from`].
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        ready!(share::poll(context));
        loop {
            let mut guard = ready!(self.io.poll_read_ready(context))?;
            match socket::receive_from(self.socket(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                other => return Poll::Ready(spent(other).map(|(length, _)| length)),
            }
        }
    }

    /// Waits for an error that belongs to no call: the peer's port is closed. Dropped at its await it has taken none.
    pub async fn failed(&self) -> io::Error {
        loop {
            let mut guard = match self.io.ready(Interest::ERROR).await {
                Ok(guard) => guard,
                Err(error) => return error,
            };
            match socket::take_error(self.socket()) {
                Ok(None) => guard.clear_ready(),
                Ok(Some(error)) | Err(error) => return error,
            }
        }
    }

    /// Sends one datagram: to an address, or to the connected peer. Dropped at its await it has sent none.
    ///
    /// # Errors
    /// Too large, unreachable, refused.
    pub async fn send(&self, bytes: &[u8], to: Option<&SocketAddr>) -> io::Result<usize> {
        poll_fn(|context| self.poll_send(context, bytes, to)).await
    }

    /// Sends one datagram if that is possible at once.
    ///
    /// # Errors
    /// `WouldBlock` when the send buffer is full; else as [`Datagram::send`].
    pub fn try_send(&self, bytes: &[u8], to: Option<&SocketAddr>) -> io::Result<usize> {
        spent(match to {
            Some(address) => socket::send_to(self.socket(), bytes, address),
            None => socket::write(self.socket(), bytes),
        })
    }

    /// As [`Datagram::send`], for hand-written futures.
    pub fn poll_send(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
        to: Option<&SocketAddr>,
    ) -> Poll<io::Result<usize>> {
        ready!(share::poll(context));
        loop {
            // Tried at once: a socket mostly has room for a datagram, but its first event is one poll of the event loop
            // away.
            match self.try_send(bytes, to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.io.poll_write_ready(context))?.clear_ready();
                }
                other => return Poll::Ready(other),
            }
        }
    }

    fn socket(&self) -> BorrowedSocket<'_> {
        socket::borrow(self.io.get_ref())
    }
}

/// Counts a datagram as a call, whatever its size.
fn spent<T>(result: T) -> T {
    share::spend(0);
    result
}
