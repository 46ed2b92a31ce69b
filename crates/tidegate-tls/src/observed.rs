//! Facts of a handshake that the library does not show after it: the session's number and the algorithms of both
//! signatures. Its callbacks (keys, session storage, tickets, verifiers) note them while the handshake runs.
//!
//! ```text
//! observe(handshake) ── each poll: this thread's record belongs to it ──> (result, Observed)
//! observe_part(record, work) ── the same of one step, over QUIC
//!                                   └─ callbacks: stored, ticket_sent, signed, verified
//! ```

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// The facts of one handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The key under which the session was stored; empty without a cache.
    pub(crate) stored: Vec<u8>,
    /// Whether a ticket was made.
    pub(crate) ticket_sent: bool,
    /// The algorithm of this side's signature (IANA registry "TLS SignatureScheme"); 0 where it has signed nothing.
    pub(crate) own_scheme: u16,
    /// Likewise of the peer's signature.
    pub(crate) peer_scheme: u16,
}

thread_local! {
    /// The record of the handshake that is being polled.
    static CURRENT: RefCell<Option<Observed>> = const { RefCell::new(None) };
}

/// Runs a handshake, and returns what its callbacks have noted. Handshakes of a thread alternate: the thread's record
/// is this handshake's during its polls alone.
pub(crate) async fn observe<T>(handshake: impl Future<Output = T>) -> (T, Observed) {
    let mut handshake = pin!(handshake);
    let mut observed = Observed::default();
    let result =
        poll_fn(|context| observe_part(&mut observed, || handshake.as_mut().poll(context))).await;
    (result, observed)
}

/// Runs a part of a handshake, whose callbacks add to `observed`.
pub(crate) fn observe_part<T>(observed: &mut Observed, part: impl FnOnce() -> T) -> T {
    CURRENT.replace(Some(std::mem::take(observed)));
    let result = part();
    *observed = CURRENT.take().unwrap_or_default();
    result
}

/// Notes a fact, where a handshake is observed.
pub(crate) fn note(set: impl FnOnce(&mut Observed)) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(observed) = current {
            set(observed);
        }
    });
}

/// A key that notes the algorithms of its signatures.
#[derive(Debug)]
pub(crate) struct ObservedKey(pub(crate) Arc<dyn SigningKey>);

#[derive(Debug)]
struct ObservedSigner(Box<dyn Signer>);

impl SigningKey for ObservedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(ObservedSigner(self.0.choose_scheme(offered)?)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl Signer for ObservedSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        note(|observed| observed.own_scheme = u16::from(self.0.scheme()));
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}
