//! The input of a fetch.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_core::client::Client;
use tidegate_core::request_body::{RequestBody, StoredBody};

use crate::head::OriginHead;
use crate::peers::{Choice, Group, Peer};
use crate::pool::fit::Fit;
use crate::settings::LocalAddress;
use crate::wire::Wire;
use tidegate_tls::TlsTarget;

/// The data behind the head.
#[derive(Default)]
pub enum RequestPayload {
    #[default]
    /// None; with FastCGI the head contains the end of the body as well.
    None,
    /// A text of the configuration (`proxy_set_body`).
    Bytes(Bytes),
    /// The client's body, read beforehand: it can be sent again.
    Stored(Arc<StoredBody>),
    /// The client's body as it arrives (`proxy_request_buffering off`): it can be sent once.
    Stream {
        /// The body; given back with the response, or with the error.
        body: Box<RequestBody>,
        /// Sent in chunks: the client did not announce a length.
        chunked: bool,
        /// Bytes kept for `$request_body` (`client_body_buffer_size`).
        keep_max: usize,
    },
}

/// Whether a connection is kept behind a response that leaves it usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// It is closed.
    Never,
    /// It is kept for the next request of a burst, and closed soon: the application has few processes, each with one
    /// connection, and other requests wait for them. Only requests that can be sent again use it.
    Briefly,
    /// As the group's `keepalive` says.
    AsGroup,
}

/// A request to an origin with everything needed to send it.
pub struct OriginRequest {
    /// The group of servers.
    pub group: Arc<Group>,
    /// The inputs of their choice.
    pub choice: Choice,
    /// Decides whether the request may be repeated (RFC 9110 section 9.2.2), and whether the response has a body.
    pub method: Method,
    /// The complete head, ready to be sent; with FastCGI all records in front of the body's.
    pub head: OriginHead,
    /// Range of the target in the head's text, for log lines.
    pub target: Range<usize>,
    /// The data behind the head.
    pub payload: RequestPayload,
    /// The local side of a new connection (`proxy_bind`). Boxed: few requests choose one, and all have room for it.
    pub local: Option<Box<LocalAddress>>,
    /// The body will be read at a limited rate (`OriginBody::limit_rate`): no more of it is read with the
    /// head than fits the head's buffer.
    pub paced: bool,
    /// The client of 103 responses (`early_hints`).
    pub interim: Option<Rc<dyn Client>>,
    /// Whether the connection is kept behind the response.
    pub reuse: ConnectionReuse,
    /// The request asks for an upgrade: a 101 response opens a tunnel.
    pub upgrade: bool,
    /// Number of the location, for `keepalive … local`.
    pub location_tag: u64,
    /// TLS settings; `None` is unencrypted.
    pub tls: Option<TlsTarget>,
    /// The protocol of the origin.
    pub wire: Wire,
}

/// Returns `http://127.0.0.1:80/path`.
pub(crate) fn url(scheme: &str, peer: &str, target: Option<&[u8]>) -> String {
    let target = String::from_utf8_lossy(target.unwrap_or_default());
    let colon = if peer.starts_with("unix:") { ":" } else { "" };
    format!("{scheme}://{peer}{colon}{target}")
}

impl OriginRequest {
    /// Makes a request of the server itself, of no client and no location: over HTTP/1, and a connection that is kept as
    /// the group says. `target` is the range of the target in the head's text.
    pub fn own(
        group: Arc<Group>,
        method: Method,
        (head, target): (OriginHead, Range<usize>),
        payload: RequestPayload,
        tls: Option<TlsTarget>,
    ) -> OriginRequest {
        OriginRequest {
            group,
            choice: Choice::default(),
            method,
            head,
            target,
            payload,
            local: None,
            paced: false,
            interim: None,
            reuse: ConnectionReuse::AsGroup,
            upgrade: false,
            location_tag: 0,
            tls,
            wire: Wire::Http,
        }
    }

    /// Returns the target as sent.
    pub fn target_text(&self) -> &[u8] {
        self.head.text().get(self.target.clone()).unwrap_or_default()
    }

    /// Returns the URL on a peer, for log lines: `http://127.0.0.1:80/path`; as in nginx, gRPC's has no path.
    pub(crate) fn url(&self, peer: &str) -> String {
        let is_call = matches!(self.wire, Wire::Http2 { grpc: true });
        let target = Some(self.target_text()).filter(|_| !is_call);
        url(self.wire.scheme(self.tls.is_some()), peer, target)
    }

    /// Returns the properties that a connection to a peer must have to be used again.
    pub(crate) fn fit(&self, peer: &Peer) -> Fit {
        let brief = self.reuse == ConnectionReuse::Briefly;
        let tag = if self.group.keepalive.local && !brief { self.location_tag } else { 0 };
        let wire = self.wire.kind();
        Fit { peer: peer.id, tag, wire, brief, local: self.local.clone(), tls: self.tls.clone() }
    }
}
