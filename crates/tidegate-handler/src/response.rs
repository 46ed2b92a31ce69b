//! The response of a handler.

use std::fs::File;
use std::io;

use bytes::Bytes;
use tidegate_codec::{Headers, Known};

use crate::invalid::InvalidResponse;
use crate::writer::{Collected, Writer};

/// Longest name of a field, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Longest head, in bytes of names and values.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// Fields of the connection, which the server sets.
const CONNECTION_FIELDS: [Known; 6] = [
    Known::Connection,
    Known::KeepAlive,
    Known::TransferEncoding,
    Known::Upgrade,
    Known::Trailer,
    Known::Te,
];

/// Status, fields and a body: bytes, a file, or the output of a function.
pub struct Response {
    status: u16,
    headers: Headers,
    head_bytes: usize,
    content_length: Option<u64>,
    payload: Payload,
    /// The first error in the response.
    error: Option<InvalidResponse>,
}

/// The body of a response.
#[derive(Default)]
pub enum Payload {
    #[default]
    /// There is no body.
    Empty,
    /// The whole body.
    Bytes(Bytes),
    /// This number of bytes of the file.
    File(File, u64),
    /// The output of this function.
    Stream(Write),
}

/// A function that writes a body.
pub(crate) type Write = Box<dyn FnOnce(&mut Writer<'_>) -> io::Result<()> + Send>;

/// A response whose head has been checked.
pub struct Taken {
    /// The status, from 200 to 599 (RFC 9110, section 15).
    pub status: u16,
    /// The fields, whose names and values have been checked.
    pub headers: Headers,
    /// `Content-Length` as set by the handler: for a streamed body, or for one that is left out.
    pub content_length: Option<u64>,
    /// The body.
    pub payload: Payload,
}

impl Response {
    /// Creates a response without fields and body. The status must be from 200 to 599.
    pub fn new(status: u16) -> Response {
        let response = Response {
            status,
            headers: Headers::new(),
            head_bytes: 0,
            content_length: None,
            payload: Payload::Empty,
            error: None,
        };
        response.status(status)
    }

    /// Creates a 200 with a text in UTF-8.
    pub fn text(text: impl Into<Bytes>) -> Response {
        Response::bytes("text/plain; charset=utf-8", text)
    }

    /// Creates a 200 with a page in UTF-8.
    pub fn html(page: impl Into<Bytes>) -> Response {
        Response::bytes("text/html; charset=utf-8", page)
    }

    /// Creates a 200 with a body of this media type. A `Vec`, `Bytes` and static bytes are not copied.
    pub fn bytes(media_type: &str, bytes: impl Into<Bytes>) -> Response {
        let mut response = Response::new(200).header("Content-Type", media_type);
        response.payload = Payload::Bytes(bytes.into());
        response
    }

    /// Creates a 200 with the contents of an open file, from its start. Clients may request ranges of it. It is sent by
    /// `sendfile` where that is possible, and no pool thread waits for the client.
    ///
    /// # Errors
    /// The file's metadata cannot be read, or it is no regular file.
    pub fn file(file: File) -> io::Result<Response> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut response = Response::new(200);
        response.payload = Payload::File(file, metadata.len());
        Ok(response)
    }

    /// Creates a 200 with a body that a function writes while the client reads. The function runs on the same pool
    /// thread, and waits there when the client is slower: a limited amount is buffered in between. Writing fails once
    /// the client has closed the connection. After an error of the function the client sees a broken response.
    pub fn stream(
        write: impl FnOnce(&mut Writer<'_>) -> io::Result<()> + Send + 'static,
    ) -> Response {
        let mut response = Response::new(200);
        response.payload = Payload::Stream(Box::new(write));
        response
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Response {
        self.payload = Payload::Bytes(bytes.into());
        self
    }

    /// Sets the status, from 200 to 599.
    #[must_use]
    pub fn status(mut self, status: u16) -> Response {
        self.status = status;
        if !(200..=599).contains(&status) {
            self.set_error(InvalidResponse::Status(status));
        }
        self
    }

    /// Appends a field; `Content-Type` and `Content-Length` are replaced. A name must be a token and a value must have
    /// no control characters (RFC 9110, sections 5.1 and 5.5). Fields of the connection are the server's own.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Response {
        let (name, value) = (name.as_ref(), value.as_ref());
        let known = Known::of(name);
        self.head_bytes = self.head_bytes.saturating_add(name.len()).saturating_add(value.len());
        if let Some(error) = field_error(name, value, known) {
            self.set_error(error);
        } else if self.head_bytes > HEAD_BYTES_MAX {
            self.set_error(InvalidResponse::HeadTooLong);
        } else if known == Known::ContentLength {
            match str::from_utf8(value).ok().and_then(|text| text.parse().ok()) {
                Some(length) => self.content_length = Some(length),
                None => self.set_error(InvalidResponse::Field(shown(name, value))),
            }
        } else if known == Known::ContentType {
            self.headers.set_known(known, value);
        } else {
            self.headers.push(name, value);
        }
        self
    }

    /// Announces the length of a streamed body in bytes, which then is not sent in chunks. The client sees a shorter
    /// body as broken; a longer one is cut.
    #[must_use]
    pub fn content_length(mut self, length: u64) -> Response {
        self.content_length = Some(length);
        self
    }

    /// Runs the writer of a streamed body and returns the whole body: for tests of handlers.
    ///
    /// # Errors
    /// Those of the writer and of reading a file.
    pub fn into_bytes(self) -> io::Result<Bytes> {
        match self.payload {
            Payload::Empty => Ok(Bytes::new()),
            Payload::Bytes(bytes) => Ok(bytes),
            Payload::File(mut file, _) => {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut file, &mut bytes)?;
                Ok(bytes.into())
            }
            Payload::Stream(write) => {
                let mut collected = Collected::default();
                Writer::run(write, &mut collected)?;
                Ok(collected.0.into())
            }
        }
    }

    /// Checks the response and returns its parts.
    ///
    /// # Errors
    /// The first error in the response.
    pub(crate) fn take(mut self) -> Result<Taken, InvalidResponse> {
        let known = match &self.payload {
            Payload::Bytes(bytes) => Some(bytes.len() as u64),
            Payload::File(_, length) => Some(*length),
            Payload::Empty | Payload::Stream(_) => None,
        };
        if let (Some(known), Some(said)) = (known, self.content_length)
            && known != said
        {
            self.set_error(InvalidResponse::Length { said, known });
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(Taken {
                status: self.status,
                headers: self.headers,
                content_length: self.content_length,
                payload: self.payload,
            }),
        }
    }

    fn set_error(&mut self, error: InvalidResponse) {
        self.error.get_or_insert(error);
    }
}

impl TryFrom<Response> for Taken {
    type Error = InvalidResponse;

    fn try_from(response: Response) -> Result<Taken, InvalidResponse> {
        response.take()
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

fn field_error(name: &[u8], value: &[u8], known: Known) -> Option<InvalidResponse> {
    if CONNECTION_FIELDS.contains(&known) {
        return Some(InvalidResponse::ConnectionField(name.escape_ascii().to_string()));
    }
    let token = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.iter().all(is_token_byte);
    let control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    let valid = token && !value.iter().any(control);
    (!valid).then(|| InvalidResponse::Field(shown(name, value)))
}

/// Returns whether a byte may be in a token (RFC 9110, section 5.6.2).
fn is_token_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Formats a field for the error log, cut where it is long.
fn shown(name: &[u8], value: &[u8]) -> String {
    let cut = |text: &[u8]| text[..text.len().min(100)].escape_ascii().to_string();
    format!("{}: {}", cut(name), cut(value))
}
