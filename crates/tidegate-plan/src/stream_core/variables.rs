//! Variables of sessions: those of connections, which requests have as well, and some for sessions alone.

use tidegate_core::exchange::Exchange;
use tidegate_core::session::Traffic;
use tidegate_core::variables::Variable;

use crate::http_core::variables::{SHARED, joined, put, put_number, put_seconds};

/// All variables of sessions.
pub(super) const VARIABLES: &[Variable] = &joined::<COUNT>(&[SHARED, OWN]);

const COUNT: usize = SHARED.len() + OWN.len();

const OWN: &[Variable] = &[
    Variable::fixed("bytes_received", "Bytes received from the client.", |x, out| {
        traffic(x, out, |traffic| traffic.received.get())
    }),
    Variable::fixed("bytes_sent", "Bytes sent to the client.", |x, out| {
        traffic(x, out, |traffic| traffic.sent.get())
    }),
    Variable::fixed(
        "session_time",
        "Seconds that the session lasted, with milliseconds.",
        |x, out| {
            let now = tidegate_rt::clock::unix_millis();
            put_seconds(now.saturating_sub(x.connection.accepted_unix_millis), out)
        },
    ),
    Variable::fixed("status", "Status of the response, or of the session.", |x, out| {
        put(Some(format!("{:03}", x.disposition.status()).as_bytes()), out)
    }),
    Variable::fixed("protocol", "Protocol of the session: `TCP` or `UDP`.", |x, out| {
        let datagram = x.session().is_some_and(|session| session.is_datagram());
        put(Some(if datagram { b"UDP" } else { b"TCP" }), out)
    }),
];

fn traffic(x: &mut Exchange, out: &mut Vec<u8>, of: fn(&Traffic) -> u64) -> bool {
    x.session().is_some_and(|session| put_number(of(&session.traffic), out))
}
