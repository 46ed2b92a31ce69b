//! A fill from the owner of its key: its response is stored and streamed as one of the origin would be.

use std::sync::Arc;

use tidegate_cache::{FillWriter, Key, Times};
use tidegate_core::timeline::{self, TimelineRef};
use tidegate_rt::clock;
use tidegate_upstream::FetchError;

use crate::cache::decide::policy::{Refusal, Storable};
use crate::cache::fill::origin::{OriginFetch, OriginRequester};
use crate::cache::fill::task::{FillEventSender, FillTask, OriginReply, Source};
use crate::cache::ring::Ring;
use crate::cache::ring::ask::PeerResponse;
use crate::cache::ring::field::PeerTerms;
use crate::cache::ring::remarks::PeerRemarks;
use crate::cache::status::CacheStatus;

/// The source of a response that a peer has.
pub(super) struct FromPeer {
    terms: Option<PeerTerms>,
    remarks: PeerRemarks,
    /// When its request to the origin began, or earlier, in Unix milliseconds.
    pub began: u64,
    keeps: bool,
    ring: Arc<Ring>,
}

impl FromPeer {
    /// Returns how the response is stored at `now`, in Unix milliseconds.
    pub(super) fn judge(&self, now: u64) -> Result<Storable, Refusal> {
        let terms =
            self.terms.as_ref().ok_or(Refusal::ByPeer { always: self.remarks.unstorable })?;
        let PeerTerms { must_revalidate, vary, .. } = terms;
        let (must_revalidate, vary) = (*must_revalidate, vary.clone());
        Ok(Storable { times: terms.times(now), must_revalidate, vary })
    }

    /// Returns the source of a response with these times. What is stale is not kept.
    pub(super) fn source(self, times: Times, now: u64) -> Source {
        let stale = self.stale();
        Source::Peer { ring: self.ring, keeps: self.keeps && times.valid_until > now, stale }
    }

    /// Returns the status of a response that is stale on the peer.
    pub(super) fn stale(&self) -> Option<CacheStatus> {
        self.remarks.stale
    }
}

impl FillTask {
    /// Asks the owners of the key; `None`: the origin is to be asked. The error is that of the owner's origin.
    ///
    /// Cancelling: dropped with the fill's task.
    pub(super) async fn ask_peers(
        &mut self,
        origin_fetch: &OriginFetch,
        timeline: Option<TimelineRef>,
    ) -> Option<Result<PeerResponse, FetchError>> {
        let peers = self.peers.take()?;
        let asking = Box::pin(peers.ask(origin_fetch.report.clone(), origin_fetch.log.clone()));
        timeline::beside(timeline, asking).await
    }

    /// Handles the response of a peer as the origin's, which would be asked for the rest of it.
    pub(super) async fn handle_peer(
        &mut self,
        found: PeerResponse,
        origin: Option<OriginRequester>,
        writer: FillWriter,
        to: Option<FillEventSender>,
    ) {
        let PeerResponse { response, terms, remarks, began, keeps, ring } = found;
        let peer = Some(FromPeer { terms, remarks, began, keeps, ring });
        let at = clock::unix_millis();
        let received = OriginReply { response, is_head: false, origin, at, peer };
        self.handle_response(received, writer, to).await;
    }

    /// Notes that a response was stored.
    pub(super) fn note_stored(&self, from: Source, key: &Key) {
        match (from, &self.tier) {
            (Source::Origin, Some(tier)) => tier.stored(&self.main, key),
            (Source::Tier, Some(tier)) => tier.taken(key),
            (Source::Peer { ring, .. }, tier) => {
                ring.copied();
                if let Some(tier) = tier {
                    // It is the owner that shares it.
                    tier.taken(key);
                }
            }
            (_, None) => {}
        }
    }
}
