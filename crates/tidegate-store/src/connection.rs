//! The connection to an engine: made, logged in, and served until it ends.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::blocking;
use tidegate_rt::net::{Addr, ConnectOptions, Stream};
use tidegate_rt::timer::Deadline;
use tidegate_rt::{clock, timer};
use tidegate_tls::{Client, Io, Protocols, TlsTarget};

use crate::address::{Address, Host, Login, Sentinel};
use crate::command::Command;
use crate::engine::{Call, CallError, Engine, count, reason_of};
use crate::resp::{Decoder, Value};

/// Time for a connection with its login: more than that of a command, as it may be a handshake of TLS far away.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
/// Commands on the connection without a reply. Others wait in the queue.
const IN_FLIGHT_MAX: usize = 1024;
/// Bytes that wait to be sent before more commands are taken.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Room for what is read at once.
const READ_BYTES: usize = 16 << 10;
/// The code of the error for a script that the engine does not have.
const NO_SCRIPT: &[u8] = b"NOSCRIPT";
/// The code of the error of a host that accepts no writes: another one may.
const READ_ONLY: &[u8] = b"READONLY";

/// A connection that is logged in.
pub(crate) struct Connection {
    io: Io<Client>,
    decoder: Decoder,
    out: Vec<u8>,
    /// The bytes of `out` that were sent.
    sent: usize,
    in_flight: VecDeque<Call>,
    deadline: Deadline,
    /// Whether another host should be tried when this one accepts no writes.
    has_others: bool,
}

/// How a connection has ended.
pub(crate) enum End {
    /// The engine has closed it while no reply was awaited.
    Idle,
    Failed(Arc<str>),
}

impl Connection {
    /// Connects to a host, or to the engine that a Sentinel knows, and logs in: within a second.
    ///
    /// Cancelling: dropped while it waits, the socket is closed.
    ///
    /// # Errors
    /// The reason for the log.
    pub(crate) async fn open(engine: &Engine, host: &Host) -> Result<Connection, Arc<str>> {
        let opening = async {
            match &engine.settings.address.sentinel {
                None => Connection::try_open(engine, host).await,
                Some(sentinel) => {
                    let found = Connection::ask_sentinel(engine, host, sentinel).await?;
                    Connection::try_open(engine, &found).await
                }
            }
        };
        match timer::timeout(CONNECT_TIME_MAX, Box::pin(opening)).await {
            Ok(done) => done,
            Err(_) => Err(format!("no connection to {host} in time").into()),
        }
    }

    /// Asks a Sentinel for the engine of a name (`SENTINEL get-master-addr-by-name`), after the login of Sentinels.
    async fn ask_sentinel(
        engine: &Engine,
        host: &Host,
        Sentinel { name, login }: &Sentinel,
    ) -> Result<Host, Arc<str>> {
        let mut connection = Connection::dial(engine, host).await?;
        connection.authenticate(login, host).await?;
        let question = Command::new("SENTINEL").arg(b"get-master-addr-by-name");
        match connection.ask(&question.arg(name.as_bytes())).await? {
            Value::Error(text) => Err(format!("Sentinel {host}: {}", reason_of(&text)).into()),
            Value::Null => Err(format!("Sentinel {host} does not know \"{name}\"").into()),
            reply => host_of(&reply)
                .ok_or_else(|| format!("the reply of Sentinel {host} is no address").into()),
        }
    }

    async fn try_open(engine: &Engine, host: &Host) -> Result<Connection, Arc<str>> {
        let mut connection = Connection::dial(engine, host).await?;
        connection.log_in(engine, host).await?;
        Ok(connection)
    }

    /// Connects, without a login.
    async fn dial(engine: &Engine, host: &Host) -> Result<Connection, Arc<str>> {
        let (stream, address) = connect(host).await?;
        // Commands are small and not to be held back.
        let _ = stream.set_nodelay(true);
        let io = match &engine.settings.tls {
            None => Io::Plain(stream),
            Some(tls) => {
                let name: Arc<[u8]> = host.name.as_bytes().into();
                let target = TlsTarget::new(tls.clone(), name, Protocols::default());
                let secured = tidegate_tls::connect(stream, &address, &target).await;
                let failed = |error| format!("TLS handshake with {host} failed ({error})");
                Io::Tls(secured.map_err(failed)?)
            }
        };
        let Address { hosts, sentinel, .. } = &engine.settings.address;
        Ok(Connection {
            io,
            decoder: Decoder::default(),
            out: Vec::new(),
            sent: 0,
            in_flight: VecDeque::new(),
            deadline: Deadline::new(),
            has_others: hosts.len() > 1 || sentinel.is_some(),
        })
    }

