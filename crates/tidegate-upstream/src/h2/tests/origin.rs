//! An origin for tests: the server's side of `tidegate-h2` on a socket. The path of a request says what it does.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_h2::{Config, Connection, ErrorCode, Event, Server, StreamId};
use tidegate_rt::net::{Addr, ListenOptions, Listener, Stream};
use tidegate_rt::sync::{Notify, select};
use tidegate_rt::{clock, spawn_local};

use crate::peers::{BalancingMethod, Group, Keepalive, ServerOptions};

/// What the origin has seen.
#[derive(Default)]
pub(super) struct Seen {
    pub connections: usize,
    pub requests: usize,
    /// Most streams of one connection at once.
    pub streams_max: usize,
    /// Streams that were reset by the proxy.
    pub resets: usize,
    /// Paths that do something else the second time.
    used: Vec<String>,
    /// Requests of `/hold` that wait.
    pub held: usize,
}

pub(super) struct Origin {
    pub seen: RefCell<Seen>,
    /// Requests of `/hold` are responded to.
    pub release: Notify,
    pub is_released: Cell<bool>,
    config: Arc<Config>,
}

/// A response that waits for windows.
struct Pending {
    left: usize,
}

/// Bytes of `/big`.
pub(super) const BIG: usize = 3 << 20;

/// Starts an origin and returns a group of nothing else.
pub(super) fn start(config: Config, keepalive: Keepalive) -> (Rc<Origin>, Arc<Group>) {
    let any = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = Listener::bind(&any, &ListenOptions::default()).expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = (String::from("origin"), address, ServerOptions::default());
    let group = Group::new("g", BalancingMethod::RoundRobin, keepalive, vec![server], clock::now());
    let origin = Rc::new(Origin {
        seen: RefCell::default(),
        release: Notify::new(),
        is_released: Default::default(),
        config: config.shared(),
    });
    let accepting = origin.clone();
    spawn_local(async move {
        while let Ok(stream) = listener.accept().await {
            accepting.seen.borrow_mut().connections += 1;
            spawn_local(serve(accepting.clone(), Rc::new(stream)));
        }
    });
    (origin, Arc::new(group))
}

impl Origin {
    async fn released(&self) {
        while !self.is_released.get() {
            self.release.notified().await;
        }
    }

    /// Forgets which paths were requested.
    pub(super) fn forget(&self) {
        self.seen.borrow_mut().used.clear();
    }

    /// Returns whether a path is requested for the first time.
    fn is_first(&self, path: &str) -> bool {
        let used = &mut self.seen.borrow_mut().used;
        let is_first = !used.iter().any(|other| other == path);
        used.push(path.to_owned());
        is_first
    }
}

/// One connection; it ends with an error of either side or when it is closed.
struct Serving {
    origin: Rc<Origin>,
    core: Connection<Server>,
    paths: HashMap<StreamId, (String, Vec<u8>)>,
    pending: HashMap<StreamId, Pending>,
    closes: bool,
    /// Bytes that are sent as they are, behind the output.
    raw: Vec<u8>,
}

async fn serve(origin: Rc<Origin>, stream: Rc<Stream>) {
    let core = Connection::<Server>::new(origin.config.clone());
    let (paths, pending, raw) = (HashMap::new(), HashMap::new(), Vec::new());
    let mut serving = Serving { origin, core, paths, pending, closes: false, raw };
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let mut out = Vec::new();
        serving.core.take_output(&mut out);
        out.append(&mut serving.raw);
        if !out.is_empty() && stream.write_all(&out).await.is_err() {
            return;
        }
        if serving.closes {
            return;
        }
        buffer.clear();
        let origin = serving.origin.clone();
        let is_held = serving.paths.values().any(|(path, _)| path == "/hold");
        let read = select! {
            read = stream.read_append(&mut buffer) => Some(read),
            () = origin.released(), if is_held => None,
        };
        if let Some(Ok(0) | Err(_)) = read {
            return;
        }
        if origin.is_released.get() {
            serving.release();
        }
        let mut input = &buffer[..];
        while let Ok(Some(event)) = serving.core.receive(&mut input, Duration::ZERO) {
            serving.event(event);
        }
        serving.pump();
    }
}

