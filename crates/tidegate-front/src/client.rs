//! The client of a request on a connection that serves one request at a time (HTTP/1). The streams of a shared
//! connection have a client type of their own.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_codec::Headers;
use tidegate_codec::response::write_status_line;
use tidegate_core::LocalFuture;
use tidegate_core::client::{CancelCode, Client};

use crate::link::Link;

/// The longest time for an interim response, as `send_timeout` is by default: a client that does not read keeps no request.
const INTERIM_TIME_MAX: Duration = Duration::from_secs(60);

/// A request's access to its connection. Its memory is reused by other connections ([`crate::serve::scratch`]) unless a
/// reference to it outlives the request.
#[derive(Default)]
pub(crate) struct ClientStream {
    /// `None` while the memory is spare.
    link: RefCell<Option<Rc<Link>>>,
    /// See [`Client::body_bytes`].
    pub body_bytes: Cell<u64>,
}

impl ClientStream {
    /// Attaches it to a request on `link`.
    pub(crate) fn attach(&self, link: Rc<Link>) {
        self.link.replace(Some(link));
        self.body_bytes.set(0);
    }

    /// Releases the connection: its requests have ended.
    pub(crate) fn detach(&self) {
        self.link.replace(None);
    }

    fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }
}

impl Client for ClientStream {
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.link() {
            Some(link) => link.poll_closed(context),
            None => Poll::Ready(()),
        }
    }

    fn cancel(&self, code: CancelCode) {
        if let Some(link) = self.link() {
            link.cancel(code);
        }
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }

    fn send_interim<'a>(
        &'a self,
        status: u16,
        headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let Some(link) = self.link() else { return Err(io::ErrorKind::NotConnected.into()) };
            let mut text = Vec::with_capacity(256);
            write_status_line(status, &mut text);
            headers.write_to(&mut text);
            text.extend_from_slice(b"\r\n");
            let written = link.write_all(&text, INTERIM_TIME_MAX).await;
            if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                // A part of it may have been sent: nothing may follow.
                link.cancel(CancelCode::Close);
            }
            written
        })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        self.link()?.tcp_info()
    }
}
