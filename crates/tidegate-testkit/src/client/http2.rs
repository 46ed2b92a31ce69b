//! HTTP/2 for scripted clients: each of them has a pair of sockets on which it speaks HTTP/1, one request after the
//! other, and each request becomes a stream. So scripts need no words of their own, and several clients share a
//! connection. A reset stream, and the end of the connection, close the pair; a client that closes cancels its request.
//! `CONNECT /path` with a field `Protocol` is an extended CONNECT (RFC 8441), whose bytes are sent as chunks.
//!
//! A thread reads the connection; each client has one for its requests, each stream one for its response. What a client
//! does not read keeps the window of its stream shut.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_h2::{
    Client, Config, Connection, ErrorCode, Event, Fields, Head, RequestLine, StreamId,
};

use crate::bell::{Deadline, Failure, locked};
use crate::http2::{Line, send};
use crate::wire::{Framing, Message, Stream, Wire};

/// The connections that the clients of a case share, by the name of their port.
#[derive(Debug, Default, Clone)]
pub(crate) struct SharedConnections(Arc<Mutex<BTreeMap<String, Arc<Session>>>>);

/// A connection that its threads share.
#[derive(Debug)]
struct Session {
    state: Mutex<State>,
    /// Notified when windows may have opened, and at the end.
    changed: Condvar,
    deadline: Deadline,
}

#[derive(Debug)]
struct State {
    line: Line<Client>,
    responses: HashMap<StreamId, Response>,
    /// The sockets of the clients.
    clients: Vec<UnixStream>,
    /// The threads that write responses.
    writers: Vec<JoinHandle<()>>,
}

/// Where a response goes.
#[derive(Debug)]
struct Response {
    to: mpsc::Sender<Piece>,
    is_head_request: bool,
    is_chunked: bool,
}

enum Piece {
    Text(Vec<u8>),
    /// A part of the body, and how it is written.
    Body(Vec<u8>, Vec<u8>),
    /// The stream was reset.
    Cut,
}

impl SharedConnections {
    /// Returns a client's socket on a new connection, or on the newest one to this port.
    pub(crate) fn client(
        &self,
        name: &str,
        is_new: bool,
        connect: impl FnOnce() -> std::io::Result<TcpStream>,
        deadline: Deadline,
    ) -> std::io::Result<UnixStream> {
        let mut sessions = locked(&self.0);
        let session = match sessions.get(name) {
            Some(session) if !is_new => session.clone(),
            _ => Session::begin(connect()?, deadline)?,
        };
        sessions.insert(name.to_owned(), session.clone());
        drop(sessions);
        let (ours, theirs) = UnixStream::pair()?;
        locked(&session.state).clients.push(ours.try_clone()?);
        std::thread::spawn(move || session.requests(ours));
        Ok(theirs)
    }
}

impl Session {
    fn begin(stream: TcpStream, deadline: Deadline) -> std::io::Result<Arc<Session>> {
        let mut wire = Wire::new(Stream::Tcp(stream), deadline);
        let mut state = State {
            line: Line::new(Connection::<Client>::new(Config::default().shared()), wire.twin()?),
            responses: HashMap::new(),
            clients: Vec::new(),
            writers: Vec::new(),
        };
        state.line.flush();
        let session = Session { state: Mutex::new(state), changed: Condvar::new(), deadline };
        let session = Arc::new(session);
        let reader = session.clone();
        std::thread::spawn(move || {
            while wire.fill().unwrap_or(false) && reader.receive(&wire.buffer) {
                wire.buffer.clear();
            }
            reader.end();
        });
        Ok(session)
    }

