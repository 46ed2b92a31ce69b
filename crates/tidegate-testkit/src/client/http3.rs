//! HTTP/3 for scripted clients: requests are written and responses read as HTTP/1 on a pair of sockets, as by
//! [HTTP/2](super::http2), so that the same words serve both. The words `quic …` work on the connection and on the
//! streams of it: raw bytes, resets, migration, and the events that a script waits for.
//!
//! ```text
//! words of a client ──► pair of sockets ──► requests ──► QUIC stream        session   the connection and its thread
//!                  ◄──                 ◄── responses ◄──                   words     `quic …`, run on the session
//! ```
//!
//! A thread receives and keeps the timers; each client has one for its requests, each request one for its response.
//! What a client does not read keeps the window of its stream shut.

mod control;
mod payload;
mod requests;
mod responses;
mod session;
mod tls;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use quinn_proto::{TokenMemoryCache, TokenStore};

use crate::bell::{Deadline, Failure, locked};
use session::Session;
use tls::Tickets;
use words::{Options, QuicOp};

/// The connections of a case, and what they leave for later ones: tickets and tokens.
#[derive(Debug, Default, Clone)]
pub(crate) struct Connections(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// By the name of their port.
    newest: Mutex<BTreeMap<String, Arc<Session>>>,
    all: Mutex<Vec<Arc<Session>>>,
    memory: Memory,
}

/// What a client keeps between its connections.
struct Memory {
    /// Settings that connections without options of their own share: a ticket is only good for the same ones.
    settings: std::sync::OnceLock<rustls::ClientConfig>,
    tickets: Arc<Tickets>,
    tokens: Arc<dyn TokenStore>,
}

/// A client of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    session: Arc<Session>,
    /// Its number on the connection.
    number: u64,
}

/// Where and how a connection is opened.
struct Target<'a> {
    address: SocketAddr,
    options: &'a Options,
    /// Of the case, for certificates.
    directory: &'a Path,
    deadline: Deadline,
}

impl Connections {
    /// Opens a connection to `address`, or with no options takes the newest one to the port `name`. Returns the client and its
    /// side of the pair of sockets.
    pub(crate) fn client(
        &self,
        name: &str,
        address: SocketAddr,
        options: Option<&Options>,
        directory: &Path,
        deadline: Deadline,
    ) -> Result<(UnixStream, Client), Failure> {
        let mut newest = locked(&self.0.newest);
        let session = match (newest.get(name), options) {
            (Some(session), None) => session.clone(),
            (None, None) => return Err(Failure::new("there is no connection to this port")),
            (_, Some(options)) => {
                let target = Target { address, options, directory, deadline };
                Session::begin(&target, &self.0.memory)?
            }
        };
        newest.insert(name.to_owned(), session.clone());
        locked(&self.0.all).push(session.clone());
        drop(newest);
        let (ours, theirs) = UnixStream::pair()
            .map_err(|error| Failure::new(format!("a pair of sockets: {error}")))?;
        let number = session.add_client(ours)?;
        Ok((theirs, Client { session, number }))
    }
}

impl Client {
    /// Runs an operation.
    pub(crate) fn run(&self, op: &QuicOp) -> Result<(), Failure> {
        self.session.run(self.number, op)
    }

    /// Ends the connection in order.
    pub(crate) fn close(&self) {
        self.session.close(NO_ERROR, b"");
    }

    /// Returns how the connection ended, if it has, or how the server ended the client's newest request.
    pub(crate) fn ending(&self) -> Option<String> {
        self.session.ending(self.number)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            settings: Default::default(),
            tickets: Arc::default(),
            tokens: Arc::new(TokenMemoryCache::default()),
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        locked(&self.all).iter().for_each(|session| session.close(NO_ERROR, b""));
    }
}

/// H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;
/// H3_REQUEST_CANCELLED.
const REQUEST_CANCELLED: u64 = 0x10c;
