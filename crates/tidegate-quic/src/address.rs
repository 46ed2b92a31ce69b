//! The address of a peer that may migrate (RFC 9000 section 9).
//!
//! The transport sends to a new address as soon as a packet has arrived from it, while it validates the path; it does
//! not report the end of the validation. Rules of access and limits must see an address only when the peer can receive
//! there: a packet with a forged sender would else pass as the victim's. Two things show the end:
//!
//! - The transport repeats its challenge in each packet until the path is validated. So a packet of frames without a
//!   challenge shows that it is ([`Sent`]). A PING makes sure that there is one.
//! - An address that is not validated within three PTOs is given up by the transport (section 8.2.4). So an address that
//!   has lasted for longer is valid.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time by which an acknowledgment is delayed (RFC 9000 section 18.2, `max_ack_delay`).
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);
/// The round trips of a PTO: the smoothed time, and four times a variance of at most half of it (RFC 9002 section 6.2.1).
const ROUND_TRIPS_OF_PTO: u32 = 3;
/// The PTOs within which a path is validated or given up.
const PTOS: u32 = 3;

/// The last validated address of a peer, and the one that may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress {
    valid: SocketAddr,
    /// The address that packets are sent to, and when it is valid, if it is still in use then.
    next: Option<(SocketAddr, Instant)>,
}

/// What a connection has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Frames that are written into packets with a challenge, if there is one: ACK, PING, STREAM.
    pub(crate) frames: u64,
    /// PATH_CHALLENGE.
    pub(crate) challenges: u64,
    /// Packets that probe for the path's size, which have a PING and never a challenge.
    pub(crate) probes: u64,
}

impl PeerAddress {
    /// Makes the address of a connection that begins; the handshake validates it (section 8.1).
    pub(crate) fn new(address: SocketAddr) -> PeerAddress {
        PeerAddress { valid: address, next: None }
    }

    /// Returns the last validated address.
    pub(crate) fn valid(&self) -> SocketAddr {
        self.valid
    }

    /// Whether the peer may have moved to an address that is not validated.
    pub(crate) fn is_moving(&self) -> bool {
        self.next.is_some()
    }

    /// Packets were sent to the address that is not validated; the figures are those before and behind them.
    pub(crate) fn sent(&mut self, before: Sent, behind: Sent) {
        let is_shown = behind.frames > before.frames
            && behind.challenges == before.challenges
            && behind.probes == before.probes;
        if let (true, Some((address, _))) = (is_shown, self.next) {
            *self = PeerAddress::new(address);
        }
    }

    /// Notes the address that packets are sent to at `now`, over a path whose smoothed round trip takes `round_trip`.
    pub(crate) fn observe(&mut self, used: SocketAddr, now: Instant, round_trip: Duration) {
        match self.next {
            _ if used == self.valid => self.next = None,
            Some((address, at)) if address == used => {
                if now >= at {
                    *self = PeerAddress::new(used);
                }
            }
            _ => {
                let pto = round_trip * ROUND_TRIPS_OF_PTO + ACK_DELAY_MAX;
                self.next = Some((used, now + pto * PTOS));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_address_is_valid_when_it_has_outlived_its_validation() {
        let [a, b, c] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let (start, trip) = (tidegate_rt::clock::exact_now(), Duration::from_millis(10));
        let at = |millis| start + Duration::from_millis(millis);
        // Three PTOs of 55 ms.
        for (steps, expected) in [
            (vec![(b, 0), (b, 164)], a),
            (vec![(b, 0), (b, 165)], b),
            // Given up by the transport.
            (vec![(b, 0), (a, 100), (b, 200), (b, 300)], a),
            // Another one: its time begins anew.
            (vec![(b, 0), (c, 100), (c, 200)], a),
            (vec![(b, 0), (c, 100), (c, 265)], c),
            (vec![(b, 0), (b, 165), (a, 170), (a, 200)], b),
        ] {
            let mut address = PeerAddress::new(a);
            for (used, millis) in &steps {
                address.observe(*used, at(*millis), trip);
            }
            assert_eq!(address.valid(), expected, "{steps:?}");
        }
    }

    #[test]
    fn packets_without_a_challenge_show_a_valid_address() {
        let [a, b] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let start = tidegate_rt::clock::exact_now();
        let sent = |frames, challenges, probes| Sent { frames, challenges, probes };
        for (behind, expected) in [
            (sent(5, 2, 1), a),
            (sent(6, 3, 1), a),
            (sent(6, 2, 2), a),
            (sent(7, 3, 2), a),
            (sent(6, 2, 1), b),
        ] {
            let mut address = PeerAddress::new(a);
            address.sent(sent(4, 2, 1), behind);
            assert_eq!(address.valid(), a, "it has not moved");
            address.observe(b, start, Duration::from_millis(10));
            assert!(address.is_moving());
            address.sent(sent(5, 2, 1), behind);
            assert_eq!(address.valid(), expected, "{behind:?}");
        }
    }
}
