//! A request as a handler sees it.

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::Headers;

use crate::abandonment::Abandonment;
use crate::body::RequestBody;

/// One client's request. Texts are bytes: nothing says that what clients send is UTF-8.
#[derive(Debug)]
pub struct Request {
    parts: Parts,
    body: RequestBody,
}

/// What the server knows of a request.
#[derive(Debug, Default)]
pub struct Parts {
    /// As received (RFC 9110, section 9.1).
    pub method: Vec<u8>,
    /// As received.
    pub target: Vec<u8>,
    /// Decoded and normalised.
    pub path: Vec<u8>,
    /// What stands behind the question mark, as received; empty when there is none.
    pub query: Vec<u8>,
    /// The header fields, in the order in which they came.
    pub headers: Headers,
    /// Names without `$`, and the values that they have.
    pub variables: Vec<(Arc<str>, Option<Vec<u8>>)>,
    /// The address of the client, after `set_real_ip_from`, in text.
    pub client_address: String,
    /// The pieces of a body that is in memory.
    pub body_memory: Vec<Bytes>,
    /// The body and its length, when it is not in memory.
    pub body_file: Option<(Arc<File>, u64)>,
    /// When the handler's time is over (`timeout=`).
    pub deadline: Option<Instant>,
    /// Told when nobody waits for the response any more.
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

    /// A request without fields and body, for tests of handlers.
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

    /// The same with a header field, for tests of handlers.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Request {
        self.parts.headers.push(name.as_bytes(), value.as_bytes());
        self
    }

    /// The same with a variable's value, for tests of handlers.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Request {
        self.parts.variables.push((name.into(), Some(value.into())));
        self
    }

    /// The same with a body, for tests of handlers.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Request {
        self.body = RequestBody::in_memory([body.into()]);
        self
    }

    /// `GET`, `POST` and so on, as received.
    pub fn method(&self) -> &[u8] {
        &self.parts.method
    }

    /// The target as received (`$request_uri`).
    pub fn target(&self) -> &[u8] {
        &self.parts.target
    }

    /// The path, decoded, normalised and rewritten as the configuration says (`$uri`).
    pub fn path(&self) -> &[u8] {
        &self.parts.path
    }

    /// The query without `?`, as received (`$args`).
    pub fn query(&self) -> &[u8] {
        &self.parts.query
    }

    /// The value of a parameter of the query (`$arg_name`): the first one of this name, as received.
    pub fn query_parameter(&self, name: &str) -> Option<&[u8]> {
        let parameters = self.parts.query.split(|byte| *byte == b'&');
        parameters
            .into_iter()
            .find_map(|parameter| parameter.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// The first header field of this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.parts.headers.first_named(name.as_bytes())
    }

    /// All header fields in order, spelled as received.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.parts.headers.iter().map(|(_, name, value)| (name, value))
    }

    /// The value of a variable that the handler asked for ([`crate::Handler::variables`]), if it has one.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        let variables = &self.parts.variables;
        let (_, value) = variables.iter().find(|(known, _)| **known == *name)?;
        value.as_deref()
    }

    /// The client's address (`$remote_addr`).
    pub fn client_address(&self) -> &str {
        &self.parts.client_address
    }

    /// The body, which can be read once.
    pub fn body(&mut self) -> &mut RequestBody {
        &mut self.body
    }

    /// When the server will answer 504 in the handler's place (`timeout=`).
    pub fn deadline(&self) -> Option<Instant> {
        self.parts.deadline
    }

    /// Whether nobody waits for the response any more: the client has left, or the time is over.
    pub fn is_abandoned(&self) -> bool {
        self.parts.abandoned.is_told()
    }

    /// Has a function called, once, when nobody waits for the response any more; at once if that is so
    /// already. For what can be interrupted from outside: it runs on the server's loop and must not block.
    pub fn on_abandoned(&self, tell: impl FnOnce() + Send + 'static) {
        self.parts.abandoned.listen(Box::new(tell));
    }
}

impl From<Parts> for Request {
    fn from(parts: Parts) -> Request {
        Request::new(parts)
    }
}
