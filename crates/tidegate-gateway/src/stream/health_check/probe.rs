//! One health check of one server: a connection or a datagram as the server's `proxy_pass` would make it, without a
//! client.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use std::{error, fmt};

use tidegate_rt::net::{Addr, ConnectOptions, Datagram};
use tidegate_rt::timer;
use tidegate_upstream::care::checks::{CheckFailure, Probe};
use tidegate_upstream::{ConnectError, Io, Peer, connect_options, dial, os_error, secure};

use super::rule::{MatchResult, SessionMatchRules};
use crate::stream::proxy::settings::Settings;

/// A health check that connects, sends and checks the received bytes.
pub(super) struct SessionProbe {
    pub settings: Arc<Settings>,
    /// The group's name, for TLS.
    pub host: Box<[u8]>,
    pub udp: bool,
    pub rules: Option<Arc<SessionMatchRules>>,
    pub port: Option<u16>,
    /// `health_check_timeout`
    pub timeout: Duration,
}

/// Payload of a datagram without `send`.
const GREETING: &[u8] = b"nginx health check";
/// Most bytes of a response that are checked.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

impl Probe for SessionProbe {
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>> {
        Box::pin(async move {
            let mut address = peer.address.clone();
            if let (Addr::Inet(address), Some(port)) = (&mut address, self.port) {
                address.set_port(port);
            }
            let asked = match self.udp {
                true => self.check_datagram(&address).await,
                false => timer::timeout(self.timeout, self.check_stream(&address))
                    .await
                    .unwrap_or(Err(SessionProbeError::TimedOut)),
            };
            asked.map_err(|error| CheckFailure::from(error.to_string()))
        })
    }
}

impl SessionProbe {
    fn options(&self) -> ConnectOptions {
        ConnectOptions {
            rcvbuf: self.settings.rcvbuf,
            sndbuf: self.settings.sndbuf,
            ..connect_options(None, false)
        }
    }

    fn send(&self) -> Option<&[u8]> {
        self.rules.as_ref()?.send.as_deref()
    }

    fn judge(&self, received: &[u8]) -> MatchResult {
        match self.rules.as_ref().and_then(|rules| rules.expect.as_ref()) {
            None => MatchResult::Passed,
            Some(expect) => expect.judge(received),
        }
    }

    /// Connects, sends the bytes of `match`, and checks the received ones. Without `expect` a connection is enough.
    ///
    /// Order, as in a session: the PROXY header, the handshake of TLS, `send`, `expect`. Cancelling: dropping this,
    /// which `health_check_timeout` does, closes the connection at any await.
    async fn check_stream(&self, address: &Addr) -> Result<(), SessionProbeError> {
        let settings = &self.settings;
        let stream = dial(address, &self.options(), settings.connect_timeout).await;
        let stream = stream.map_err(SessionProbeError::Connect)?;
        // Without addresses: the connection is the server's own.
        let mut pending = settings.protocol.bytes(None, false);
        let io = match &settings.tls {
            None => Io::Plain(stream),
            Some(tls) => {
                let tls = tls.fixed_target(&self.host);
                stream
                    .write_all(&std::mem::take(&mut pending))
                    .await
                    .map_err(SessionProbeError::Socket)?;
                let secured = secure(stream, address, &tls, settings.connect_timeout).await;
                secured.map_err(SessionProbeError::Connect)?
            }
        };
        pending.extend_from_slice(self.send().unwrap_or_default());
        let mut left = &pending[..];
        while !left.is_empty() {
            let written = poll_fn(|context| io.poll_write(context, left))
                .await
                .map_err(SessionProbeError::Socket)?;
            left = &left[written..];
        }
        poll_fn(|context| io.poll_flush(context)).await.map_err(SessionProbeError::Socket)?;
        self.read(&io).await
    }

    /// Reads until `expect` is decided, the other side ends, or the limit of bytes is reached.
    async fn read(&self, io: &Io) -> Result<(), SessionProbeError> {
        let mut received = Vec::new();
        loop {
            match self.judge(&received) {
                MatchResult::Passed => return Ok(()),
                MatchResult::Failed => return Err(SessionProbeError::Mismatch),
                MatchResult::Open if received.len() >= RESPONSE_BYTES_MAX => {
                    return Err(SessionProbeError::Mismatch);
                }
                MatchResult::Open => received.reserve(4096),
            }
            let read = poll_fn(|context| io.poll_read_append(context, &mut received)).await;
            if read.map_err(SessionProbeError::Socket)? == 0 {
                return Err(SessionProbeError::Mismatch);
            }
        }
    }

    /// Sends a datagram. Without `expect`, silence until the timeout passes; an ICMP port unreachable fails.
    async fn check_datagram(&self, address: &Addr) -> Result<(), SessionProbeError> {
        let origin =
            Datagram::connect(address, &self.options()).map_err(SessionProbeError::Socket)?;
        let header = self.settings.protocol.bytes(None, true);
        let send = self.send().or(self.rules.is_none().then_some(GREETING)).unwrap_or_default();
        let payload = [&header[..], send].concat();
        let exchange = async {
            origin.send(&payload, None).await.map_err(SessionProbeError::Socket)?;
            self.receive(&origin).await
        };
        match timer::timeout(self.timeout, exchange).await {
            Ok(result) => result,
            Err(_) if self.judge(&[]) == MatchResult::Passed => Ok(()),
            Err(_) => Err(SessionProbeError::TimedOut),
        }
    }

    /// Waits for one datagram, which is checked as a whole.
    async fn receive(&self, origin: &Datagram) -> Result<(), SessionProbeError> {
        let mut buffer = vec![0; RESPONSE_BYTES_MAX];
        let mut broken = pin!(origin.failed());
        let length = poll_fn(|context| match broken.as_mut().poll(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => origin.poll_receive(context, &mut buffer),
        });
        let length = length.await.map_err(SessionProbeError::Socket)?;
        match self.judge(&buffer[..length]) {
            MatchResult::Passed => Ok(()),
            _ => Err(SessionProbeError::Mismatch),
        }
    }
}

/// The reason of a failed check, in words for the log.
#[derive(Debug)]
enum SessionProbeError {
    /// The connection or its TLS handshake failed.
    Connect(ConnectError),
    Socket(io::Error),
    /// The received bytes do not match `expect`, or ended too early.
    Mismatch,
    /// `health_check_timeout` has passed.
    TimedOut,
}

impl fmt::Display for SessionProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionProbeError::Connect(error) => write!(f, "{error}"),
            SessionProbeError::Socket(error) => {
                write!(f, "communication failed ({})", os_error(error))
            }
            SessionProbeError::Mismatch => f.write_str("the data does not match"),
            SessionProbeError::TimedOut => f.write_str("no response in time"),
        }
    }
}

impl error::Error for SessionProbeError {}
