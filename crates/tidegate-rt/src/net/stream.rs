//! A connection, TCP or Unix.
//!
//! All calls take `&self`, so that one task can read while another writes; at most one task may read (through the
//! `poll_` functions and what is built on them) and one may write.
//!
//! The event loop watches a connection from the first time that a task has to wait for it; before that, reads and
//! writes ask the kernel directly. So a connection whose reads and writes follow the reports of an `IdlePoller` costs
//! the event loop nothing.
//!
//! Readiness is edge-triggered. A read or write that moved fewer bytes than it could have means that the kernel's queue
//! is empty or full now (epoll(7), "Questions and answers", 9), so the readiness is cleared at once: the next attempt
//! waits without asking the kernel in vain.

use std::cell::{Cell, Ref, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::task::{Context, Poll, ready};

use tidegate_os::{
    Acceptance, AsFile, BorrowedSocket, ConnectOptions, Keepalive, ListenAddr, OwnedSocket,
    PeerAddr, TcpInfo, connect, pacing, sendfile, socket,
};
use tokio::io::Interest;

use super::watched::{self, Watch, WatchGuard};
use super::write_part::{PIECES_MAX, WRITE_CHUNK, first_part};
use crate::share;

/// Bytes given to one sendfile call: a fast client must not keep the event loop from the others (nginx's default of
/// `sendfile_max_chunk`).
pub const SENDFILE_CHUNK: u64 = 2 * 1024 * 1024;

/// A connection, TCP or Unix.
///
/// | `watch` | `ask_read`, `ask_write` | the next read or write |
/// |---|---|---|
/// | none | yes | asks the kernel; if it would have to wait the watch begins |
/// | none | no | the kernel has refused, and the watch could not begin: it is tried again |
/// | some | yes | asks the kernel once: the other direction began the watch, whose first event may not have arrived yet |
/// | some | no | waits until the event loop reports readiness, which a refusal or a short result ends |
///
/// Dropped at an await, `readable`, `writable`, `read`, `read_append` and `peer_closed` have taken nothing;
/// `write_all`, `write_vectored_all` and `sendfile` may have sent a part, of which `sendfile` keeps count in `offset`.
#[derive(Debug)]
pub struct Stream {
    /// Exists once a task has had to wait. Before `fd`, so that it is dropped before that closes.
    watch: RefCell<Option<Watch>>,
    /// The kernel is asked without waiting for an event: nothing is watched yet, or the watch has just begun.
    ask_read: Cell<bool>,
    ask_write: Cell<bool>,
    /// A Unix socket, which has no TCP options.
    unix: bool,
    fd: OwnedSocket,
}

impl Stream {
    /// Takes over a connected socket.
    ///
    /// # Errors
    /// The socket is not connected.
    pub fn from_fd(fd: OwnedSocket) -> io::Result<Stream> {
        socket::set_nonblocking(&fd, true)?;
        let peer = socket::peer_addr(&fd)?;
        Ok(Stream::of(fd, peer == PeerAddr::Unix))
    }

    /// Takes over a socket from `tidegate_os::listen::accept_nonblocking`: returns the connection and its peer.
    pub fn from_accepted((fd, peer): Acceptance) -> (Stream, PeerAddr) {
        (Stream::of(fd, peer == PeerAddr::Unix), peer)
    }

    fn of(fd: OwnedSocket, unix: bool) -> Stream {
        let (ask_read, ask_write) = (Cell::new(true), Cell::new(true));
        Stream { watch: RefCell::new(None), ask_read, ask_write, unix, fd }
    }

    /// Connects. A time limit is the caller's task: see `timer::timeout`. Dropped at its await it closes the socket.
    ///
    /// # Errors
    /// Refused, unreachable, no local address, no descriptors left.
    pub async fn connect(address: &ListenAddr, options: &ConnectOptions) -> io::Result<Stream> {
        let (fd, connected) = connect::connect_nonblocking(address, options)?;
        let stream = Stream::of(fd, matches!(address, ListenAddr::Unix(_)));
        // The caller will wait for its response sooner or later.
        stream.watch()?;
        stream.ask_read.set(false);
        if !connected {
            stream.writable().await?;
            if let Some(error) = socket::take_error(stream.socket())? {
                return Err(error);
            }
        }
        Ok(stream)
    }

    /// Makes a connected pair within this process.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (left, right) = socket::socketpair()?;
        Ok((Stream::from_fd(left)?, Stream::from_fd(right)?))
    }

    /// Ends the event loop's watch; it begins again when a task has to wait. For connections that are added to an
    /// `IdlePoller`. Does nothing while a task waits in [`Stream::readable`] or a similar call.
    pub fn unwatch(&self) {
        if let Ok(mut watch) = self.watch.try_borrow_mut() {
            *watch = None;
            self.ask_read.set(true);
            self.ask_write.set(true);
        }
    }

    /// Whether a task has had to wait for it since the last [`Stream::unwatch`].
    pub fn is_watched(&self) -> bool {
        self.watch.borrow().is_some()
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// Those of getpeername: the connection has ended.
    pub fn peer_addr(&self) -> io::Result<PeerAddr> {
        socket::peer_addr(self.socket())
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Those of getsockname.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        socket::local_addr(self.socket())
    }

    /// Reads the bytes that have arrived; 0 is the end of the stream (or an empty buffer).
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        self.poll_read_with(context, room, |fd| socket::read(fd, buffer))
    }

    /// Reads into a vector's spare capacity and lengthens it; 0 is the end of the stream (or a vector without spare
    /// capacity).
    pub fn poll_read_append(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let room = buffer.capacity() - buffer.len();
        self.poll_read_with(context, room, |fd| socket::read_append(fd, buffer))
    }

    /// As [`Stream::poll_read_append`], into a buffer that is made if there is none, and not before bytes may have
    /// arrived: a waiting connection needs none. `make` returns a buffer with room for `room` bytes.
    pub fn poll_read_fresh(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Option<Vec<u8>>,
        room: usize,
        make: fn() -> Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.poll_read_with(context, room, |socket| {
            socket::read_append(socket, buffer.get_or_insert_with(make))
        })
    }

    /// Writes as much as the send buffer takes, up to 512 KiB.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = bytes.get(..WRITE_CHUNK).unwrap_or(bytes);
        self.poll_write_with(context, bytes.len(), |fd| socket::write(fd, bytes))
    }

    /// Writes several pieces with one call, as much as the send buffer takes, up to 512 KiB.
    pub fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if length <= WRITE_CHUNK {
            return self.poll_write_with(context, length, |fd| socket::write_vectored(fd, pieces));
        }
        let mut room = [IoSlice::new(&[]); PIECES_MAX];
        let (part, length) = first_part(pieces, &mut room);
        self.poll_write_with(context, length, |fd| socket::write_vectored(fd, part))
    }

    /// Sends a piece of a file without copying it, as much as the send buffer takes; 0 means that
    /// the file ends before `offset`.
    pub fn poll_sendfile(
        &self,
        context: &mut Context<'_>,
        file: impl AsFile,
        offset: u64,
        length: u64,
    ) -> Poll<io::Result<usize>> {
        let chunk = usize::try_from(length.min(SENDFILE_CHUNK)).unwrap_or(usize::MAX);
        // The end of the file also makes a short result: only a refusal clears the readiness.
        self.poll_write_with(context, 0, |fd| sendfile::sendfile(fd, &file, offset, chunk))
    }

    /// Reads if bytes are known to have arrived.
    ///
    /// # Errors
    /// `WouldBlock` when none are known; wait with [`Stream::readable`].
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_io(Interest::READABLE, || socket::read(self.socket(), buffer))
    }

    /// As [`Stream::poll_read_append`], but neither waits nor remembers that nothing was there: for sockets that an
    /// `IdlePoller` reports.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has arrived, else the connection's error.
    pub fn read_arrived(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        socket::read_append(self.socket(), buffer)
    }

    /// Writes if room is known to exist.
    ///
    /// # Errors
    /// `WouldBlock` when none is known; wait with [`Stream::writable`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || socket::write(self.socket(), bytes))
    }

    /// Writes several pieces if room is known to exist.
    ///
    /// # Errors
    /// As [`Stream::try_write`].
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || socket::write_vectored(self.socket(), pieces))
    }

    /// Waits until a read would not wait. Any number of tasks may do so.
    ///
    /// # Errors
    /// The event loop is ending.
    // While a task waits the watch must stay: `unwatch` does not end a borrowed one.
    #[allow(clippy::await_holding_refcell_ref)]
    pub async fn readable(&self) -> io::Result<()> {
        share::wait().await;
        self.watch()?.readable().await.map(drop)
    }

    /// Waits until a write would not wait. Any number of tasks may do so.
    ///
    /// # Errors
    /// The event loop is ending.
    // While a task waits the watch must stay: `unwatch` does not end a borrowed one.
    #[allow(clippy::await_holding_refcell_ref)]
    pub async fn writable(&self) -> io::Result<()> {
        share::wait().await;
        self.watch()?.writable().await.map(drop)
    }

    /// Reads at least one byte; 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection's error.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, buffer)).await
    }

    /// Reads at least one byte into a vector's spare capacity; 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection's error.
    pub async fn read_append(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        poll_fn(|context| self.poll_read_append(context, buffer)).await
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// The connection's error; a part may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.poll_write(context, bytes)).await?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes all pieces, with one call as long as the send buffer takes them. The slices are advanced.
    ///
    /// # Errors
    /// The connection's error; a part may have been written.
    pub async fn write_vectored_all(&self, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let written = poll_fn(|context| self.poll_write_vectored(context, pieces)).await?;
            IoSlice::advance_slices(&mut pieces, written);
        }
        Ok(())
    }

    /// Sends `length` bytes of a file from `*offset` on, and advances it. Returns the bytes sent: fewer when the file
    /// ends early.
    ///
    /// # Errors
    /// The connection's or the disk's error; `*offset` has been advanced by the bytes sent.
    pub async fn sendfile(
        &self,
        file: impl AsFile,
        offset: &mut u64,
        length: u64,
    ) -> io::Result<u64> {
        let file = &file;
        let end = offset.saturating_add(length);
        let start = *offset;
        while *offset < end {
            let (at, rest) = (*offset, end - *offset);
            match poll_fn(|context| self.poll_sendfile(context, file, at, rest)).await? {
                0 => break,
                sent => *offset += sent as u64,
            }
        }
        Ok(*offset - start)
    }

    /// Ready when a read would not wait; for the task that reads.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(share::poll(context));
        self.watch()?.poll_read_ready(context).map_ok(drop)
    }

    /// Writes if room is known to exist, and announces to the kernel that more follows at once (MSG_MORE), so that a
    /// head is sent in one packet with its file.
    ///
    /// # Errors
    /// As [`Stream::try_write`].
    pub fn try_write_more(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || socket::write_more(self.socket(), bytes))
    }

    /// Waits until the peer closes its sending side or the connection breaks, even behind bytes that have not been
    /// read. Costs no system call, and does not disturb readers.
    // While a task waits the watch must stay: `unwatch` does not end a borrowed one.
    #[allow(clippy::await_holding_refcell_ref)]
    pub async fn peer_closed(&self) {
        if let Ok(watch) = self.watch() {
            watched::closed(&watch).await;
        }
    }

    /// Closes this side for sending.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn shutdown_write(&self) -> io::Result<()> {
        socket::shutdown_write(self.socket())
    }

    /// See `tidegate_os::socket::set_nodelay`; does nothing on Unix sockets.
    ///
    /// # Errors
    /// Those of setsockopt.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        if self.unix { Ok(()) } else { socket::set_nodelay(self.socket(), on) }
    }

    /// Turns off pacing for a local connection; see `tidegate_os::pacing::disable_if_local`.
    pub fn disable_local_pacing(&self, peer: IpAddr, local: IpAddr) {
        pacing::disable_if_local(self.socket(), peer, Some(local));
    }

    /// See `tidegate_os::socket::set_keepalive`; does nothing on Unix sockets.
    ///
    /// # Errors
    /// Those of setsockopt.
    pub fn set_keepalive(&self, keepalive: &Keepalive) -> io::Result<()> {
        if self.unix { Ok(()) } else { socket::set_keepalive(self.socket(), keepalive) }
    }

    /// Makes the following close send RST.
    ///
    /// # Errors
    /// Those of setsockopt.
    pub fn set_linger_reset(&self) -> io::Result<()> {
        socket::set_linger_reset(self.socket())
    }

    /// Whether an idle connection must not be used again; see `tidegate_os::socket::peek_closed`.
    pub fn peek_closed(&self) -> bool {
        socket::peek_closed(self.socket())
    }

    /// Returns the figures for `$tcpinfo_*`.
    ///
    /// # Errors
    /// A Unix socket.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        socket::tcp_info(self.socket())
    }

    /// Returns the socket, for calls that do not wait.
    pub fn socket(&self) -> BorrowedSocket<'_> {
        socket::borrow(&self.fd)
    }

    /// Returns the event loop's watch, and begins it if there is none.
    fn watch(&self) -> io::Result<Ref<'_, Watch>> {
        loop {
            if let Ok(watch) = Ref::filter_map(self.watch.borrow(), Option::as_ref) {
                return Ok(watch);
            }
            *self.watch.borrow_mut() = Some(watched::watch(&self.fd)?);
        }
    }

    fn try_io<T>(
        &self,
        interest: Interest,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        match &*self.watch.borrow() {
            Some(watch) => watch.try_io(interest, |_| call()),
            None => call(),
        }
    }

    fn poll_read_with(
        &self,
        context: &mut Context<'_>,
        room: usize,
        read: impl FnMut(BorrowedSocket<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, &self.ask_read, Watch::poll_read_ready, room, read)
    }

    fn poll_write_with(
        &self,
        context: &mut Context<'_>,
        wanted: usize,
        write: impl FnMut(BorrowedSocket<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, &self.ask_write, Watch::poll_write_ready, wanted, write)
    }

    /// Makes one direction's call, which could move `wanted` bytes: at once where the kernel is to be asked, else when
    /// the event loop has reported readiness.
    #[inline]
    fn poll_with(
        &self,
        context: &mut Context<'_>,
        ask: &Cell<bool>,
        poll_ready: for<'w> fn(&'w Watch, &mut Context<'_>) -> Poll<io::Result<WatchGuard<'w>>>,
        wanted: usize,
        mut call: impl FnMut(BorrowedSocket<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        ready!(share::poll(context));
        if ask.get() {
            ask.set(self.watch.borrow().is_none());
            match call(self.socket()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ask.set(false),
                result => {
                    share::spend(result.as_ref().map_or(0, |count| *count));
                    return Poll::Ready(result);
                }
            }
        }
        let watch = self.watch()?;
        loop {
            let mut guard = ready!(poll_ready(&watch, context))?;
            match call(self.socket()) {
                Ok(length) => {
                    if 0 < length && length < wanted {
                        guard.clear_ready();
                    }
                    share::spend(length);
                    return Poll::Ready(Ok(length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
