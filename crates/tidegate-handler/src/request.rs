//! The request for a handler.

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::Headers;

use crate::abandonment::Abandonment;
use crate::body::RequestBody;

/// A client's request. Texts are bytes: clients may send anything, not only UTF-8.
#[derive(Debug)]
pub struct Request {
    parts: Parts,
    body: RequestBody,
}

/// The server's data of a request.
#[derive(Debug, Default)]
pub struct Parts {
    /// The method as received (RFC 9110, section 9.1).
    pub method: Vec<u8>,
    /// The target as received.
    pub target: Vec<u8>,
    /// The path, decoded and normalised.
    pub path: Vec<u8>,
    /// The text after the question mark, as received; empty without one.
    pub query: Vec<u8>,
    /// The fields in the order received.
    pub headers: Headers,
    /// Names of variables without `$`, and their values.
    pub variables: Vec<(Arc<str>, Option<Vec<u8>>)>,
    /// The address of the client, after `set_real_ip_from`, in text.
    pub client_address: String,
    /// The pieces of a body that is in memory.
    pub body_memory: Vec<Bytes>,
    /// The body and its length, when it is not in memory.
    pub body_file: Option<(Arc<File>, u64)>,
    /// When the handler's time elapses (`timeout=`).
    pub deadline: Option<Instant>,
    /// The signal that the request is abandoned.
    pub abandoned: Arc<Abandonment>,
}

impl Request {
    pub(crate) fn new(mut parts: Parts) -> Request {
        let body = match parts.body_file.take() {
            Some((file, length)) => RequestBody::in_file(file, length),
            None => RequestBody::in_memory(std::mem::take(&mut parts.body_memory)),
        };
        Request { parts, body }
    }

    /// Creates a request without fields and body, for tests of handlers.
    pub fn for_test(method: &str, target: &str) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Request::new(Parts {
            method: method.into(),
            target: target.into(),
            path: path.into(),
            query: query.into(),
            client_address: "127.0.0.1".to_owned(),
            ..Parts::default()
        })
    }

    /// Adds a field, for tests of handlers.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Request {
        self.parts.headers.push(name.as_bytes(), value.as_bytes());
        self
    }

    /// Adds a variable's value, for tests of handlers.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Request {
        self.parts.variables.push((name.into(), Some(value.into())));
        self
    }

    /// Sets the body, for tests of handlers.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Request {
        self.body = RequestBody::in_memory([body.into()]);
        self
    }

    /// Returns the method as received: `GET`, `POST` and so on.
    pub fn method(&self) -> &[u8] {
        &self.parts.method
    }

    /// Returns the target as received (`$request_uri`).
    pub fn target(&self) -> &[u8] {
        &self.parts.target
    }

    /// Returns the path, decoded, normalised and rewritten by the configuration (`$uri`).
    pub fn path(&self) -> &[u8] {
        &self.parts.path
    }

    /// Returns the query without `?`, as received (`$args`).
    pub fn query(&self) -> &[u8] {
        &self.parts.query
    }

    /// Returns the value of the query's first parameter of this name (`$arg_name`), as received.
    pub fn query_parameter(&self, name: &str) -> Option<&[u8]> {
        let parameters = self.parts.query.split(|byte| *byte == b'&');
        parameters
            .into_iter()
            .find_map(|parameter| parameter.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// Returns the value of the first field of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.parts.headers.first_named(name.as_bytes())
    }

    /// Returns names and values of all fields in order, spelled as received.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.parts.headers.iter().map(|(_, name, value)| (name, value))
    }

    /// Returns the value of a variable that the handler has listed ([`crate::Handler::variables`]), if it has one.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        let variables = &self.parts.variables;
        let (_, value) = variables.iter().find(|(known, _)| **known == *name)?;
        value.as_deref()
    }

    /// Returns the client's address (`$remote_addr`).
    pub fn client_address(&self) -> &str {
        &self.parts.client_address
    }

    /// Returns the body, which can be read once.
    pub fn body(&mut self) -> &mut RequestBody {
        &mut self.body
    }

    /// Returns when the server will send a 504 in place of the handler's response (`timeout=`).
    pub fn deadline(&self) -> Option<Instant> {
        self.parts.deadline
    }

    /// Returns whether the response is not needed any more: the client has closed the connection, or the time has
    /// elapsed.
    pub fn is_abandoned(&self) -> bool {
        self.parts.abandoned.is_signalled()
    }

    /// Calls a function once when the response is not needed any more; at once if that is so already. For work that can
    /// be interrupted from outside: the function runs on the server's event loop and must not block.
    pub fn on_abandoned(&self, interrupt: impl FnOnce() + Send + 'static) {
        self.parts.abandoned.listen(Box::new(interrupt));
    }
}

impl From<Parts> for Request {
    fn from(parts: Parts) -> Request {
        Request::new(parts)
    }
}
