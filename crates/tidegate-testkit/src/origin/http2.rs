//! HTTP/2 for scripted origins: each stream becomes an HTTP/1 exchange on a pair of sockets, so that scripts need no
//! words of their own. `close` within a response resets the stream, `wait close` waits for its reset or the end of the
//! connection.
//!
//! A thread reads the connection; each stream has one for its script and one that passes the response on. A request's
//! body that its script does not read stops the connection.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex};
use std::thread::Scope;
use std::time::Duration;

use tidegate_h2::{Config, Connection, ErrorCode, Event, Server, StreamId};

use crate::bell::{Deadline, Failure, locked};
use crate::http2::{Line, Sent, send};
use crate::wire::{Framing, Message, Stream, Wire};

/// The start of a connection, as a request line.
pub(super) const PREFACE_LINE: &str = "PRI * HTTP/2.0";

/// A connection that its threads share.
struct Session {
    state: Mutex<State>,
    /// Notified when windows may have opened, and at the end.
    changed: Condvar,
    deadline: Deadline,
}

struct State {
    line: Line<Server>,
    requests: HashMap<StreamId, RequestBody>,
}

/// Where the body of a request goes.
struct RequestBody {
    into: UnixStream,
    is_chunked: bool,
}

/// Serves a connection whose preface was read as a head, `script` each request of it.
pub(super) fn serve(
    mut wire: Wire,
    preface: &Message,
    deadline: Deadline,
    script: impl Fn(Wire) + Sync,
) {
    let Ok(out) = wire.twin() else { return };
    let core = Connection::<Server>::new(Config::default().shared());
    let state = State { line: Line::new(core, out), requests: HashMap::new() };
    let session = Session { state: Mutex::new(state), changed: Condvar::new(), deadline };
    let mut input = [&preface.head[..], &std::mem::take(&mut wire.buffer)].concat();
    std::thread::scope(|scope| {
        while session.receive(&input, scope, &script) && wire.fill().unwrap_or(false) {
            input = std::mem::take(&mut wire.buffer);
        }
        let mut state = locked(&session.state);
        state.line.is_over = true;
        for request in state.requests.values() {
            let _ = request.into.shutdown(Shutdown::Both);
        }
        drop(state);
        session.changed.notify_all();
    });
}

