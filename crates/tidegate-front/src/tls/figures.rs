//! What is counted of handshakes, for `api`: in all, and in the status zone of the server.

use tidegate_core::client::TlsInfo;
use tidegate_core::figures::{HANDSHAKES, ServerZone, Tally, VERIFY_FAILURES, handshakes};
use tidegate_core::plan::Server;

/// What became of a handshake, by its name in [`HANDSHAKES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeEvent {
    Done,
    Failed,
    Reused,
    NoCommonProtocol,
    NoCommonCipher,
    Timeout,
    RejectedCertificate,
}

/// Counts a handshake that was completed; `requires` is whether the client has to show a certificate.
pub(super) fn done(server: &Server, known: &TlsInfo, requires: bool) {
    let fault = match &known.client {
        None => requires.then_some("no_cert"),
        Some(shown) => shown.fault.map(|fault| match (fault.number, fault.text) {
            (10, _) => "expired_cert",
            (23, _) | (0, "certificate revoked") => "revoked_cert",
            _ => "other",
        }),
    };
    each(server, |tally| {
        count(tally, HandshakeEvent::Done);
        if known.session_reused {
            count(tally, HandshakeEvent::Reused);
        }
        let place = VERIFY_FAILURES.iter().position(|name| Some(*name) == fault);
        if let Some(place) = place {
            tally.count(HANDSHAKES.len() + place);
        }
    });
}

/// Counts a handshake that failed, and why where that has a name.
pub(super) fn failed(server: &Server, why: Option<HandshakeEvent>) {
    each(server, |tally| {
        count(tally, HandshakeEvent::Failed);
        if let Some(why) = why {
            count(tally, why);
        }
    });
}

fn each(server: &Server, add: impl Fn(&Tally)) {
    add(handshakes());
    if let Some(ServerZone(zone)) = server.extensions.of() {
        add(zone.handshakes());
    }
}

fn count(tally: &Tally, event: HandshakeEvent) {
    tally.count(event as usize);
}
