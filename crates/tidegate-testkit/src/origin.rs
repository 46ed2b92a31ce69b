//! A scripted origin: a listener whose connections run in one thread each and choose
//! the script line that matches their request. A connection that begins with the preface of HTTP/2 speaks that.

mod http2;

use crate::bell::{Bell, Deadline, Failure, locked};
use crate::client::check;
use crate::flood::Flood;
use crate::ops::{HeadCheck, OriginLine, OriginOp};
use crate::wire::{Ending, Framing, Message, Stream, Wire};
use crate::words::shown;
use std::collections::BTreeSet;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The common state of all actors of a case.
#[derive(Debug)]
pub struct Shared {
    /// Rung on every change.
    pub bell: Bell,
    /// Gates that were opened.
    pub gates: Mutex<BTreeSet<String>>,
    /// Failures of actors that run beside the script.
    pub failures: Mutex<Vec<Failure>>,
    /// Set at the end of the case: all waits end.
    pub over: AtomicBool,
    /// End of all waiting.
    pub deadline: Deadline,
}

impl Shared {
    fn fail(&self, failure: Failure) {
        if !self.over.load(Ordering::SeqCst) {
            locked(&self.failures).push(failure);
            self.bell.ring();
        }
    }
}

#[derive(Debug)]
struct Rule {
    number: usize,
    always: bool,
    maybe: bool,
    used: bool,
    ops: Arc<Vec<OriginOp>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fallback {
    Refuse,
    Serve,
    Echo,
}

#[derive(Debug)]
struct Book {
    rules: Vec<Rule>,
    fallback: Fallback,
}

#[derive(Debug)]
struct State {
    name: String,
    shared: Arc<Shared>,
    book: Mutex<Book>,
    requests: AtomicI64,
    connections: AtomicI64,
    /// Second handles of connections, to end their threads; removed when a thread has ended.
    open: Mutex<Vec<(u64, Stream)>>,
    down: AtomicBool,
}

/// A running origin.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts accepting.
    pub(crate) fn start(
        name: &str,
        listener: TcpListener,
        shared: Arc<Shared>,
    ) -> Result<Self, Failure> {
        let address = listener.local_addr();
        let address = address.map_err(|error| Failure::new(format!("origin: {error}")))?;
        let state = Arc::new(State {
            name: name.to_owned(),
            shared,
            book: Mutex::new(Book { rules: Vec::new(), fallback: Fallback::Refuse }),
            requests: AtomicI64::new(0),
            connections: AtomicI64::new(0),
            open: Mutex::new(Vec::new()),
            down: AtomicBool::new(false),
        });
        let acceptor = Some(accepting(listener, Arc::clone(&state)));
        Ok(Self { address, state, acceptor })
    }

    /// Requests whose head was read.
    pub(crate) fn requests(&self) -> i64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Connections on which something was received or that a script line took.
    pub(crate) fn connections(&self) -> i64 {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Applies one `origin` line of the script.
    pub(crate) fn apply(&mut self, line: &OriginLine, number: usize) -> Result<(), Failure> {
        match line {
            OriginLine::Script { always, maybe, ops } => {
                locked(&self.state.book).rules.push(Rule {
                    number,
                    always: *always,
                    maybe: *maybe,
                    used: false,
                    ops: Arc::new(ops.clone()),
                });
            }
            OriginLine::Forget => locked(&self.state.book).rules.clear(),
            OriginLine::Serve => locked(&self.state.book).fallback = Fallback::Serve,
            OriginLine::Echo => locked(&self.state.book).fallback = Fallback::Echo,
            OriginLine::Down => self.stop_listening(),
            OriginLine::Up => {
                let listener = TcpListener::bind(self.address)
                    .map_err(|error| Failure::new(format!("origin up: {error}")))?;
                self.state.down.store(false, Ordering::SeqCst);
                self.acceptor = Some(accepting(listener, Arc::clone(&self.state)));
            }
        }
        Ok(())
    }

    fn stop_listening(&mut self) {
        self.state.down.store(true, Ordering::SeqCst);
        // The acceptor sleeps in accept: a connection to itself wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for (_, stream) in locked(&self.state.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends everything; returns the script lines that were never used.
    pub(crate) fn finish(mut self) -> Vec<Failure> {
        if self.acceptor.is_some() {
            self.stop_listening();
        }
        let book = locked(&self.state.book);
        let unused = book.rules.iter().filter(|rule| !rule.used && !rule.always && !rule.maybe);
        let name = &self.state.name;
        unused
            .map(|rule| {
                Failure::new(format!("line {}: no request came to origin {name}", rule.number))
            })
            .collect()
    }
}

fn accepting(listener: TcpListener, state: Arc<State>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        // Connections outlive the listener when the origin stops listening; they end by shutdown.
        for number in 0_u64.. {
            let Ok((stream, _)) = listener.accept() else { break };
            if state.down.load(Ordering::SeqCst) {
                // A process that starts at this moment holds a copy of the socket until it has replaced its program:
                // closed alone, the socket would accept for that long.
                let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
                break;
            }
            let wire = Wire::new(Stream::Tcp(stream), state.shared.deadline);
            if let Ok(twin) = wire.twin() {
                locked(&state.open).push((number, twin));
            }
            let state = Arc::clone(&state);
            std::thread::spawn(move || {
                connection(wire, &state);
                locked(&state.open).retain(|(open, _)| *open != number);
            });
        }
    })
}