impl Session {
    /// Handles received bytes; returns whether the connection goes on.
    fn receive<'s>(
        &'s self,
        mut input: &[u8],
        scope: &'s Scope<'s, '_>,
        script: &'s (impl Fn(Wire) + Sync),
    ) -> bool {
        let mut guard = locked(&self.state);
        let state = &mut *guard;
        let goes_on = loop {
            match state.line.core.receive(&mut input, Duration::ZERO) {
                Ok(None) => break true,
                Err(_) => break false,
                Ok(Some(Event::Head { stream, end })) => {
                    let (text, is_head, is_chunked) = request_text(&mut state.line.core, end);
                    let Ok((ours, theirs)) = UnixStream::pair() else { break false };
                    let (Ok(mut into), deadline) = (ours.try_clone(), self.deadline) else {
                        break false;
                    };
                    let _ = into.write_all(&text);
                    state.requests.insert(stream, RequestBody { into, is_chunked });
                    scope.spawn(move || script(Wire::new(Stream::Unix(theirs), deadline)));
                    scope.spawn(move || {
                        let mut wire = Wire::new(Stream::Unix(ours), deadline);
                        let passed = self.pass_response(stream, &mut wire, is_head);
                        self.finish(stream, passed.is_ok());
                    });
                }
                Ok(Some(Event::Data { stream, bytes, end })) => {
                    state.line.core.consumed(stream, bytes.len() as u32);
                    if let Some(request) = state.requests.get_mut(&stream) {
                        request.write(bytes, end);
                    }
                }
                Ok(Some(Event::Trailers { stream })) => {
                    if let Some(request) = state.requests.get_mut(&stream) {
                        request.write(b"", true);
                    }
                }
                Ok(Some(Event::Reset { stream, .. } | Event::Malformed { stream, .. })) => {
                    if let Some(request) = state.requests.get(&stream) {
                        let _ = request.into.shutdown(Shutdown::Both);
                    }
                    state.line.core.close(stream, ErrorCode::CANCEL);
                }
                Ok(Some(_)) => self.changed.notify_all(),
            }
        };
        state.line.flush() && goes_on
    }

    /// Passes a response from its script to its stream.
    fn pass_response(
        &self,
        stream: StreamId,
        wire: &mut Wire,
        is_head: bool,
    ) -> Result<(), Failure> {
        let closed = || Failure::new("the script closed before its response");
        loop {
            let mut message = wire.take_head()?.ok_or_else(closed)?;
            let status = message.status().ok_or_else(closed)?;
            let fields = std::mem::take(&mut message.fields);
            let list = |out: &mut tidegate_h2::Fields<'_>| {
                fields.iter().for_each(|(name, value)| out.push(name.as_bytes(), value));
            };
            if (100..200).contains(&status) {
                let mut state = locked(&self.state);
                let _ = state.line.core.respond_interim(stream, status, list);
                state.line.flush();
                continue;
            }
            message.fields.clone_from(&fields);
            message.frame(true)?;
            if is_head || matches!(status, 204 | 304) {
                message.framing = Framing::Complete;
            }
            let mut ended = message.framing == Framing::Complete;
            let mut state = locked(&self.state);
            state.line.core.respond(stream, status, ended, list).map_err(|_| closed())?;
            state.line.flush();
            drop(state);
            while !ended {
                let before = message.body.len();
                message.read_body(wire, before + 1)?;
                ended = message.framing == Framing::Complete;
                if !ended && message.body.len() == before {
                    return Err(closed());
                }
                let has_trailers = ended && !message.trailers.is_empty();
                self.send(stream, &message.body[before..], ended && !has_trailers)?;
                if has_trailers {
                    let mut state = locked(&self.state);
                    let _ = state.line.core.send_trailers(stream, |out| {
                        let trailers = message.trailers.iter();
                        trailers.for_each(|(name, value)| out.push(name.as_bytes(), value));
                    });
                    state.line.flush();
                }
            }
            return Ok(());
        }
    }

    /// Sends a part of a body as windows allow.
    fn send(&self, stream: StreamId, bytes: &[u8], end: bool) -> Result<(), Failure> {
        let part = (stream, bytes, end);
        match send(&self.state, |state| &mut state.line, &self.changed, self.deadline, part)? {
            Sent::All => Ok(()),
            Sent::Refused => Err(Failure::new("the stream takes no more")),
        }
    }

    /// Ends a stream: in order, or with RST_STREAM.
    fn finish(&self, stream: StreamId, is_whole: bool) {
        let mut state = locked(&self.state);
        let code = if is_whole { ErrorCode::NO_ERROR } else { ErrorCode::INTERNAL_ERROR };
        if !is_whole {
            state.line.core.reset(stream, code);
        }
        state.line.core.close(stream, code);
        state.requests.remove(&stream);
        state.line.flush();
    }
}

impl RequestBody {
    fn write(&mut self, bytes: &[u8], end: bool) {
        let mut text = Vec::new();
        if self.is_chunked && !bytes.is_empty() {
            text = format!("{:x}\r\n", bytes.len()).into_bytes();
        }
        text.extend_from_slice(bytes);
        if self.is_chunked && !bytes.is_empty() {
            text.extend_from_slice(b"\r\n");
        }
        if self.is_chunked && end {
            text.extend_from_slice(b"0\r\n\r\n");
        }
        let _ = self.into.write_all(&text);
    }
}

/// Returns the head of a request as HTTP/1 text, whether its method is HEAD, and whether its body is sent in chunks.
fn request_text(core: &mut Connection<Server>, end: bool) -> (Vec<u8>, bool, bool) {
    let head = core.head();
    let is_head = head.text(head.method) == b"HEAD";
    let is_chunked = !end && head.content_length.is_none();
    let mut text = head.text(head.line).to_vec();
    text.extend_from_slice(b"\r\n");
    for (_, name, value) in head.headers.iter() {
        [name, b": ", value, b"\r\n"].iter().for_each(|piece| text.extend_from_slice(piece));
    }
    if is_chunked {
        text.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    text.extend_from_slice(b"\r\n");
    (text, is_head, is_chunked)
}
