//! The part of a session that is about the servers whose caches are one with this (`*_cache_peers`).

use std::sync::Arc;

use tidegate_codec::request::Method;
use tidegate_core::exchange::Filtering;
use tidegate_core::{Body, Exchange, Step};
use tidegate_rt::clock;
use tidegate_upstream::peers::Peer;

use super::CacheSession;
use crate::cache::decide::decision::Input;
use crate::cache::lookup::CacheLookup;
use crate::cache::ring::ask::{PeerQuery, PeerQuestion};
use crate::cache::ring::field;
use crate::cache::ring::serve::{failure_field, is_of_peer, may_ask};
use crate::slice;

impl CacheSession {
    /// Returns the input for the decision. Where a peer is asked, it is the owner that counts uses.
    ///
    /// A fill of a key with too few uses may run: one that asks the owner, or whose request does not use what is
    /// stored. A request beside it fetches, and stores no more than without it.
    pub(super) fn input(&mut self, x: &Exchange, lookup: &CacheLookup, now: u64) -> Input {
        let input = lookup.input(x, self.terms.as_ref(), now);
        let input = if self.would_wait_for_peer(x, lookup) { input.beside_fill() } else { input };
        let is_stored = matches!(input, Input::Found(_));
        self.too_early = !is_stored && lookup.uses() < self.cache.rules.min_uses;
        match input {
            Input::Absent { .. } if self.too_early && self.asks(lookup, now) => {
                Input::Absent { uses: u32::MAX }
            }
            _ => input,
        }
    }

    /// Returns whether there are owners to be asked, and the key's responses are stored.
    fn asks(&self, lookup: &CacheLookup, now: u64) -> bool {
        !self.owners.is_empty() && !lookup.is_uncacheable(now)
    }

    /// Returns the servers that may have the response of this request: none for a request of one of them, and for those that
    /// would not find the same key there.
    pub(super) fn owners_of(&self, x: &Exchange) -> Vec<Arc<Peer>> {
        let Some(ring) = &self.cache.ring else { return Vec::new() };
        let is_whole = match x.request.method {
            Method::Get => true,
            Method::Head => self.cache.convert_head,
            _ => false,
        };
        let may_ask = is_whole
            && !x.request.body.is_present()
            && !x.is_subrequest()
            && !slice::is_part(x)
            && may_ask(x);
        if may_ask { ring.owners(&self.main, clock::now()) } else { Vec::new() }
    }

    /// Returns whether this is the request of a peer, and the running fill asks a peer as well.
    fn would_wait_for_peer(&self, x: &Exchange, lookup: &CacheLookup) -> bool {
        let is_headless = lookup.fill.as_ref().is_some_and(|fill| fill.head_now().is_none());
        is_headless
            && is_of_peer(x)
            && self.cache.ring.as_ref().is_some_and(|ring| ring.is_asking(&self.main))
    }

    /// Returns the question for the owners of the key; `None` where there are none, or its responses are not stored.
    pub(super) fn peer_query(
        &self,
        x: &Exchange,
        lookup: &CacheLookup,
        tries: u32,
        now: u64,
    ) -> Option<PeerQuery> {
        let ring = self.cache.ring.as_ref().filter(|_| self.asks(lookup, now))?;
        let question = PeerQuestion {
            main: &self.main,
            bypass: self.bypass,
            // An older response that is stored here, or arrives, is replaced.
            keeps: !self.too_early
                && (lookup.generation.is_some()
                    || lookup.fill.is_some()
                    || ring.is_hot(lookup.uses())),
            settings: &self.gateway.fetch_settings(),
            tries,
            tag_headers: &self.cache.tag_headers,
            purged: &self.zone.purged,
        };
        PeerQuery::of(x, ring, &self.owners, question)
    }
}

/// Returns the response where the origin has failed: a peer learns it, instead of getting a page of this server's clients, and fails
/// in the same way.
pub(super) fn failed<'a>(x: &mut Exchange, step: Step<'a>) -> Step<'a> {
    let Step::Status(status @ (502 | 504)) = step else { return step };
    let Some(field) = failure_field(x) else { return step };
    x.clear_response();
    x.disposition.set_status(status);
    x.response.headers.push(field::NAME, &field);
    x.response.content_length = Some(0);
    x.delivery.filtering = Filtering::Unchanged;
    Step::Respond(Body::Empty)
}
