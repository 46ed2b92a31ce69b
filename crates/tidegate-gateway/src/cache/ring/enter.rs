//! The begin of a request in a server with rings: `Cache-Peer` is taken out of it, so that no origin sees it, whatever the
//! location, and counts where it comes from an address of a ring's group. That is before `realip` and all variables.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_cache::KeyHash;
use tidegate_codec::Headers;
use tidegate_codec::request::Version;
use tidegate_core::client::{Address, Client, ClientAddress};
use tidegate_core::{Exchange, Level, Step};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_store::Lines;
use tidegate_upstream::Group;

use super::field::{self, PeerClaim};

/// The groups of all rings of a plan.
#[derive(Default)]
pub(super) struct RingGroups {
    groups: Vec<Arc<Group>>,
    lines: Mutex<Lines>,
}

/// A request that came with the field; in the exchange's extensions. It asks no peer, also where no peer has sent it.
pub(super) struct PeerMark {
    /// What a peer claims; `None` where the sender is none.
    pub claim: Option<MarkedClaim>,
}

/// The part of a claim that concerns the cache of a location.
#[derive(Clone, Copy)]
pub(super) struct MarkedClaim {
    pub key: KeyHash,
    pub bypass: bool,
}

/// Adds the group of a ring to those whose servers are peers.
pub(super) fn trust(group: &Arc<Group>, plan: &mut PlanBuilder<'_>) {
    if plan.extensions.of::<RingGroups>().is_none() {
        plan.entering.push(Arc::new(enter));
    }
    let known = &mut plan.extensions.entry::<RingGroups>().groups;
    if !known.iter().any(|one| Arc::ptr_eq(one, group)) {
        known.push(group.clone());
    }
}

/// Returns whether a request came with the field: it asks no peer.
pub(super) fn is_marked(x: &Exchange) -> bool {
    x.modules.extensions.of::<PeerMark>().is_some()
}

/// Takes the field out of a request. The sender is the connection's, whatever a proxy in front reports.
fn enter(x: &mut Exchange) -> Step<'_> {
    let Some(value) = x.request.head.headers.first_named(field::NAME) else {
        return Step::Decline;
    };
    let claim = PeerClaim::parse(value);
    x.request.head.headers.remove_named(field::NAME);
    // Peers speak HTTP/1 over TCP: an address of QUIC may not be validated yet.
    let is_plain = matches!(x.request.version(), Version::H10 | Version::H11);
    let claim = claim.filter(|_| is_plain && is_of_group(x));
    if let Some(claim) = &claim {
        x.request.came_by_tls = claim.https;
        // What a proxy reports about the peer itself does not count: the request has an address already.
        let client = claim.client.as_ref().unwrap_or(&x.connection.peer);
        x.request.real_client_address = Some(Rc::new(ClientAddress::from(client.clone())));
    }
    let accepted = claim.is_some() && x.request.version() >= Version::H11;
    let claim = claim.map(|PeerClaim { key, bypass, .. }| MarkedClaim { key, bypass });
    x.modules.extensions.insert(PeerMark { claim });
    match accepted {
        true => Step::Wait(Box::pin(acknowledge(x.client.clone()))),
        false => Step::Decline,
    }
}

/// Tells a peer that its request is being served, in front of all that may wait: limits, `auth_request`, purges, the origin.
async fn acknowledge(client: Rc<dyn Client>) -> Step<'static> {
    // A peer that has gone is noticed by the response.
    let _ = client.send_interim(103, &Headers::new()).await;
    Step::Decline
}

/// Returns whether a request comes from a server of a ring. Another sender is logged: a client that tries, or a peer whose
/// address the group does not have.
fn is_of_group(x: &Exchange) -> bool {
    let Some(known) = x.plan.extensions.of::<RingGroups>() else { return false };
    let is_peer = match &x.connection.peer {
        Address::Inet(address) => known.groups.iter().any(|group| group.has_ip(address.ip())),
        Address::Unix(_) => false,
    };
    if !is_peer {
        let peer = x.connection.peer_text();
        let reason: Arc<str> = format!("{peer} is no cache peer: no group has its address").into();
        let mut lines = known.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.allow(&reason, clock::now()) {
            drop(lines);
            x.log(Level::Warn, format_args!("{reason}"));
        }
    }
    is_peer
}