    /// Handles received bytes; returns whether the connection goes on.
    fn receive(&self, mut input: &[u8]) -> bool {
        let mut guard = locked(&self.state);
        let state = &mut *guard;
        let goes_on = loop {
            match state.line.core.receive(&mut input, Duration::ZERO) {
                Ok(None) => break true,
                Err(_) => break false,
                Ok(Some(Event::Interim { stream })) => state.head(stream, false),
                Ok(Some(Event::Head { stream, end })) => {
                    state.head(stream, end);
                    state.finish(stream, end);
                }
                Ok(Some(Event::Data { stream, bytes, end })) => {
                    state.body(stream, bytes);
                    if end {
                        state.last_chunk(stream);
                        state.finish(stream, true);
                    }
                }
                Ok(Some(Event::Trailers { stream })) => {
                    state.last_chunk(stream);
                    state.finish(stream, true);
                }
                Ok(Some(Event::Reset { stream, .. } | Event::Malformed { stream, .. })) => {
                    state.send(stream, Piece::Cut);
                    state.responses.remove(&stream);
                    state.line.core.close(stream, ErrorCode::CANCEL);
                }
                Ok(Some(_)) => {}
            }
        };
        self.changed.notify_all();
        state.line.flush() && goes_on
    }

    fn end(&self) {
        let mut state = locked(&self.state);
        state.line.is_over = true;
        let responses = std::mem::take(&mut state.responses);
        for response in responses.values() {
            let _ = response.to.send(Piece::Cut);
        }
        drop(responses);
        let (clients, writers) = (state.clients.split_off(0), state.writers.split_off(0));
        drop(state);
        self.changed.notify_all();
        // Clients read what was sent to them before the end.
        writers.into_iter().for_each(|writer| drop(writer.join()));
        clients.iter().for_each(|client| drop(client.shutdown(Shutdown::Write)));
    }

    /// Passes the requests of a client on, until it closes.
    fn requests(self: Arc<Self>, socket: UnixStream) {
        let Ok(into) = socket.try_clone() else { return };
        let mut wire = Wire::new(Stream::Unix(socket), self.deadline);
        let mut newest = None;
        while let Ok(Some(message)) = wire.take_head() {
            match self.request(message, &mut wire, &into) {
                Ok(stream) => newest = Some(stream),
                Err(_) => break,
            }
        }
        let mut state = locked(&self.state);
        if let Some(stream) = newest {
            state.responses.remove(&stream);
            state.line.core.close(stream, ErrorCode::CANCEL);
            state.line.flush();
        }
        let _ = into.shutdown(Shutdown::Both);
    }

    fn request(
        self: &Arc<Self>,
        mut message: Message,
        wire: &mut Wire,
        into: &UnixStream,
    ) -> Result<StreamId, Failure> {
        message.frame(false)?;
        let (to, pieces) = mpsc::channel();
        let mut state = locked(&self.state);
        while message.values("Protocol").next().is_some()
            && !state.line.core.peer().connect_protocol
        {
            let waited = self.changed.wait_timeout(state, self.deadline.remaining()?);
            state = waited.map_err(|_| Failure::new("a thread of the client panicked"))?.0;
        }
        let ends = message.framing == Framing::Complete;
        let stream = state.request(&message, ends)?;
        let is_head_request = message.start.starts_with("HEAD ");
        state.responses.insert(stream, Response { to, is_head_request, is_chunked: false });
        state.line.flush();
        let (session, mut into) = (self.clone(), into.try_clone().map_err(|_| closed())?);
        let writer = std::thread::spawn(move || session.write(stream, &pieces, &mut into));
        state.writers.push(writer);
        drop(state);
        let mut ended = ends;
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
                let list = |out: &mut Fields<'_>| push_all(out, &message.trailers);
                let _ = state.line.core.send_trailers(stream, list);
                state.line.flush();
            }
        }
        Ok(stream)
    }

    /// Writes a response to its client. The window opens with what the client's socket has taken.
    fn write(&self, stream: StreamId, pieces: &mpsc::Receiver<Piece>, into: &mut UnixStream) {
        while let Ok(piece) = pieces.recv() {
            let written = match &piece {
                Piece::Text(text) => into.write_all(text),
                Piece::Body(bytes, end) => into.write_all(bytes).and_then(|()| into.write_all(end)),
                Piece::Cut => into.shutdown(Shutdown::Both),
            };
            if written.is_err() {
                return;
            }
            if let Piece::Body(bytes, _) = &piece {
                let mut state = locked(&self.state);
                state.line.core.consumed(stream, bytes.len() as u32);
                state.line.flush();
            }
        }
    }

    /// Sends a part of a body as windows allow. What is refused has a response already.
    fn send(&self, stream: StreamId, bytes: &[u8], end: bool) -> Result<(), Failure> {
        let part = (stream, bytes, end);
        send(&self.state, |state| &mut state.line, &self.changed, self.deadline, part).map(drop)
    }
}

