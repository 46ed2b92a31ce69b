//! A counted server with a client of HTTP/2: one connection, ten requests at once, then ten others.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use super::counts::Counts;
use super::traced::{COUNTED, WARM_UP, between, start};
use crate::config::Scenario;
use crate::config::fairness::Port;
use crate::config::protocols::{Form, Part, Places, Quic};
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
) -> Result<Counts, String> {
    let places = places(origin, None).map_err(|error| error.to_string())?;
    let plain = places.plain;
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

/// Returns free ports for all listeners, also for those that are not used.
pub(super) fn places(origin: &Origin, quic: Option<Quic>) -> std::io::Result<Places> {
    Ok(Places {
        plain: free_port()?,
        ecdsa: free_port()?,
        rsa: free_port()?,
        origin: Port(origin.address().port()),
        part: Part::Front,
        form: Form::Directive,
        quic,
    })
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

fn free_port() -> std::io::Result<Port> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(Port(listener.local_addr()?.port()))
}

/// As many as `h2load -m 10` has in flight.
const STREAMS: u32 = 10;
/// Far more than ten requests take under valgrind on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
