//! The client of a request whose connection serves one at a time (HTTP/1). Streams of a shared connection are clients
//! of their own kind.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_codec::Headers;
use tidegate_codec::response::write_status_line;
use tidegate_core::LocalFuture;
use tidegate_core::client::{CancelCode, Client};

use crate::link::Link;

/// What a request has of its connection. Its memory goes from one connection to the next ([`crate::serve::scratch`])
/// unless somebody keeps it longer than the request.
#[derive(Default)]
pub(crate) struct ClientStream {
    /// `None` while it is spare.
    link: RefCell<Option<Rc<Link>>>,
    /// See [`Client::body_bytes`].
    pub body_bytes: Cell<u64>,
}

impl ClientStream {
    /// Makes it that of a request on `link`.
    pub(crate) fn attach(&self, link: Rc<Link>) {
        self.link.replace(Some(link));
        self.body_bytes.set(0);
    }

    /// Lets the connection go: its requests are over.
    pub(crate) fn detach(&self) {
        self.link.replace(None);
    }

    fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }
}

impl Client for ClientStream {
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.link() {
            Some(link) => link.poll_gone(context),
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
            link.write_all(&text).await
        })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        let info = self.link()?.io.stream().tcp_info().ok()?;
        Some([info.rtt, info.rttvar, info.snd_cwnd, info.rcv_space])
    }
}
