//! Starts a server of the suite, and finds out whether it has the function that a case needs.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use super::super::Context;
use crate::config::fairness::Port;
use crate::config::protocols::{self, Form, Part, Places, Quic, TINY};
use crate::config::{FIXED_BODY, Scenario};
use crate::h2::client::{ALPN, Ask, Buffers, Client, wide};
use crate::h2::origin::Origin;
use crate::h3;
use crate::load::{Bound, Outcome};
use crate::server::{Binary, Job, Server};
use crate::wire::{Sessions, Tls};

/// The protocol of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// HTTP/2 by TLS.
    H2,
    /// HTTP/2 by prior knowledge.
    H2c,
    /// HTTP/1.1 by TLS.
    Https,
    /// HTTP/3.
    H3,
    /// The same with `quic_gso on`.
    H3Gso,
    /// The same with several workers.
    H3Workers,
}

impl Via {
    /// Settings of TLS for a client that trusts the certificate of P-256.
    ///
    /// # Errors
    /// In words: there is no certificate.
    pub(super) fn tls(self) -> Result<Option<Tls>, String> {
        let protocol = match self {
            Via::H2c => return Ok(None),
            Via::H2 => ALPN,
            Via::Https => HTTP1,
            Via::H3 | Via::H3Gso | Via::H3Workers => h3::message::ALPN,
        };
        let pair = protocols::ecdsa().map_err(|error| format!("certificate: {error}"))?;
        let pem = pair.certificate.as_bytes();
        Tls::new(pem, protocols::NAME, &[protocol], Sessions::Full).map(Some)
    }
}

impl Via {
    fn is_h3(self) -> bool {
        matches!(self, Via::H3 | Via::H3Gso | Via::H3Workers)
    }
}

/// A running server with the addresses of its listeners, and the origin behind it.
pub(super) struct Serving {
    pub server: Server,
    pub places: Places,
    pub origin: Option<Origin>,
}

impl Serving {
    /// The listener of a protocol.
    pub(super) fn address(&self, via: Via) -> SocketAddr {
        match via {
            Via::H2 | Via::Https => self.places.ecdsa.address(),
            Via::H2c => self.places.plain.address(),
            Via::H3 | Via::H3Gso | Via::H3Workers => {
                self.places.quic.map_or(self.places.ecdsa, |quic| quic.port).address()
            }
        }
    }

    /// A load of HTTP/3 on this server.
    ///
    /// # Errors
    /// In words.
    pub(super) fn h3_load(
        &self,
        address: SocketAddr,
        asks: Vec<Ask>,
        (connections, streams): (usize, usize),
        mode: h3::load::Mode,
    ) -> Result<h3::load::Load, String> {
        let pair = protocols::ecdsa().map_err(|error| format!("certificate: {error}"))?;
        let certificate = pair.certificate.clone();
        let plan = h3::load::Plan { address, certificate, asks, connections, streams, mode };
        h3::load::Load::new(plan).map_err(|error| format!("load: {error}"))
    }

    fn serves_h3(&self, via: Via) -> Result<(), String> {
        let ask = Ask::get(TINY, FIXED_BODY.len() as u64);
        let mut load = self.h3_load(self.address(via), vec![ask], (1, 1), h3::load::Mode::Kept)?;
        let outcome = load.run(Bound { duration: PATIENCE, requests_max: 1 });
        match outcome.map_err(|error| format!("load: {error}"))? {
            Outcome { requests: 1, .. } => Ok(()),
            Outcome { first_error, .. } => Err(first_error.unwrap_or_default()),
        }
    }

    /// Requests the short text.
    fn serves(&self, via: Via) -> Result<(), String> {
        if via == Via::Https {
            return Ok(());
        }
        if via.is_h3() {
            return self.serves_h3(via);
        }
        if self.places.form == Form::Absent {
            return Err("HTTP/2 cannot be switched on".to_owned());
        }
        let (config, tls) = (wide(1), via.tls()?);
        let client = Client::connect(self.address(via), tls.as_ref(), &config, PATIENCE);
        let ask = Ask::get(TINY, FIXED_BODY.len() as u64);
        let fetched = client
            .and_then(|mut client| client.fetch(&ask, &mut Buffers::default(), PATIENCE))
            .map_err(|error| error.to_string())?;
        match fetched.suits(&ask) {
            true => Ok(()),
            false => Err(format!("{fetched:?}")),
        }
    }
}

/// Starts a server. The inner error is the reason why it does not serve the case.
///
/// # Errors
/// In words: the server does not start at all.
pub(super) fn start(
    context: &Context,
    binary: &Binary,
    part: Part,
    via: Via,
    job: impl Fn(Scenario) -> Job,
) -> Result<Result<Serving, String>, String> {
    let passes = matches!(part, Part::Proxy | Part::Grpc);
    let origin = match passes {
        true => Some(Origin::start().map_err(|error| format!("origin: {error}"))?),
        false => None,
    };
    let origin_address = origin.as_ref().map_or(context.origin_address(), Origin::address);
    let mut refusal = String::new();
    // A server with HTTP/3 has the directive.
    let forms = if via.is_h3() { 1 } else { 3 };
    for form in [Form::Directive, Form::Listen, Form::Absent].into_iter().take(forms) {
        let mut places = places(origin_address, part, form).map_err(|error| error.to_string())?;
        places.quic = quic(via).map_err(|error| error.to_string())?;
        match Server::start(binary, job(Scenario::Protocols(places))) {
            Ok(server) => {
                let serving = Serving { server, places, origin };
                return Ok(serving.serves(via).map(|()| serving));
            }
            // The directive that it does not take.
            Err(reason) if reason.contains("ended at start") => {
                refusal = message(&reason).to_owned();
            }
            Err(reason) => return Err(reason),
        }
    }
    // The last one: without HTTP/2 for clients nothing but the part is left to be refused.
    if passes || via.is_h3() { Ok(Err(refusal)) } else { Err(refusal) }
}

/// The first message of a server that does not start, without its place in a file.
fn message(reason: &str) -> &str {
    let first = reason.split(" / ").next().unwrap_or(reason);
    first.split(" in /").next().unwrap_or(first)
}

/// Free addresses for the further listeners.
fn places(origin: SocketAddr, part: Part, form: Form) -> std::io::Result<Places> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    // All at once, so that none is returned twice.
    let listeners = [TcpListener::bind(any)?, TcpListener::bind(any)?, TcpListener::bind(any)?];
    let port = |index: usize| listeners[index].local_addr().map(|address| Port(address.port()));
    let (plain, ecdsa, rsa) = (port(0)?, port(1)?, port(2)?);
    Ok(Places { plain, ecdsa, rsa, origin: Port(origin.port()), part, form, quic: None })
}

/// The listener of HTTP/3 that a case needs, at a free port.
fn quic(via: Via) -> std::io::Result<Option<Quic>> {
    if !via.is_h3() {
        return Ok(None);
    }
    let port = Port(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port());
    Ok(Some(Quic { port, gso: via == Via::H3Gso, several: via == Via::H3Workers }))
}

/// The name of HTTP/1.1 in ALPN (RFC 7301 section 6).
pub(super) const HTTP1: &[u8] = b"http/1.1";
/// Longest wait for one response.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