    /// Logs in: by HELLO, or by AUTH where the engine does not know it (before Redis 6), and selects the database.
    async fn log_in(&mut self, engine: &Engine, host: &Host) -> Result<(), Arc<str>> {
        let address = &engine.settings.address;
        let mut hello = Command::new("HELLO").arg(b"3");
        if let Some(password) = &address.login.password {
            let user = address.login.user.as_deref().unwrap_or("default");
            hello = hello.arg(b"AUTH").arg(user.as_bytes()).arg(password.as_bytes());
        }
        match self.ask(&hello).await? {
            Value::Error(text) if text.starts_with(b"ERR") || text.starts_with(b"NOPROTO") => {
                self.authenticate(&address.login, host).await?;
            }
            Value::Error(text) => return Err(refusal(host, &text)),
            Value::List(fields) if self.has_others && is_replica(&fields) => {
                return Err(format!("{host} is a replica").into());
            }
            _ => {}
        }
        if address.database != 0 {
            let select = Command::new("SELECT").arg(address.database.to_string().as_bytes());
            if let Value::Error(text) = self.ask(&select).await? {
                return Err(refusal(host, &text));
            }
        }
        Ok(())
    }

    /// Logs in by AUTH, which engines and Sentinels of all versions know; nothing is sent without a password.
    async fn authenticate(&mut self, login: &Login, host: &Host) -> Result<(), Arc<str>> {
        let Some(password) = &login.password else { return Ok(()) };
        let mut auth = Command::new("AUTH");
        if let Some(user) = &login.user {
            auth = auth.arg(user.as_bytes());
        }
        match self.ask(&auth.arg(password.as_bytes())).await? {
            Value::Error(text) => Err(refusal(host, &text)),
            _ => Ok(()),
        }
    }

