//! Reads one HTTP/1.1 response at a time, counting its body (RFC 9112 sections 4, 6 and 7).
//!
//! Only the responses of the compared servers are supported: bodies with
//! Content-Length, chunked, or up to the end of the connection.

use memchr::memmem;

use chunked::Chunked;

mod chunked;

/// The framing of a response's body, and the end of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub status: u16,
    pub framing: Framing,
    /// The server will close the connection after this response.
    pub close: bool,
    /// `X-Cache: HIT`, which the suites' configurations add from $upstream_cache_status.
    pub hit: bool,
}

/// The framing of a body (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// The body ends with the connection.
    UntilEnd,
}

/// The reason why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    HeadMalformed,
    HeadTooLong,
    /// A coding other than chunked.
    TransferEncoding,
    ChunkMalformed,
    BytesAfterEnd,
    ClosedEarly,
}

/// State of a response after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Partial,
    /// `body_bytes` is the decoded length.
    Complete {
        status: u16,
        body_bytes: u64,
        close: bool,
        hit: bool,
    },
}

/// Incremental reader; after `Complete` it is ready for the next response.
#[derive(Debug, Default)]
pub(crate) struct ResponseReader {
    /// The received part of an incomplete head.
    pending: Vec<u8>,
    head: Option<Head>,
    chunked: Chunked,
    body_received: u64,
}

impl ResponseReader {
    /// Takes the bytes of one read.
    ///
    /// # Errors
    /// A malformed head or body, or bytes past the end of the response (no request was sent for them).
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Progress, ResponseError> {
        self.feed_into(bytes, &mut |_, _| {})
    }

    /// Like [`ResponseReader::feed`]; `body` gets each part of the decoded body and its offset.
    ///
    /// # Errors
    /// As [`ResponseReader::feed`].
    pub(crate) fn feed_into(
        &mut self,
        bytes: &[u8],
        body: &mut impl FnMut(u64, &[u8]),
    ) -> Result<Progress, ResponseError> {
        if let Some(head) = self.head {
            return self.feed_body(head, bytes, body);
        }
        if self.pending.is_empty() {
            return match parse_head(bytes)? {
                Some((head, head_bytes)) => self.begin_body(head, &bytes[head_bytes..], body),
                None => {
                    self.pending.extend_from_slice(bytes);
                    Ok(Progress::Partial)
                }
            };
        }
        self.pending.extend_from_slice(bytes);
        let Some((head, head_bytes)) = parse_head(&self.pending)? else {
            return Ok(Progress::Partial);
        };
        let pending = std::mem::take(&mut self.pending);
        self.begin_body(head, &pending[head_bytes..], body)
    }

    /// The connection ended: completes a body that is delimited by that.
    ///
    /// # Errors
    /// `ClosedEarly` when more was announced.
    pub(crate) fn end(&mut self) -> Result<Progress, ResponseError> {
        match self.head {
            Some(head) if head.framing == Framing::UntilEnd => Ok(self.complete(head)),
            _ => Err(ResponseError::ClosedEarly),
        }
    }

    /// Whether no byte of a response in progress has arrived.
    pub(crate) fn is_untouched(&self) -> bool {
        self.head.is_none() && self.pending.is_empty()
    }

    fn begin_body(
        &mut self,
        head: Head,
        bytes: &[u8],
        body: &mut impl FnMut(u64, &[u8]),
    ) -> Result<Progress, ResponseError> {
        self.head = Some(head);
        self.chunked = Chunked::default();
        self.feed_body(head, bytes, body)
    }

    fn feed_body(
        &mut self,
        head: Head,
        bytes: &[u8],
        body: &mut impl FnMut(u64, &[u8]),
    ) -> Result<Progress, ResponseError> {
        let received = &mut self.body_received;
        let mut take = |part: &[u8]| {
            body(*received, part);
            *received += part.len() as u64;
        };
        let done = match head.framing {
            Framing::Chunked => {
                self.chunked.feed(bytes, &mut take)?;
                self.chunked.is_done()
            }
            Framing::Length(length) => {
                take(bytes);
                if self.body_received > length {
                    return Err(ResponseError::BytesAfterEnd);
                }
                self.body_received == length
            }
            Framing::UntilEnd => {
                take(bytes);
                false
            }
        };
        Ok(if done { self.complete(head) } else { Progress::Partial })
    }

    fn complete(&mut self, head: Head) -> Progress {
        let body_bytes = std::mem::take(&mut self.body_received);
        self.head = None;
        let close = head.close || head.framing == Framing::UntilEnd;
        Progress::Complete { status: head.status, body_bytes, close, hit: head.hit }
    }
}

/// Reads a complete head: returns it and its length in bytes, or `None` if it is incomplete.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, ResponseError> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX {
            Err(ResponseError::HeadTooLong)
        } else {
            Ok(None)
        };
    };
    // "HTTP/1.1 200": the status is at a fixed place (RFC 9112 section 4).
    if end < 12 || !bytes.starts_with(b"HTTP/1.") {
        return Err(ResponseError::HeadMalformed);
    }
    let status = decimal(&bytes[9..12]).and_then(|status| u16::try_from(status).ok());
    let status = status.ok_or(ResponseError::HeadMalformed)?;
    let close = bytes[7] == b'0';
    let mut head = Head { status, framing: Framing::UntilEnd, close, hit: false };
    let mut line_start = memmem::find(&bytes[..end + 2], b"\r\n").map_or(end + 2, |at| at + 2);
    while line_start < end {
        let line_end =
            memchr::memchr(b'\r', &bytes[line_start..end]).map_or(end, |n| line_start + n);
        read_field(&bytes[line_start..line_end], &mut head)?;
        line_start = line_end + 2;
    }
    if status == 204 || status == 304 {
        head.framing = Framing::Length(0);
    }
    Ok(Some((head, end + 4)))
}

fn read_field(line: &[u8], head: &mut Head) -> Result<(), ResponseError> {
    // Names that matter begin with C, T or X; the others are skipped without a comparison.
    if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T' | b'x' | b'X')) {
        return Ok(());
    }
    let Some(colon) = memchr::memchr(b':', line) else { return Err(ResponseError::HeadMalformed) };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        let length = decimal(value).ok_or(ResponseError::HeadMalformed)?;
        set_framing(head, Framing::Length(length))?;
    } else if name.eq_ignore_ascii_case(b"connection") {
        head.close = value.eq_ignore_ascii_case(b"close");
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(ResponseError::TransferEncoding);
        }
        set_framing(head, Framing::Chunked)?;
    } else if name.eq_ignore_ascii_case(b"x-cache") {
        head.hit = value == b"HIT";
    }
    Ok(())
}

/// A second length is an error, since request smuggling uses it.
fn set_framing(head: &mut Head, framing: Framing) -> Result<(), ResponseError> {
    if head.framing != Framing::UntilEnd {
        return Err(ResponseError::HeadMalformed);
    }
    head.framing = framing;
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
