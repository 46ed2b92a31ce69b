//! What a fetch takes.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_core::client::Client;
use tidegate_core::request_body::{RequestBody, StoredBody};

use crate::peers::{Choice, Group, Peer};
use crate::pool::fit::Fit;
use crate::settings::LocalAddress;
use crate::wire::Wire;
use tidegate_tls::TlsTarget;

/// What is sent behind the head.
#[derive(Default)]
pub enum RequestPayload {
    #[default]
    /// Nothing; with FastCGI the head has the end of the body as well.
    None,
    /// A text of the configuration (`proxy_set_body`).
    Bytes(Bytes),
    /// The client's body, read beforehand: it can be sent again.
    Stored(Arc<StoredBody>),
    /// The client's body as it comes (`proxy_request_buffering off`): it can be sent once.
    Stream {
        /// It goes back with the response, or with the error.
        body: Box<RequestBody>,
        /// Sent in chunks: the client did not give a length.
        chunked: bool,
        /// Bytes kept for `$request_body` (`client_body_buffer_size`).
        keep_max: usize,
    },
}

/// What becomes of a connection behind an answer that leaves it usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is closed.
    Never,
    /// It is kept for the next request of a busy moment, and soon given up: whoever answers has few
    /// processes, each with one connection, and others wait for them. Only requests that can be sent
    /// again use it.
    Briefly,
    /// As the group says (`keepalive`).
    AsGroup,
}

/// A request to an origin with everything that sending it takes.
pub struct OriginRequest {
    /// Whose servers are asked.
    pub group: Arc<Group>,
    /// What their choice depends on.
    pub choice: Choice,
    /// Decides whether the request may be repeated (RFC 9110 section 9.2.2), and whether the response has a body.
    pub method: Method,
    /// The whole head, ready to be sent; with FastCGI all records in front of the body's.
    pub head: Vec<u8>,
    /// Where in `head` the target is, for log lines.
    pub target: Range<usize>,
    /// What is sent behind the head.
    pub payload: RequestPayload,
    /// The local side of a new connection (`proxy_bind`).
    pub local: Option<LocalAddress>,
    /// The body will be read at a limited rate (`OriginBody::limit_rate`): no more of it is read with the
    /// head than fits the head's buffer.
    pub paced: bool,
    /// Gets 103 responses (`early_hints`).
    pub interim: Option<Rc<dyn Client>>,
    /// What becomes of the connection behind the answer.
    pub keeping: Keeping,
    /// The request asks for an upgrade: a 101 answer opens a tunnel.
    pub upgrade: bool,
    /// Number of the location, for `keepalive … local`.
    pub location_tag: u64,
    /// `None` is unencrypted.
    pub tls: Option<TlsTarget>,
    /// The language that the origin speaks.
    pub wire: Wire,
}

/// `http://127.0.0.1:80/path`.
pub(crate) fn url(scheme: &str, peer: &str, target: Option<&[u8]>) -> String {
    let target = String::from_utf8_lossy(target.unwrap_or_default());
    let colon = if peer.starts_with("unix:") { ":" } else { "" };
    format!("{scheme}://{peer}{colon}{target}")
}

impl OriginRequest {
    /// The target as sent.
    pub fn target_text(&self) -> &[u8] {
        self.head.get(self.target.clone()).unwrap_or_default()
    }

    /// What is asked of a peer, for log lines: `http://127.0.0.1:80/path`.
    pub(crate) fn url(&self, peer: &str) -> String {
        url(self.wire.scheme(self.tls.is_some()), peer, Some(self.target_text()))
    }

    /// What a connection to a peer must fit to be used again.
    pub(crate) fn fit(&self, peer: &Peer) -> Fit {
        let brief = self.keeping == Keeping::Briefly;
        let tag = if self.group.keepalive.local && !brief { self.location_tag } else { 0 };
        let wire = self.wire.kind();
        Fit { peer: peer.id, tag, wire, brief, local: self.local, tls: self.tls.clone() }
    }
}
