//! From streams to a client: responses as HTTP/1.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use quinn_proto::StreamId;
use tidegate_h3::frame::{Kind, PartialHeader};
use tidegate_h3::qpack::{Decoded, Decoder};

use super::control::number;
use super::session::{Piece, Session};
use crate::bell::{Failure, locked};

/// What a response is a violation of, if it is one.
type Checked<T> = Result<T, &'static str>;

/// A response in progress.
#[derive(Default)]
struct Response {
    is_head_request: bool,
    /// What was received and not used: at most a frame of the head, or a part of a frame's first bytes.
    received: Vec<u8>,
    /// Bytes that are left of a DATA frame, or of one that is skipped.
    left: u64,
    is_skipped: bool,
    /// After the final head.
    has_head: bool,
    has_body: bool,
    is_chunked: bool,
    /// The announced length, and bytes of the body.
    length: Option<u64>,
    body_bytes: u64,
    trailers: Option<Vec<u8>>,
}

/// The outcome of a part that was read.
enum Step {
    /// More has to be received.
    More,
    /// A field section waits for insertions.
    Blocked,
    /// Text for the client.
    Text(Vec<u8>),
}

impl Session {
    /// Begins to pass the response of a stream to a client, of which it becomes the newest request.
    pub(super) fn respond(
        self: &Arc<Self>,
        client: u64,
        stream: StreamId,
        is_head_request: bool,
    ) -> Result<(), Failure> {
        let mut state = locked(&self.state);
        let into = state.clients.get(&client).map(UnixStream::try_clone);
        let Some(Ok(into)) = into else { return Err(Failure::new("no such client")) };
        state.newest.insert(client, stream);
        state.open.insert(stream);
        let session = self.clone();
        let writer = std::thread::spawn(move || {
            let response = Response { is_head_request, ..Response::default() };
            let passed = session.pass(stream, response, &into);
            let mut state = locked(&session.state);
            state.open.remove(&stream);
            if let Err(Some(fault)) = passed {
                state.fault.get_or_insert(fault.to_owned());
            }
            drop(state);
            session.changed.notify_all();
            if passed.is_err() {
                let _ = into.shutdown(Shutdown::Both);
            }
        });
        state.writers.push(writer);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Passes a response on. An error is its premature end, with the server's mistake if that is the reason.
    fn pass(
        &self,
        stream: StreamId,
        mut response: Response,
        mut into: &UnixStream,
    ) -> Result<(), Option<&'static str>> {
        loop {
            let mut state = locked(&self.state);
            let piece = state.read(stream);
            let ended = match piece {
                Piece::Bytes(bytes) => {
                    response.received.extend(bytes);
                    false
                }
                Piece::End => true,
                Piece::Over => return Err(None),
                Piece::None if state.is_over() => return Err(None),
                Piece::None => {
                    drop(self.wait(state).map_err(|_| None)?);
                    continue;
                }
            };
            self.flush(&mut state);
            drop(state);
            loop {
                let mut state = locked(&self.state);
                let step = response.step(number(stream), &mut state.control.decoder);
                match step.map_err(Some)? {
                    Step::More => break,
                    Step::Text(text) => {
                        drop(state);
                        into.write_all(&text).map_err(|_| None)?;
                    }
                    Step::Blocked => {
                        while !state.control.unblocked.remove(&number(stream)) {
                            if state.is_over() {
                                return Err(None);
                            }
                            state = self.wait(state).map_err(|_| None)?;
                        }
                    }
                }
            }
            if ended {
                let end = response.end().map_err(Some)?;
                return into.write_all(&end).map_err(|_| None);
            }
        }
    }
}

impl Response {
    /// Reads the next part of what was received.
    fn step(&mut self, stream: u64, decoder: &mut Decoder) -> Checked<Step> {
        if self.left > 0 {
            let count = self.left.min(self.received.len() as u64) as usize;
            if count == 0 {
                return Ok(Step::More);
            }
            self.left -= count as u64;
            let bytes: Vec<u8> = self.received.drain(..count).collect();
            return Ok(Step::Text(if self.is_skipped { Vec::new() } else { self.body(&bytes) }));
        }
        let mut rest = self.received.as_slice();
        let Some(header) = PartialHeader::default().frame(&mut rest) else { return Ok(Step::More) };
        let header_bytes = self.received.len() - rest.len();
        match header.kind {
            Kind::Data if !self.has_head => return Err("DATA before a head"),
            Kind::Data if self.trailers.is_some() => return Err("DATA behind trailers"),
            Kind::Data if !self.has_body && header.length > 0 => {
                return Err("DATA where there is no body");
            }
            Kind::Headers => {
                let Some(section) = rest.get(..header.length as usize) else {
                    return Ok(Step::More);
                };
                let section = section.to_vec();
                let mut fields = Vec::new();
                let decoded = decoder.decode(stream, &section, &mut |field| {
                    fields.push((field.name.to_vec(), field.value.to_vec()));
                });
                if decoded.map_err(|_| "a field section that cannot be decoded")?
                    == Decoded::Blocked
                {
                    return Ok(Step::Blocked);
                }
                self.received.drain(..header_bytes + section.len());
                return self.section(&fields).map(Step::Text);
            }
            Kind::Data | Kind::Unknown(_) => {}
            _ => return Err("a frame that a stream of a request cannot have"),
        }
        self.received.drain(..header_bytes);
        (self.left, self.is_skipped) = (header.length, header.kind != Kind::Data);
        Ok(Step::Text(Vec::new()))
    }

    fn body(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.body_bytes += bytes.len() as u64;
        if !self.is_chunked {
            return bytes.to_vec();
        }
        [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
    }

    /// A head as HTTP/1, or trailers, which are kept.
    fn section(&mut self, fields: &[(Vec<u8>, Vec<u8>)]) -> Checked<Vec<u8>> {
        let status = fields.iter().find(|(name, _)| name == b":status");
        let mut lines = Vec::new();
        for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(b":")) {
            if name.iter().any(u8::is_ascii_uppercase) {
                return Err("a name in upper case");
            }
            [name, &b": "[..], value, b"\r\n"]
                .iter()
                .for_each(|part| lines.extend_from_slice(part));
        }
        if self.has_head {
            if status.is_some() || self.trailers.is_some() {
                return Err("a second head");
            }
            self.trailers = Some(lines);
            return Ok(Vec::new());
        }
        let status = status.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
        let status: u16 = status.ok_or("a head without status")?;
        let mut text = format!("HTTP/1.1 {status} \r\n").into_bytes();
        text.extend(lines);
        if status >= 200 {
            self.has_head = true;
            self.has_body = !matches!(status, 204 | 304) && !self.is_head_request;
            let length = fields.iter().find(|(name, _)| name == b"content-length");
            self.length =
                length.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
            self.is_chunked = self.has_body && length.is_none();
            if self.is_chunked {
                text.extend_from_slice(b"transfer-encoding: chunked\r\n");
            }
        }
        text.extend_from_slice(b"\r\n");
        Ok(text)
    }

    /// What follows the body, at the end of the stream.
    fn end(&mut self) -> Checked<Vec<u8>> {
        if !self.received.is_empty() || self.left > 0 {
            return Err("the stream ends within a frame");
        }
        if !self.has_head {
            return Err("the stream ends before a head");
        }
        if self.has_body && self.length.is_some_and(|length| length != self.body_bytes) {
            return Err("a body of another length than announced");
        }
        if !self.is_chunked {
            return Ok(Vec::new());
        }
        let trailers = self.trailers.take().unwrap_or_default();
        Ok([b"0\r\n", trailers.as_slice(), b"\r\n"].concat())
    }
}
