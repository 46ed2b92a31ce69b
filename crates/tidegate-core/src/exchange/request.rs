//! The client's request as the phases see and change it.

use std::rc::Rc;

use tidegate_codec::Known;
use tidegate_codec::request::{Method, RequestHead, TargetForm, Version};

use super::recycle::recycled;
use crate::client::ClientAddress;
use crate::request_body::RequestBody;

/// The request of a client.
#[derive(Default)]
pub struct Request {
    /// The head as received, with its fields.
    pub head: RequestHead,
    /// The method; after an internal redirect to an error page it may differ from the received one.
    pub method: Method,
    /// Decoded and normalised path: `$uri`.
    pub path: Vec<u8>,
    /// Query without `?`: `$args`.
    pub args: Vec<u8>,
    /// The origin of path and args.
    pub source: PathSource,
    /// Lower-cased host without port, from the target or the `Host` field; empty without both.
    pub host: Vec<u8>,
    /// The body, pulled or stored.
    pub body: RequestBody,
    /// Whether the client waits for `100 Continue` before it sends its body. A boolean: RFC 9110 section 10.1.1 defines
    /// no other expectation.
    pub expects_continue: bool,
    /// The client's address where it differs from the connection's (`realip`, `*_cache_peers`), see
    /// [`Exchange::client_address`](super::Exchange::client_address).
    pub real_client_address: Option<Rc<ClientAddress>>,
    /// The client came by TLS to the server that has passed the request on (`*_cache_peers`).
    pub came_by_tls: bool,
    /// `$request_id`, once it has been made.
    pub id: Option<Box<str>>,
}

/// The origin of a request's path and args.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathSource {
    /// A rewrite, `set $args`, an internal redirect or a subrequest; also before there is a path.
    #[default]
    Server,
    /// The received target, decoded.
    Target,
}

recycled!(Request:
    keeps { head, path, args, host }
    renews { method, source, body, expects_continue, real_client_address, came_by_tls, id }
);

impl Request {
    /// Makes it the GET of an internal redirect, without a body that is spent; HEAD stays.
    pub fn become_get(&mut self) {
        if self.method != Method::Head {
            self.method = Method::Get;
            self.body.forget_spent();
        }
    }

    /// Returns the first value of a field.
    pub fn header(&self, known: Known) -> Option<&[u8]> {
        self.head.headers.first(known)
    }

    /// Returns the protocol version of the request.
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// Returns `$request_uri`: the target as received, without scheme and authority of an absolute one.
    pub fn target(&self) -> &[u8] {
        match self.head.form {
            TargetForm::Absolute => self.head.path_and_args(),
            // A CONNECT request has no path (RFC 9112 section 3.2.3); nginx shows this one.
            TargetForm::Authority => b"/",
            _ => self.head.target(),
        }
    }

    /// Returns `$request_id`, which is made at the first call.
    pub fn made_id(&mut self) -> &str {
        self.id.get_or_insert_with(|| {
            let id = tidegate_rt::random::request_id();
            String::from_utf8_lossy(&id).into_owned().into_boxed_str()
        })
    }

    /// Replaces path and, if given, args.
    pub(super) fn set_path(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        self.path = path;
        self.source = PathSource::Server;
        if let Some(args) = args {
            self.args = args;
        }
    }

    /// Copies the request for another exchange; of the body, only a stored one is shared.
    pub(crate) fn fork(&self) -> Request {
        let mut body = RequestBody::default();
        if let Some(stored) = self.body.stored() {
            body.set_stored(stored.clone());
        }
        Request {
            head: self.head.clone(),
            method: self.method,
            path: self.path.clone(),
            args: self.args.clone(),
            source: self.source,
            host: self.host.clone(),
            body,
            expects_continue: self.expects_continue,
            real_client_address: self.real_client_address.clone(),
            came_by_tls: self.came_by_tls,
            id: self.id.clone(),
        }
    }
}