/// What happens with a connection after an exchange.
enum AfterExchange {
    Keep(Wire),
    Close,
}

fn connection(wire: Wire, state: &State) {
    let mut wire = wire;
    if let Some((number, ops)) = state.take(|op| matches!(op, OriginOp::ExpectConnection)) {
        state.count(&state.connections);
        match state.exchange(wire, None, &ops[1..]) {
            Ok(AfterExchange::Keep(kept)) => wire = kept,
            Ok(AfterExchange::Close) => return,
            Err(failure) => return state.failed(number, &failure),
        }
    }
    let mut first = true;
    loop {
        let message = match wire.take_head() {
            Ok(Some(message)) => message,
            Ok(None) => return,
            // An idle connection that the server reset, or the end of the case.
            Err(_) => return,
        };
        if std::mem::take(&mut first) {
            state.count(&state.connections);
        }
        if message.start == http2::PREFACE_LINE {
            let one = |mut wire: Wire| {
                if let Ok(Some(message)) = wire.take_head() {
                    state.respond(wire, message);
                }
            };
            return http2::serve(wire, &message, state.shared.deadline, one);
        }
        match state.respond(wire, message) {
            Some(kept) => wire = kept,
            None => return,
        }
    }
}

impl State {
    fn count(&self, counter: &AtomicI64) {
        counter.fetch_add(1, Ordering::SeqCst);
        self.shared.bell.ring();
    }

    fn failed(&self, number: usize, failure: &Failure) {
        self.shared.fail(Failure::new(format!("line {number}: origin {}: {failure}", self.name)));
    }

    fn take(&self, fits: impl Fn(&OriginOp) -> bool) -> Option<(usize, Arc<Vec<OriginOp>>)> {
        let mut book = locked(&self.book);
        let rule = book
            .rules
            .iter_mut()
            .find(|rule| (rule.always || !rule.used) && rule.ops.first().is_some_and(&fits))?;
        rule.used = true;
        Some((rule.number, Arc::clone(&rule.ops)))
    }

    fn respond(&self, mut wire: Wire, mut message: Message) -> Option<Wire> {
        if let Err(failure) = message.frame(false) {
            self.shared.fail(failure);
            return None;
        }
        let taken = self.take(|op| fits(op, &message));
        self.count(&self.requests);
        if let Some((number, ops)) = taken {
            return match self.exchange(wire, Some(message), &ops[1..]) {
                Ok(AfterExchange::Keep(wire)) => Some(wire),
                Ok(AfterExchange::Close) => None,
                Err(failure) => {
                    self.failed(number, &failure);
                    None
                }
            };
        }
        let fallback = locked(&self.book).fallback;
        if fallback == Fallback::Refuse {
            let start = &message.start;
            let text = format!("origin {}: unexpected request {start:?}", self.name);
            self.shared.fail(Failure::new(text));
            return None;
        }
        message.read_body(&mut wire, usize::MAX).ok()?;
        let body = match fallback {
            Fallback::Echo => [message.head.as_slice(), &message.body].concat(),
            _ => {
                let mut words = message.start.split(' ');
                let (method, target) = (words.next()?, words.next()?);
                format!("{} {method} {target}", self.name).into_bytes()
            }
        };
        let mut response =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        if !message.start.starts_with("HEAD ") {
            response.extend_from_slice(&body);
        }
        wire.send(&response).ok()?;
        Some(wire)
    }

