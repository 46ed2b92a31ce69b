//! Requests of peers: whether they are any, and their responses.

use std::sync::Arc;

use tidegate_cache::{Key, KeyHash, Times};
use tidegate_codec::request::Method;
use tidegate_core::Exchange;
use tidegate_core::client::Address;
use tidegate_core::plan::{LocationId, Plan};

use super::Ring;
use super::enter::{self, MarkedClaim, PeerMark, RingGroups};
use super::field::PeerTerms;
use super::remarks::{PeerRemarks, STALE};
use crate::cache::meta::Meta;
use crate::cache::status::CacheNote;

/// The request of a peer; in the exchange's extensions.
struct PeerRequest {
    ring: Arc<Ring>,
    key: KeyHash,
    bypass: bool,
    /// The location where the key was compared and found equal: a response that is made there is one for a peer.
    compared: Option<LocationId>,
    /// How the response is stored here.
    terms: Option<PeerTerms>,
    remarks: PeerRemarks,
}

/// Makes a request in a location with peers one of this ring, where it comes from an address of the ring's group. What it
/// causes besides, as subrequests, is a matter of this server.
pub(crate) fn enter(x: &mut Exchange, ring: &Arc<Ring>) {
    let Some(claim) = x.modules.extensions.of::<PeerMark>().and_then(|mark| mark.claim) else {
        return;
    };
    let known = x.modules.extensions.of::<PeerRequest>();
    let is_peer = match &x.connection.peer {
        Address::Inet(address) => ring.group.has_ip(address.ip()),
        Address::Unix(_) => false,
    };
    if known.is_some_and(|known| Arc::ptr_eq(&known.ring, ring)) || !is_peer {
        return;
    }
    ring.kept.figures.requests.add(1);
    let (ring, MarkedClaim { key, bypass }) = (ring.clone(), claim);
    let (compared, terms, remarks) = (None, None, PeerRemarks::default());
    x.modules.extensions.insert(PeerRequest { ring, key, bypass, compared, terms, remarks });
}

/// Returns whether the configuration has rings: then the field is never an origin's.
pub(crate) fn has_rings(plan: &Plan) -> bool {
    !plan.entering.is_empty() && plan.extensions.of::<RingGroups>().is_some()
}

/// An origin has redirected the request to another location of this server (`X-Accel-Redirect`).
struct Redirected;

/// Notes that an origin has redirected the request to another location of this server.
pub(crate) fn note_redirect(x: &mut Exchange) {
    if has_rings(&x.plan) {
        x.modules.extensions.insert(Redirected);
    }
}

/// Returns whether a request may ask peers: it did not come with the field, from a peer or from another sender, which may be
/// this server; the client has no certificate, which a peer would not see (`$ssl_client_verify`); and it is the client's own
/// request, which nothing was responded to so far (`error_page`, `X-Accel-Redirect`, `post_action`): the peer gets it as it
/// arrived.
pub(crate) fn may_ask(x: &Exchange) -> bool {
    let has_certificate = x.connection.tls.as_ref().is_some_and(|tls| tls.client.is_some());
    let is_own = matches!(x.request.head.method, Method::Get | Method::Head)
        && !x.disposition.has_error_page()
        // Behind a response there is a `post_action`.
        && x.outcome.bytes_sent == 0
        && x.modules.extensions.of::<Redirected>().is_none();
    is_own && !has_certificate && !enter::is_marked(x)
}

/// Returns whether a request is one of a peer, which does not wait for a fill that asks one.
pub(crate) fn is_of_peer(x: &Exchange) -> bool {
    x.modules.extensions.of::<PeerRequest>().is_some()
}

/// Compares the key of a request with that of the peer; `false`: the peer means another response.
pub(crate) fn agrees(x: &mut Exchange, main: &Key) -> bool {
    let here = x.routing.location;
    let Some(request) = request_mut(x) else { return true };
    let is_same = request.key == *main.hash();
    request.compared = is_same.then_some(here);
    if !is_same {
        request.ring.kept.figures.mismatches.add(1);
    }
    is_same
}

/// Returns whether a peer does not want stored responses.
pub(crate) fn bypasses(x: &Exchange) -> bool {
    known(x).is_some_and(|request| request.bypass)
}

/// Notes how the response of a request is stored, for a peer. `now` is in Unix milliseconds.
pub(crate) fn note_terms(x: &mut Exchange, meta: &Meta, times: Times, now: u64) {
    let Some(request) = request_mut(x) else { return };
    // When another server asked the origin is not known on this server's clock.
    let age = (!meta.from_tier).then(|| now.saturating_sub(meta.requested_at));
    let terms = PeerTerms::of(times, now).with_age(age);
    let (must_revalidate, vary) = (meta.must_revalidate, meta.vary.clone());
    request.terms = Some(PeerTerms { must_revalidate, vary, ..terms });
}

/// Returns the field of the response to a peer; `None` for a client, which gets an ordinary response.
pub(crate) fn response_field(x: &mut Exchange) -> Option<Vec<u8>> {
    known(x)?;
    let status = x.modules.extensions.of::<CacheNote>().map(|note| note.status);
    let request = request_mut(x)?;
    let terms = request.terms.take();
    let mut text = PeerTerms::text(terms.as_ref(), &request.ring.own);
    if text.len() == request.ring.own.len() {
        // Without terms the response is that of this very request, or its terms are too long.
        request.remarks.age = Some(terms.map_or(0, |terms| terms.age));
    }
    request.remarks.stale = status.filter(|status| STALE.contains(status));
    request.remarks.append(&mut text);
    Some(text)
}

/// Notes what a peer learns about the response.
pub(crate) fn remark(x: &mut Exchange, change: impl FnOnce(&mut PeerRemarks)) {
    if let Some(request) = request_mut(x) {
        change(&mut request.remarks);
    }
}

/// Returns the field of a response to a peer that says that the origin has failed; `None` for a client.
pub(crate) fn failure_field(x: &Exchange) -> Option<Vec<u8>> {
    let mut text = PeerTerms::text(None, &known(x)?.ring.own);
    PeerRemarks { failed: true, ..PeerRemarks::default() }.append(&mut text);
    Some(text)
}

/// Returns the request of a peer; without a search where there are no rings.
fn request_mut(x: &mut Exchange) -> Option<&mut PeerRequest> {
    let has_none = x.plan.entering.is_empty();
    if has_none { None } else { x.modules.extensions.of_mut() }
}

fn known(x: &Exchange) -> Option<&PeerRequest> {
    if x.plan.entering.is_empty() {
        return None;
    }
    let here = x.routing.location;
    x.modules.extensions.of::<PeerRequest>().filter(|request| request.compared == Some(here))
}
