//! What is counted of handshakes, for `api`: in all, and in the status zone of the server.

use tidegate_core::client::{Connection, TlsInfo};
use tidegate_core::figures::{HANDSHAKES, Tally, VERIFY_FAILURES, Zone, handshakes};
use tidegate_core::plan::ServerId;
use tidegate_core::status_zone::{ServerZone, Target};

use super::chosen::HandshakeOwner;

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

/// The server of a handshake, and what is known of the client.
pub(super) struct Handshake<'a, 'x> {
    pub(super) owner: &'a mut HandshakeOwner<'x>,
    pub(super) server: ServerId,
    pub(super) connection: &'a Connection,
    pub(super) known: &'a TlsInfo,
}

impl Handshake<'_, '_> {
    /// Counts it as completed; `requires` is whether the client has to show a certificate.
    pub(super) fn done(self, requires: bool) {
        let known = self.known;
        let fault = match &known.client {
            None => requires.then_some("no_cert"),
            Some(shown) => shown.fault.map(|fault| match (fault.number, fault.text) {
                (10, _) => "expired_cert",
                (23, _) | (0, "certificate revoked") => "revoked_cert",
                _ => "other",
            }),
        };
        self.each(|tally| {
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

    /// Counts it as failed, and why where that has a name.
    pub(super) fn failed(self, why: Option<HandshakeEvent>) {
        self.each(|tally| {
            count(tally, HandshakeEvent::Failed);
            if let Some(why) = why {
                count(tally, why);
            }
        });
    }

    fn each(self, add: impl Fn(&Tally)) {
        add(handshakes());
        if let Some(zone) = self.zone() {
            add(zone.handshakes());
        }
    }

    /// Returns the zone of the server. Values of variables are those that the handshake has: there is no request yet.
    fn zone(self) -> Option<&'static Zone> {
        let plan = self.owner.plan();
        let ServerZone(target) = plan.server(self.server).extensions.of()?;
        match &**target {
            Target::Fixed(zone) => Some(zone),
            Target::Keyed(..) => {
                let Handshake { owner, server, connection, known } = self;
                owner.with_exchange(server, connection, known, |x| target.zone(x))
            }
        }
    }
}

fn count(tally: &Tally, event: HandshakeEvent) {
    tally.count(event as usize);
}
