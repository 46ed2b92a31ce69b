//! Datagrams both ways between a client and an origin.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_core::pace::{GrantInterval, Rate};
use tidegate_core::session::{Datagrams, Traffic, log_end};
use tidegate_core::{Exchange, Level};
use tidegate_rt::net::{ConnectOptions, Datagram};
use tidegate_rt::timer::Deadline;
use tidegate_rt::{clock, share};
use tidegate_upstream::peers::{Outcome, Peer};
use tidegate_upstream::{ConnectError, SharedReport, os_error};

use super::run::{AttemptOutcome, ServerTries, failed, header};
use super::settings::Settings;

/// The largest datagram (RFC 768).
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The end of a session of datagrams.
enum End {
    /// All expected responses have arrived, or no more are expected.
    Done,
    TimedOut,
    /// The server's side failed.
    Failed(io::Error),
    /// A response cannot be sent to the client, which says nothing about the server.
    ClientFailed(io::Error),
}

/// Opens a socket to a server and passes datagrams.
///
/// Invariant: the socket is connected, so that received datagrams are the server's and the operating system reports a
/// port without a listener. A sent datagram may have arrived, so then no other server is tried; only a socket that
/// cannot be made is a failed attempt.
///
/// Cancelling: there is one await; dropping it there closes the socket, and datagrams that the server sends
/// afterwards are lost, as datagrams may be.
///
/// `proxy_requests`, `proxy_responses`, `proxy_timeout`, `proxy_protocol`, the rates.
pub(super) async fn attempt(
    x: &mut Exchange,
    settings: &Settings,
    tries: &ServerTries<'_>,
    peer: &Peer,
    (report, options, client): (&SharedReport, ConnectOptions, Rc<dyn Datagrams>),
) -> AttemptOutcome {
    let address = &peer.address;
    let origin = match Datagram::connect(address, &options) {
        Ok(origin) => Rc::new(origin),
        Err(error) => {
            let error = ConnectError::Failed(error);
            return failed(x, tries, (peer, clock::now()), &error);
        }
    };
    if let Some(attempt) = report.borrow_mut().last() {
        attempt.connected(clock::now());
    }
    x.progress.action = "proxying connection";
    let mut first = header(x, settings.protocol, true);
    first.extend_from_slice(x.session().map_or(&[], |session| &session.input));
    let now = clock::exact_now();
    let mut exchange = Passing {
        expected: Expected {
            requests: settings.requests,
            responses: settings.responses,
            timeout: settings.timeout,
        },
        client,
        origin,
        report,
        requests: 0,
        responses: 0,
        traffic: x.session().map(|session| session.origin_traffic.clone()).unwrap_or_default(),
        up: Rate::new(settings.upload_rate(x), GrantInterval::Seconds, now),
        down: Rate::new(settings.download_rate(x), GrantInterval::Seconds, now),
        is_held: false,
    };
    let idle = Deadline::new();
    let end = match exchange.upward(&first) {
        Err(error) => End::Failed(error),
        Ok(()) => {
            idle.set_after(settings.timeout);
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            let origin = exchange.origin.clone();
            let mut broken = std::pin::pin!(origin.failed());
            poll_fn(|context| match broken.as_mut().poll(context) {
                Poll::Ready(error) => Poll::Ready(End::Failed(error)),
                Poll::Pending => exchange.poll(context, &mut buffer, &idle),
            })
            .await
        }
    };
    settle(x, tries, (peer, clock::now()), &exchange, end)
}

/// Applies an end to the server and the session.
fn settle(
    x: &mut Exchange,
    tries: &ServerTries<'_>,
    (peer, now): (&Peer, Instant),
    passing: &Passing<'_>,
    end: End,
) -> AttemptOutcome {
    match end {
        End::Done => {
            tries.report(peer, Outcome::Success, now);
            log_end(x, &packets(passing, "udp done"));
            AttemptOutcome::Status(200)
        }
        End::TimedOut if passing.has_enough() || passing.expected.responses.is_none() => {
            tries.report(peer, Outcome::Success, now);
            log_end(x, &packets(passing, "udp timed out"));
            AttemptOutcome::Status(200)
        }
        End::TimedOut => {
            x.log(Level::Error, format_args!("upstream timed out (110: Connection timed out)"));
            tries.report(peer, Outcome::Failure, now);
            AttemptOutcome::Status(502)
        }
        End::ClientFailed(error) => {
            let error = os_error(&error);
            x.log(Level::Info, format_args!("send() failed ({error})"));
            tries.report(peer, Outcome::Success, now);
            AttemptOutcome::Status(200)
        }
        End::Failed(error) => {
            let error = os_error(&error);
            x.progress.action = "proxying and reading from upstream";
            x.log(Level::Error, format_args!("recv() failed ({error})"));
            tries.report(peer, Outcome::Failure, now);
            // A sent datagram may have arrived: no other server gets it.
            AttemptOutcome::Status(502)
        }
    }
}

