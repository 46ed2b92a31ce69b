//! The hello of a client whose connection has not begun.
//!
//! What a connection begins with may have to be made by the hello, and that may take time, which the transport does not
//! give: it wants the server while it handles the hello. So the client's packets are given to a second connection too,
//! which ends at the hello and never sends anything; the transport keeps the packets for the first one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, EcnCodepoint};
use tidegate_rt::net::Received;
use tidegate_tls::quic::{QuicHandshakes, QuicHello, QuicServers};

use crate::numbers::{self, Numbers};
use crate::settings::Keys;

/// What is common to the readers of an endpoint.
pub(crate) struct HelloReaders {
    config: Arc<quinn_proto::EndpointConfig>,
    server: Arc<quinn_proto::ServerConfig>,
    noted: Arc<Noted>,
}

/// Reads one client's hello.
pub(crate) struct HelloReader {
    library: quinn_proto::Endpoint,
    connection: Option<quinn_proto::Connection>,
    noted: Arc<Noted>,
}

/// The state of a hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// More of it is to arrive.
    Partial,
    Whole(QuicHello),
    /// It is none: the connection ends with an error once it begins.
    Faulty,
}

/// Notes a hello in place of choosing a server for it, which ends the connection.
#[derive(Default)]
struct Noted(Mutex<Option<QuicHello>>);

impl QuicServers for Noted {
    fn choose(&self, hello: &QuicHello) -> Option<Arc<tidegate_tls::ServerSettings>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(hello.clone());
        None
    }
}

impl HelloReaders {
    /// Returns `None` where the library of TLS lacks what QUIC requires.
    pub(crate) fn new(numbers: &Numbers, keys: &Keys) -> Option<HelloReaders> {
        let noted = Arc::new(Noted::default());
        let handshakes = QuicHandshakes::new(noted.clone(), 0).ok()?;
        let server = quinn_proto::ServerConfig::new(Arc::new(handshakes), keys.0.tokens.clone());
        let config = numbers::configuration(numbers, keys.0.reset.clone());
        Some(HelloReaders { config: Arc::new(config), server: Arc::new(server), noted })
    }

    pub(crate) fn reader(&self) -> HelloReader {
        let server = Some(self.server.clone());
        let library = quinn_proto::Endpoint::new(self.config.clone(), server, false, None);
        HelloReader { library, connection: None, noted: self.noted.clone() }
    }
}

impl HelloReader {
    /// Reads a packet of the client.
    pub(crate) fn read(&mut self, received: &Received<'_>, now: Instant) -> Hello {
        let (mut unsent, ecn) = (Vec::new(), EcnCodepoint::from_bits(received.ecn));
        let bytes = BytesMut::from(received.bytes);
        let event = self.library.handle(now, received.from, received.to, ecn, bytes, &mut unsent);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.library.accept(incoming, now, &mut unsent, None) {
                    Ok((_, connection)) => self.connection = Some(connection),
                    Err(_) => return self.noted().map_or(Hello::Faulty, Hello::Whole),
                }
            }
            // Another connection of the same address.
            Some(DatagramEvent::NewConnection(incoming)) => self.library.ignore(incoming),
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(connection) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        match (self.noted(), &self.connection) {
            (Some(hello), _) => Hello::Whole(hello),
            (None, Some(connection)) if !connection.is_closed() => Hello::Partial,
            (None, Some(_)) => Hello::Faulty,
            (None, None) => Hello::Partial,
        }
    }

    /// Takes the hello that was noted. It is of this reader: it is noted and taken within one call.
    fn noted(&self) -> Option<QuicHello> {
        self.noted.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
