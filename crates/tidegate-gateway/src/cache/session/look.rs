//! The lookups of a session.

use tidegate_core::Exchange;
use tidegate_core::timeline::{Cause, blame};
use tidegate_rt::clock;

use super::CacheSession;
use crate::cache::lookup::{self, CacheLookup, filling_of};

impl CacheSession {
    /// Looks up, opening files as needed.
    pub(super) async fn look(&mut self, x: &Exchange, now: u64) -> CacheLookup {
        let lookup = self.look_once(x, now).await;
        self.settled(x, lookup, clock::unix_millis()).await
    }

    /// Waits for the object of a fill that is complete but may not be served to this request as it is: the object,
    /// which is stored in a moment, may suit it (`max-stale`), or has validators.
    pub(super) async fn settled(
        &mut self,
        x: &Exchange,
        lookup: CacheLookup,
        now: u64,
    ) -> CacheLookup {
        let Some(fill) = lookup.fill.as_ref() else { return lookup };
        let filling = filling_of(x, fill, self.terms.as_ref(), now);
        // By nginx's rules a response that is stale on arrival is for the requests that waited for it.
        let is_stale = || fill.head_now().is_some_and(|head| head.times.valid_until <= now);
        if !filling.whole || filling.joinable && (self.terms.is_some() || !is_stale()) {
            return lookup;
        }
        blame(Cause::Disk, fill.placed()).await;
        self.look_once(x, clock::unix_millis()).await
    }

    async fn look_once(&mut self, x: &Exchange, now: u64) -> CacheLookup {
        let request = &x.request.head.headers;
        lookup::look(&self.store, &self.main, request, &mut self.counted, now).await
    }
}