impl State {
    fn send(&mut self, stream: StreamId, piece: Piece) {
        if let Some(response) = self.responses.get(&stream) {
            let _ = response.to.send(piece);
        }
    }

    /// Sends the head of a request.
    fn request(&mut self, message: &Message, ends: bool) -> Result<StreamId, Failure> {
        let mut words = message.start.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let line = RequestLine {
            method: method.as_bytes(),
            scheme: b"http",
            authority: message.values("Host").next().unwrap_or_default(),
            path: path.as_bytes(),
            protocol: message.values("Protocol").next(),
        };
        let list = |out: &mut Fields<'_>| {
            let others = message.fields.iter().filter(|(name, _)| {
                !["host", "protocol"].contains(&name.to_ascii_lowercase().as_str())
            });
            others.for_each(|(name, value)| out.push(name.to_ascii_lowercase().as_bytes(), value));
        };
        let stream = self.line.core.request(&line, ends, list);
        stream.map_err(|error| Failure::new(error.to_string()))
    }

    /// Passes a head on as HTTP/1.
    fn head(&mut self, stream: StreamId, end: bool) {
        let head = self.line.core.head();
        let (status, has_length) = (head.status, head.content_length.is_some());
        let mut text = format!("HTTP/1.1 {status} \r\n").into_bytes();
        write_fields(&mut text, head);
        let Some(response) = self.responses.get_mut(&stream) else { return };
        let has_body = status >= 200 && !matches!(status, 204 | 304) && !response.is_head_request;
        response.is_chunked = has_body && !end && !has_length;
        if response.is_chunked {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n");
        } else if has_body && end && !has_length {
            text.extend_from_slice(b"content-length: 0\r\n");
        }
        text.extend_from_slice(b"\r\n");
        self.send(stream, Piece::Text(text));
    }

    fn body(&mut self, stream: StreamId, bytes: &[u8]) {
        let is_chunked = self.responses.get(&stream).is_some_and(|response| response.is_chunked);
        if is_chunked && !bytes.is_empty() {
            self.send(stream, Piece::Text(format!("{:x}\r\n", bytes.len()).into_bytes()));
        }
        let end: &[u8] = if is_chunked && !bytes.is_empty() { b"\r\n" } else { b"" };
        self.send(stream, Piece::Body(bytes.to_vec(), end.to_vec()));
    }

    /// The body has ended; the core's head has the trailer section, if there is one.
    fn last_chunk(&mut self, stream: StreamId) {
        if !self.responses.get(&stream).is_some_and(|response| response.is_chunked) {
            return;
        }
        let mut text = b"0\r\n".to_vec();
        let head = self.line.core.head();
        if head.status == 0 {
            write_fields(&mut text, head);
        }
        text.extend_from_slice(b"\r\n");
        self.send(stream, Piece::Text(text));
    }

    fn finish(&mut self, stream: StreamId, end: bool) {
        if end {
            self.responses.remove(&stream);
            self.line.core.close(stream, ErrorCode::CANCEL);
        }
    }
}

fn write_fields(text: &mut Vec<u8>, head: &Head) {
    for (_, name, value) in head.headers.iter() {
        [name, b": ", value, b"\r\n"].iter().for_each(|piece| text.extend_from_slice(piece));
    }
}

fn push_all(out: &mut Fields<'_>, fields: &[(String, Vec<u8>)]) {
    fields.iter().for_each(|(name, value)| out.push(name.as_bytes(), value));
}

fn closed() -> Failure {
    Failure::new("the connection has ended")
}
