//! A counted server with a client of HTTP/3: one connection, ten requests at once, then ten others.

use std::net::{Ipv4Addr, UdpSocket};

use super::counts::Counts;
use super::http2::{in_tens, places};
use super::traced::{COUNTED, WARM_UP, between, start};
use crate::config::Scenario;
use crate::config::fairness::Port;
use crate::config::protocols::{self, Quic};
use crate::h2::client::Ask;
use crate::h3::load::{Load, Mode, Plan};
use crate::origin::Origin;
use crate::server::Binary;

/// Instructions for one request, after some that warm up.
///
/// # Errors
/// In words: the server or valgrind failed, or a response was not the expected one.
pub(super) fn count(
    tidegate: &Binary,
    target: &str,
    body_bytes: u64,
    origin: &Origin,
) -> Result<Counts, String> {
    let said = |error: std::io::Error| error.to_string();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(said)?;
    let port = Port(socket.local_addr().map_err(said)?.port());
    drop(socket);
    let quic = Quic { port, gso: false, several: false };
    let places = places(origin, Some(quic)).map_err(said)?;
    let server = start(tidegate, Scenario::Protocols(places), origin)?;
    let plan = Plan {
        address: port.address(),
        certificate: protocols::ecdsa().map_err(said)?.certificate.clone(),
        asks: vec![Ask::get(target, body_bytes)],
        connections: 1,
        streams: STREAMS,
        mode: Mode::Kept,
    };
    let mut load = Load::new(plan).map_err(said)?;
    between(&server, WARM_UP, COUNTED, |count| in_tens(count, |bound| load.run(bound)))
}

/// As many as the other suites have in flight.
const STREAMS: usize = 10;
