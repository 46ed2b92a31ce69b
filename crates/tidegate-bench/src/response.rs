//! Reads one HTTP/1.1 response at a time, counting its body (RFC 9112 sections 4 and 6).
//!
//! Only what the compared servers send to the suites' requests is understood: bodies with
//! Content-Length, or up to the end of the connection. Chunked answers are a fault.

use memchr::memmem;

/// What a response head says about the body and the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// `None`: the body ends with the connection.
    pub content_length: Option<u64>,
    /// The server will close the connection after this response.
    pub close: bool,
}

/// Why a response cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    HeadMalformed,
    HeadTooLong,
    TransferEncoding,
    BytesAfterEnd,
    ClosedEarly,
}

/// State of a response after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Partial,
    Complete { status: u16, body_bytes: u64, close: bool },
}

/// Incremental reader; after `Complete` it is ready for the next response.
#[derive(Debug, Default)]
pub struct ResponseReader {
    /// A head that came in pieces.
    pending: Vec<u8>,
    head: Option<Head>,
    body_received: u64,
}

impl ResponseReader {
    /// Takes the bytes of one read.
    ///
    /// # Errors
    /// A malformed head, or bytes past the response's end (nothing was asked for them).
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Fault> {
        if self.head.is_some() {
            return self.feed_body(bytes.len() as u64);
        }
        let parsed = if self.pending.is_empty() {
            parse_head(bytes)?
        } else {
            self.pending.extend_from_slice(bytes);
            parse_head(&self.pending)?
        };
        let Some((head, head_bytes)) = parsed else {
            if self.pending.is_empty() {
                self.pending.extend_from_slice(bytes);
            }
            return Ok(Progress::Partial);
        };
        let available = if self.pending.is_empty() { bytes.len() } else { self.pending.len() };
        self.pending.clear();
        self.head = Some(head);
        self.feed_body((available - head_bytes) as u64)
    }

    /// The connection ended: completes a body that is delimited by that.
    ///
    /// # Errors
    /// `ClosedEarly` when more was announced.
    pub fn end(&mut self) -> Result<Progress, Fault> {
        match self.head {
            Some(head) if head.content_length.is_none() => Ok(self.complete(head)),
            _ => Err(Fault::ClosedEarly),
        }
    }

    /// Body bytes of the response in progress.
    pub fn body_received(&self) -> u64 {
        self.body_received
    }

    fn feed_body(&mut self, count: u64) -> Result<Progress, Fault> {
        let Some(head) = self.head else { return Ok(Progress::Partial) };
        self.body_received += count;
        match head.content_length {
            Some(length) if self.body_received > length => Err(Fault::BytesAfterEnd),
            Some(length) if self.body_received == length => Ok(self.complete(head)),
            _ => Ok(Progress::Partial),
        }
    }

    fn complete(&mut self, head: Head) -> Progress {
        let body_bytes = std::mem::take(&mut self.body_received);
        self.head = None;
        let close = head.close || head.content_length.is_none();
        Progress::Complete { status: head.status, body_bytes, close }
    }
}

/// Reads a head when it is whole: the head and its length in bytes, or `None` for "more".
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Fault> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(Fault::HeadTooLong) } else { Ok(None) };
    };
    // "HTTP/1.1 200": the status is at a fixed place (RFC 9112 section 4).
    if end < 12 || !bytes.starts_with(b"HTTP/1.") {
        return Err(Fault::HeadMalformed);
    }
    let status = decimal(&bytes[9..12]).and_then(|status| u16::try_from(status).ok());
    let status = status.ok_or(Fault::HeadMalformed)?;
    let mut head = Head { status, content_length: None, close: bytes[7] == b'0' };
    let mut line_start = memmem::find(&bytes[..end + 2], b"\r\n").map_or(end + 2, |at| at + 2);
    while line_start < end {
        let line_end =
            memchr::memchr(b'\r', &bytes[line_start..end]).map_or(end, |n| line_start + n);
        read_field(&bytes[line_start..line_end], &mut head)?;
        line_start = line_end + 2;
    }
    if status == 204 || status == 304 {
        head.content_length = Some(0);
    }
    Ok(Some((head, end + 4)))
}

fn read_field(line: &[u8], head: &mut Head) -> Result<(), Fault> {
    // Names that matter begin with C or T; the others are skipped without a comparison.
    if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
        return Ok(());
    }
    let Some(colon) = memchr::memchr(b':', line) else { return Err(Fault::HeadMalformed) };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        head.content_length = Some(decimal(value).ok_or(Fault::HeadMalformed)?);
    } else if name.eq_ignore_ascii_case(b"connection") {
        head.close = value.eq_ignore_ascii_case(b"close");
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        return Err(Fault::TransferEncoding);
    }
    Ok(())
}

/// A decimal number of digits only.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// No server of the suites sends a longer head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