    fn exchange(
        &self,
        mut wire: Wire,
        mut message: Option<Message>,
        ops: &[OriginOp],
    ) -> Result<AfterExchange, Failure> {
        for op in ops {
            match op {
                OriginOp::Close => return Ok(AfterExchange::Close),
                OriginOp::Reset => {
                    wire.reset();
                    return Ok(AfterExchange::Close);
                }
                OriginOp::WaitClose => {
                    self.over_or(ended(&mut wire))?;
                    return Ok(AfterExchange::Close);
                }
                OriginOp::Expect { .. } => {
                    if let Some(message) = message.as_mut() {
                        message.read_body(&mut wire, usize::MAX)?;
                    }
                    let next = wire.take_head()?;
                    let mut next = next.ok_or_else(|| {
                        Failure::new("the connection was closed before the next request")
                    })?;
                    self.count(&self.requests);
                    next.frame(false)?;
                    if !fits(op, &next) {
                        return Err(Failure::new(format!("the next was {:?}", next.start)));
                    }
                    message = Some(next);
                }
                OriginOp::Hold(gate) => self.hold(gate)?,
                op => self.over_or(simple(op, &mut wire, message.as_mut()))?,
            }
        }
        if let Some(message) = message.as_mut() {
            message.read_body(&mut wire, usize::MAX)?;
            if message.framing != Framing::Complete {
                return Ok(AfterExchange::Close);
            }
        }
        Ok(AfterExchange::Keep(wire))
    }

    fn over_or(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        if self.shared.over.load(Ordering::SeqCst) { Ok(()) } else { result }
    }

    fn hold(&self, gate: &str) -> Result<(), Failure> {
        let shared = &self.shared;
        let opened = shared.bell.wait_until(shared.deadline, None, || {
            Ok(locked(&shared.gates).contains(gate) || shared.over.load(Ordering::SeqCst))
        });
        opened.map_err(|failure| Failure::new(format!("gate {gate}: {failure}")))
    }
}

fn simple(op: &OriginOp, wire: &mut Wire, message: Option<&mut Message>) -> Result<(), Failure> {
    let none = || Failure::new("no request was read yet");
    match op {
        OriginOp::Send(bytes) => wire.send(bytes),
        OriginOp::Flood(bytes) => Flood::last(wire, bytes),
        OriginOp::WaitRaw(bytes) => wire.take_exactly(bytes),
        OriginOp::WaitPast(bytes) => wire.take_past(bytes),
        OriginOp::WaitBody(prefix) => {
            let message = message.ok_or_else(none)?;
            message.read_body(wire, prefix.len())?;
            if message.body.starts_with(prefix) {
                return Ok(());
            }
            Err(Failure::new(format!("body: got {}", shown(&message.body))))
        }
        OriginOp::Check(condition) => {
            let message = message.ok_or_else(none)?;
            if matches!(
                condition,
                HeadCheck::Body(_) | HeadCheck::Length(_) | HeadCheck::Trailer(..)
            ) {
                message.read_body(wire, usize::MAX)?;
            }
            check(condition, message)
        }
        _ => Ok(()),
    }
}

/// Waits for the server's end; bytes before it are discarded.
fn ended(wire: &mut Wire) -> Result<(), Failure> {
    while wire.fill()? {
        wire.buffer.clear();
    }
    match wire.ending {
        Some(Ending::Closed | Ending::Reset) => Ok(()),
        None => Err(Failure::new("the connection did not end")),
    }
}

fn fits(op: &OriginOp, message: &Message) -> bool {
    let OriginOp::Expect { method, target } = op else { return false };
    let mut words = message.start.split(' ');
    let same = method == "any" || method == "*" || words.next() == Some(method);
    let asked = message.start.split(' ').nth(1).unwrap_or_default();
    let any = matches!(target, crate::words::Matcher::Exact(text) if text == b"*");
    same && (any || target.matches(asked.as_bytes()))
}
