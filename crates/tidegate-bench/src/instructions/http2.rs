//! A counted server with a client of HTTP/2: one connection, ten requests at once, then ten others.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use super::traced::{COUNTED, WARM_UP, between, start};
use crate::config::Scenario;
use crate::config::fairness::Port;
use crate::config::protocols::{Form, Part, Places};
use crate::h2::client::Ask;
use crate::h2::load::{Load, Plan};
use crate::load::{Bound, Outcome};
use crate::origin::Origin;
use crate::server::Binary;

/// A part of the error of a server without HTTP/2.
pub(super) const NOT_SERVED: &str = "HTTP/2 is not served";

/// Instructions for one request, after some that warm up.
///
/// # Errors
/// In words: the server or valgrind failed, or a response was not the expected one.
pub(super) fn count(
    tidegate: &Binary,
    target: &str,
    body_bytes: u64,
    origin: &Origin,
) -> Result<u64, String> {
    let plain = free_port().map_err(|error| error.to_string())?;
    // The listeners of TLS are not used; their ports are free ones as well.
    let [ecdsa, rsa] = [free_port(), free_port()].map(|port| port.map_err(|e| e.to_string()));
    let origin_port = Port(origin.address().port());
    let places = Places {
        plain,
        ecdsa: ecdsa?,
        rsa: rsa?,
        origin: origin_port,
        part: Part::Front,
        form: Form::Directive,
        quic: None,
    };
    let server = start(tidegate, Scenario::Protocols(places), origin);
    let server = server.map_err(|why| match why.contains("http2") {
        true => format!("{NOT_SERVED}: {why}"),
        false => why,
    })?;
    let plan = Plan {
        address: plain.address(),
        tls: None,
        asks: vec![Ask::get(target, body_bytes)],
        connections: 1,
        streams: STREAMS,
    };
    let mut load = Load::new(plan).map_err(|error| error.to_string())?;
    between(&server, WARM_UP, COUNTED, |count| in_tens(count, |bound| load.run(bound)))
}

/// Runs a number of requests, ten at once.
///
/// # Errors
/// In words, that of the first request that failed.
pub(super) fn in_tens(
    count: u64,
    mut run: impl FnMut(Bound) -> std::io::Result<Outcome>,
) -> Result<(), String> {
    for _ in 0..count / u64::from(STREAMS) {
        let bound = Bound { duration: TIMEOUT, requests_max: u64::from(STREAMS) };
        let outcome = run(bound).map_err(|error| error.to_string())?;
        if let Some(error) = outcome.first_error {
            return Err(format!("request: {error}"));
        }
    }
    Ok(())
}

pub(super) fn free_port() -> std::io::Result<Port> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(Port(listener.local_addr()?.port()))
}

/// As many as `h2load -m 10` has in flight.
const STREAMS: u32 = 10;
/// Far more than ten requests take under valgrind on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