fn packets(passing: &Passing<'_>, what: &str) -> String {
    let (up, down) = (passing.requests, passing.responses);
    format!("{what}, packets from/to client:{up}/{down}")
}

/// What ends a session.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// `proxy_requests`; 0 for no limit.
    requests: u64,
    /// `proxy_responses`; `None`: any number.
    responses: Option<u64>,
    /// `proxy_timeout`.
    timeout: Duration,
}

struct Passing<'s> {
    expected: Expected,
    client: Rc<dyn Datagrams>,
    origin: Rc<Datagram>,
    report: &'s SharedReport,
    /// Number of datagrams from the client and from the origin.
    requests: u64,
    responses: u64,
    /// Bytes to and from the origin.
    traffic: Rc<Traffic>,
    /// Limits in bytes a second: a datagram is read only when both allow it.
    up: Option<Rate>,
    down: Option<Rate>,
    /// One of them delays its direction.
    is_held: bool,
}

impl Drop for Passing<'_> {
    /// Reports the bytes, where the session is aborted as well.
    fn drop(&mut self) {
        if let Some(attempt) = self.report.borrow_mut().last() {
            attempt.bytes_sent = self.traffic.sent.get();
            attempt.bytes_received = self.traffic.received.get();
        }
    }
}

fn add(count: &Cell<u64>, bytes: &[u8]) {
    count.set(count.get() + bytes.len() as u64);
}

fn may_take(rate: Option<&Rate>, context: &mut Context<'_>, taken: u64) -> bool {
    rate.is_none_or(|rate| rate.poll_allowance(context, taken).is_ready())
}

impl Passing<'_> {
    fn upward(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.requests += 1;
        if self.expected.requests > 0 && self.requests >= self.expected.requests {
            // The client's next datagram begins another session.
            self.client.release();
        }
        match self.origin.try_send(bytes, None) {
            Ok(_) => add(&self.traffic.sent, bytes),
            // The socket's queue is full: lost, as anywhere on its way.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns whether all responses expected by now have arrived.
    fn has_enough(&self) -> bool {
        let expected = self.expected.responses.map(|each| each.saturating_mul(self.requests));
        expected.is_some_and(|expected| self.responses >= expected)
    }

    fn is_done(&self) -> bool {
        let all = self.expected.requests == 0 || self.requests >= self.expected.requests;
        all && self.has_enough()
    }

    /// Passes datagrams that are ready, until the session ends.
    ///
    /// States, defined by the counts alone: open; released, when the client has sent `proxy_requests` datagrams and
    /// its next one begins another session; done, when each of them has its `proxy_responses` and no more may arrive.
    /// `proxy_timeout` counts from the last datagram of either direction. An iteration reads one datagram each way,
    /// so that neither direction starves the other.
    fn poll(&mut self, context: &mut Context<'_>, buffer: &mut [u8], idle: &Deadline) -> Poll<End> {
        while share::poll(context).is_ready() {
            if self.is_done() {
                return Poll::Ready(End::Done);
            }
            match self.exchange(context, buffer) {
                Err(end) => return Poll::Ready(end),
                // A limit on the rate holds datagrams back: that is no silence.
                Ok(false) if self.is_held => {
                    idle.set_after(self.expected.timeout);
                    return Poll::Pending;
                }
                Ok(false) => return idle.poll_elapsed(context).map(|()| End::TimedOut),
                Ok(true) => idle.set_after(self.expected.timeout),
            }
        }
        Poll::Pending
    }

    /// Passes one datagram of each direction; `Ok(false)` when there was none.
    fn exchange(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Result<bool, End> {
        let mut moved = false;
        let released = self.expected.requests > 0 && self.requests >= self.expected.requests;
        let may_go_up = released || may_take(self.up.as_ref(), context, self.traffic.sent.get());
        let may_go_down = may_take(self.down.as_ref(), context, self.traffic.received.get());
        self.is_held = !may_go_up || !may_go_down;
        if may_go_up
            && !released
            && let Poll::Ready(bytes) = self.client.poll_receive(context)
        {
            self.upward(&bytes).map_err(End::Failed)?;
            moved = true;
        }
        if may_go_down && let Poll::Ready(length) = self.origin.poll_receive(context, buffer) {
            let length = length.map_err(End::Failed)?;
            self.responses += 1;
            if self.responses == 1
                && let Some(attempt) = self.report.borrow_mut().last()
            {
                attempt.first_byte_received(clock::now());
            }
            add(&self.traffic.received, &buffer[..length]);
            self.client.send(&buffer[..length]).map_err(End::ClientFailed)?;
            moved = true;
        }
        Ok(moved)
    }
}