    /// Sends a command and waits for its reply: before the connection is used.
    async fn ask(&mut self, command: &Command) -> Result<Value, Arc<str>> {
        command.write(&mut self.out, false);
        poll_fn(|context| {
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(Err(os_reason(&error)));
            }
            loop {
                match self.decoder.next_reply() {
                    Ok(Some(Value::Push(_))) => continue,
                    Ok(Some(reply)) => return Poll::Ready(Ok(reply)),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(error.to_string().into())),
                }
                match self.poll_receive(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(CLOSED.into())),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(os_reason(&error))),
                }
            }
        })
        .await
    }

    /// Sends commands and receives their replies, until the connection ends.
    ///
    /// Invariant: `in_flight` has the calls whose commands were written, in that order; the deadline is that of the first.
    /// A late reply ends the connection, since the ones behind it would be late as well.
    ///
    /// Cancelling: dropped, the calls in flight are lost; those in the queue stay there.
    pub(crate) async fn serve(&mut self, engine: &Engine) -> End {
        let end = poll_fn(|context| self.poll_serve(engine, context)).await;
        let reason: Arc<str> = match &end {
            End::Idle => CLOSED.into(),
            End::Failed(reason) => reason.clone(),
        };
        for call in self.in_flight.drain(..) {
            let _ = call.reply.send(Err(CallError::Lost(reason.clone())));
        }
        end
    }

    fn poll_serve(&mut self, engine: &Engine, context: &mut Context<'_>) -> Poll<End> {
        loop {
            self.take_calls(engine, context);
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(End::Failed(os_reason(&error)));
            }
            match self.poll_receive(context) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) if self.in_flight.is_empty() => return Poll::Ready(End::Idle),
                Poll::Ready(Ok(0)) => return Poll::Ready(End::Failed(CLOSED.into())),
                Poll::Ready(Ok(bytes)) => count(&engine.counters.bytes_in, bytes),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Failed(os_reason(&error))),
            }
            if let Err(reason) = self.deliver(engine) {
                return Poll::Ready(End::Failed(reason));
            }
        }
        match self.in_flight.front() {
            None => self.deadline.clear(),
            Some(first) => self.deadline.set(first.until),
        }
        if self.deadline.poll_elapsed(context).is_ready() {
            count(&engine.counters.timed_out, 1);
            return Poll::Ready(End::Failed("no reply in time".into()));
        }
        Poll::Pending
    }

    /// Takes commands from the queue, as many as may be in flight.
    fn take_calls(&mut self, engine: &Engine, context: &Context<'_>) {
        // What follows calls that go again must not overtake others of them, which are still in flight.
        if engine.has_put_back() && !self.in_flight.is_empty() {
            return;
        }
        let now = clock::exact_now();
        while self.in_flight.len() < IN_FLIGHT_MAX
            && self.out.len() - self.sent < UNSENT_BYTES_MAX
            && let Some(call) = engine.take(context.waker())
        {
            if call.until <= now {
                count(&engine.counters.timed_out, 1);
                let _ = call.reply.send(Err(CallError::TimedOut));
                continue;
            }
            let before = self.out.len();
            call.command.write(&mut self.out, call.full);
            count(&engine.counters.commands, 1);
            count(&engine.counters.bytes_out, self.out.len() - before);
            self.in_flight.push_back(call);
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            match self.io.poll_write(context, &self.out[self.sent..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                Poll::Ready(Ok(count)) => self.sent += count,
            }
        }
        self.out.clear();
        self.sent = 0;
        self.io.poll_flush(context)
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let buffer = self.decoder.buffer();
        buffer.reserve(READ_BYTES);
        self.io.poll_read_append(context, buffer)
    }

    /// Passes the replies that have arrived to those who wait for them.
    fn deliver(&mut self, engine: &Engine) -> Result<(), Arc<str>> {
        while let Some(reply) =
            self.decoder.next_reply().map_err(|error| Arc::from(error.to_string()))?
        {
            if matches!(reply, Value::Push(_)) {
                continue;
            }
            let Some(call) = self.in_flight.pop_front() else {
                return Err("a reply without a command".into());
            };
            count(&engine.counters.replies, 1);
            let Value::Error(text) = reply else {
                let _ = call.reply.send(Ok(reply));
                continue;
            };
            if text.starts_with(NO_SCRIPT) && call.command.is_script() && !call.full {
                engine.put_back(Call { full: true, ..call });
                continue;
            }
            count(&engine.counters.refused, 1);
            let reason = reason_of(&text);
            let _ = call.reply.send(Err(CallError::Refused(reason.clone())));
            // Older engines put the error of a command in a script behind words of their own.
            if self.has_others && text.windows(READ_ONLY.len()).any(|part| part == READ_ONLY) {
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// Reads the address of an engine, as a Sentinel replies: a list of host and port.
fn host_of(reply: &Value) -> Option<Host> {
    let [name, port] = reply.as_list()? else { return None };
    let name = std::str::from_utf8(name.as_text()?).ok().filter(|name| !name.is_empty())?;
    let port: u16 = std::str::from_utf8(port.as_text()?).ok()?.parse().ok()?;
    (port > 0).then(|| Host { name: name.to_owned(), port })
}

/// The reason for the end of a stream.
const CLOSED: &str = "the engine has closed the connection";

/// The least time for an address of a host.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(250);

async fn connect(host: &Host) -> Result<(Rc<Stream>, Addr), Arc<str>> {
    let addresses = blocking::addresses(&host.name, host.port).await.map_err(|error| {
        let error = os_reason(&error);
        Arc::from(format!("{host} could not be resolved ({error})"))
    })?;
    let mut last: Arc<str> = format!("{host} has no address").into();
    // One that does not respond must not take the time of the others.
    let each = (CONNECT_TIME_MAX / (addresses.len() as u32 + 1)).max(ADDRESS_TIME_MIN);
    for address in addresses {
        let (options, to) = (ConnectOptions::default(), Addr::Inet(address));
        match timer::timeout(each, Stream::connect(&to, &options)).await {
            Ok(Ok(stream)) => return Ok((Rc::new(stream), to)),
            Ok(Err(error)) => {
                last = format!("connect() to {host} failed ({})", os_reason(&error)).into();
            }
            Err(_) => last = format!("no connection to {host} at {address} in time").into(),
        }
    }
    Err(last)
}

/// Whether the engine says, in its reply to HELLO, that it takes no writes.
fn is_replica(fields: &[Value]) -> bool {
    let role = fields.chunks(2).find(|pair| pair[0].as_text() == Some(b"role"));
    role.and_then(|pair| pair.get(1)?.as_text()).is_some_and(|role| role != b"master")
}

fn refusal(host: &Host, text: &[u8]) -> Arc<str> {
    format!("{host} refuses the login: {}", reason_of(text)).into()
}

fn os_reason(error: &io::Error) -> Arc<str> {
    match error.raw_os_error() {
        Some(_) => tidegate_os::os_error(error).into(),
        None => error.to_string().into(),
    }
}