impl Serving {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Head { stream, end } => {
                let head = self.core.head();
                let path = String::from_utf8_lossy(head.text(head.target)).into_owned();
                let streams = self.core.streams();
                let mut seen = self.origin.seen.borrow_mut();
                seen.requests += 1;
                seen.streams_max = seen.streams_max.max(streams);
                drop(seen);
                self.paths.insert(stream, (path.clone(), Vec::new()));
                if end || path == "/early" || path.starts_with("/at-head") {
                    self.respond(stream, &path);
                }
            }
            Event::Data { stream, bytes, end } => {
                self.core.consumed(stream, bytes.len() as u32);
                if let Some((path, body)) = self.paths.get_mut(&stream) {
                    body.extend_from_slice(bytes);
                    let path = path.clone();
                    if end {
                        self.respond(stream, &path);
                    }
                }
            }
            Event::Reset { stream, .. } => {
                self.origin.seen.borrow_mut().resets += 1;
                self.close(stream);
            }
            _ => {}
        }
    }

    fn close(&mut self, stream: StreamId) {
        self.paths.remove(&stream);
        self.pending.remove(&stream);
        self.core.close(stream, ErrorCode::NO_ERROR);
    }

    fn send(&mut self, stream: StreamId, status: u16, fields: &[(&str, &str)], body: &[u8]) {
        let sent = self.core.respond(stream, status, body.is_empty(), |list| {
            fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
        });
        if sent.is_ok() && !body.is_empty() {
            let _ = self.core.send_data(stream, body, true);
        }
        self.close(stream);
    }

    fn release(&mut self) {
        let held = self.paths.iter().filter(|(_, (path, _))| path == "/hold");
        let held: Vec<_> = held.map(|(stream, _)| *stream).collect();
        held.into_iter().for_each(|stream| self.send(stream, 200, &[], b"held"));
    }

    fn respond(&mut self, stream: StreamId, path: &str) {
        let body = self.paths.get(&stream).map(|(_, body)| body.clone()).unwrap_or_default();
        let origin = self.origin.clone();
        match path {
            "/ok" | "/path" => self.send(stream, 200, &[], b"ok"),
            "/echo" => self.send(stream, 200, &[], format!("{} bytes", body.len()).as_bytes()),
            "/big" => {
                let _ = self.core.respond(stream, 200, false, |_| {});
                self.pending.insert(stream, Pending { left: BIG });
            }
            "/hold" => origin.seen.borrow_mut().held += 1,
            "/early" => self.send(stream, 200, &[], b"early"),
            "/refuse" if origin.is_first(path) => {
                self.core.reset(stream, ErrorCode::REFUSED_STREAM);
                self.close(stream);
            }
            "/error" => {
                self.core.reset(stream, ErrorCode::INTERNAL_ERROR);
                self.close(stream);
            }
            "/goaway" if origin.is_first(path) => {
                // The number of the stream before: this one was not processed.
                let last = stream.value().saturating_sub(2);
                self.raw =
                    [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &last.to_be_bytes(), &[0; 4]].concat();
                self.closes = true;
            }
            "/close" if origin.is_first(path) => self.closes = true,
            "/refuse" | "/goaway" | "/close" => self.send(stream, 200, &[], b"ok"),
            "/interim" => {
                let _ = self.core.respond_interim(stream, 103, |list| list.push(b"link", b"a"));
                let _ = self.core.respond(stream, 200, false, |_| {});
                let _ = self.core.send_data(stream, b"ok", false);
                let _ = self.core.send_trailers(stream, |list| list.push(b"x-sum", b"1"));
                self.close(stream);
            }
            "/short" | "/long" => {
                let length = if path == "/short" { "9" } else { "1" };
                self.send(stream, 200, &[("content-length", length)], b"ok");
            }
            "/empty" => self.send(stream, 204, &[], b""),
            _ => self.hostile(stream, path),
        }
    }

    /// Does what no origin should.
    fn hostile(&mut self, stream: StreamId, path: &str) {
        let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[1; 8]].concat();
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let id = stream.value().to_be_bytes();
        let empty_data = [&[0, 0, 0, 0, 0][..], &id].concat();
        let head = [&[0, 0, 1, 1, 0][..], &id, &[0x88]].concat();
        let continuation = [&[0, 0, 1, 9, 0][..], &id, &[0x88]].concat();
        let interim = [&[0, 0, 5, 1, 4][..], &id, &[0x08, 3, b'1', b'0', b'3']].concat();
        let whole_head = [&[0, 0, 1, 1, 4][..], &id, &[0x88]].concat();
        self.raw = match path {
            "/pings" => ping.repeat(3000),
            "/settings" => settings.repeat(3000),
            "/empty-data" => [whole_head, empty_data.repeat(3000)].concat(),
            "/continuations" => [head, continuation.repeat(100)].concat(),
            "/interims" => interim.repeat(3000),
            // More than any window: the proxy has read nothing.
            "/window" => {
                let piece = [&[0, 0x40, 0, 0, 0][..], &id, &[0; 0x4000]].concat();
                [whole_head, piece.repeat(20)].concat()
            }
            // All that the window allows, in one frame.
            "/whole-window" => {
                let body = [&[4, 0, 0, 0, 1][..], &id, &[b'x'; 0x4_0000]].concat();
                [whole_head, body].concat()
            }
            // One byte more, which is never sent: its header is enough.
            "/huge-body" => [&whole_head[..], &[4, 0, 1, 0, 0], &id].concat(),
            "/push" => [&[0, 0, 4, 5, 4][..], &id, &[0, 0, 0, 2]].concat(),
            "/idle" => [0, 0, 1, 1, 4, 0, 0, 0xff, 0xff, 0x88].to_vec(),
            "/huge" => [0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1].to_vec(),
            "/table" => [&[0, 0, 1, 1, 4][..], &id, &[0xff]].concat(),
            "/http1" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            _ => panic!("no such path: {path}"),
        };
    }

    /// Sends what windows allow of large bodies.
    fn pump(&mut self) {
        let streams: Vec<_> = self.pending.keys().copied().collect();
        for stream in streams {
            let Some(pending) = self.pending.get_mut(&stream) else { continue };
            let piece = vec![b'x'; pending.left.min(256 * 1024)];
            let ends = piece.len() == pending.left;
            let Ok(sent) = self.core.send_data(stream, &piece, ends) else { continue };
            pending.left -= sent;
            if pending.left == 0 {
                self.close(stream);
            }
        }
    }
}
