//! One request with the cache that is not a fresh hit in memory: looks up, steps its decision and carries it out,
//! until there is a response.
//!
//! ```text
//!            ┌── Look ◄──────────────── the wait has ended
//!            ▼
//!   lookup ──► decision ──► Wait ──► Join a fill ─────────────► Respond
//!                 │                                              ▲ ▲ ▲
//!                 ├──► Serve, Pass, Refuse, Leave ───────────────┘ │ │
//!                 └──► Ask ──► fill/task ──► Read its fill ────────┘ │
//!                                   └──► Pass, Serve, Failed ────────┘
//! ```
//! Before a fill is joined, read, waited for or begun, a range may be fetched separately: [`range`], and nowhere
//! else.
//!
//! Cancelling: a session is dropped when its client leaves. It owns no fill: one that has begun continues in its own
//! task. Until the task is started the session holds the writer, and dropping that ends the fill for its waiters.

mod look;
mod peers;
mod range;

use std::sync::Arc;
use std::time::Duration;

use tidegate_cache::{BreakReason, Fill, FillReader, FillWriter, Key, OpenEntry, Store};
use tidegate_codec::Known;
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_codec::date::parse_http;
use tidegate_codec::request::Method;
use tidegate_core::exchange::Conditions;
use tidegate_core::template::any_is_true;
use tidegate_core::timeline::Timeline;
use tidegate_core::{Exchange, Level, Step};
use tidegate_rt::clock;
use tidegate_rt::sync::mpsc;
use tidegate_upstream::LogContext;
use tidegate_upstream::peers::Peer;

use crate::cache::config::settings::CacheSettings;
use crate::cache::config::zones::Zone;
use crate::cache::decide::decision::{CacheDecision, Input, Output, Sharing};
use crate::cache::fill::origin::OriginFetch;
use crate::cache::fill::task::{FillEvent, FillTask, next_event, start};
use crate::cache::fill::uncacheable::let_others_ask;
use crate::cache::gateway::{FillRequestOptions, Gateway, switches};
use crate::cache::lookup::{self, CacheLookup, CountedUses, filling_of};
use crate::cache::meta::decoded;
use crate::cache::ring::serve::remark;
use crate::cache::serve::{entry, fill_body, passed, wait};
use crate::cache::status::{CacheStatus, note};
use peers::failed;

/// A request that is not a fresh hit in memory.
pub(super) struct CacheSession {
    pub cache: Arc<CacheSettings>,
    pub gateway: Arc<dyn Gateway>,
    pub store: Store,
    pub zone: Arc<Zone>,
    /// The key of this location and request, without a variant.
    pub main: Key,
    pub decision: CacheDecision,
    /// The request's terms, with `proxy_cache_rfc9111`.
    pub terms: Option<RequestTerms>,
    /// `proxy_cache_bypass` applies.
    pub bypass: bool,
    /// The servers that are asked in front of the origin; none where this one owns the key.
    pub owners: Vec<Arc<Peer>>,
    /// The uses of the key as this request has counted them.
    pub counted: CountedUses,
    /// The key has fewer uses than `*_cache_min_uses`: nothing is stored here, whether or not the owners are asked.
    pub too_early: bool,
}

/// The next step of a session.
enum NextStep {
    /// Gives the decision the result of the lookup.
    Decide,
    /// Gives the decision the result of its last output.
    Inform(Input),
    /// Carries out an output of the decision.
    Do(Output),
    /// Reads a fill that another request has begun, and that suits this one.
    Join(Arc<Fill>),
    /// Fetches the complete object from the origin, by a fill of its own.
    Fetch { sharing: Sharing, conditional: bool },
    /// Reads the fill that this request has begun.
    Read(FillReader, CacheStatus),
    /// Ends the session.
    Done(Step<'static>),
}

impl CacheSession {
    /// Runs until there is a response. `first` is the lookup at `now` that needed no wait, if there was one.
    ///
    /// Invariant: the inputs of the decision are the state at one moment. Each iteration reads the clock once, and
    /// the result of its wait is the input of the next one. Times are Unix milliseconds.
    pub(super) async fn run(
        mut self,
        x: &mut Exchange,
        first: Option<CacheLookup>,
        now: u64,
    ) -> Step<'static> {
        self.owners = self.owners_of(x);
        let mut lookup = match first {
            Some(lookup) => self.settled(x, lookup, now).await,
            None => self.look(x, now).await,
        };
        let is_ranged = x.request.header(Known::Range).is_some();
        let mut next = match self.bypass {
            // Its response is newer than any that is being fetched.
            true => NextStep::Do(Output::Fetch(Sharing::Refill)),
            false => NextStep::Decide,
        };
        loop {
            let now = clock::unix_millis();
            if is_ranged
                && let Some(instead) = self.serve_range_separately(x, &lookup, &next, now).await
            {
                next = instead;
                continue;
            }
            next = match next {
                NextStep::Decide => NextStep::Inform(self.input(x, &lookup, now)),
                NextStep::Inform(input) => {
                    NextStep::Do(self.decision.step(&self.cache.rules, input, now))
                }
                NextStep::Do(output) => self.carry_out(x, &mut lookup, output, now).await,
                NextStep::Join(fill) => self.join(x, &fill).await,
                NextStep::Fetch { sharing, conditional } => {
                    self.fetch(x, &mut lookup, (sharing, conditional), now).await
                }
                NextStep::Read(reader, status) => self.read(x, reader, status).await,
                NextStep::Done(step) => {
                    if self.cache.rfc9111 {
                        passed::finish(x, &step, now);
                    }
                    return step;
                }
            };
        }
    }

    async fn carry_out(
        &mut self,
        x: &mut Exchange,
        lookup: &mut CacheLookup,
        output: Output,
        now: u64,
    ) -> NextStep {
        match output {
            Output::Look => {
                *lookup = self.look(x, now).await;
                NextStep::Decide
            }
            Output::Wait { until } => self.wait(x, lookup, until, now).await,
            Output::Follow => self.suitable(x, lookup, now),
            Output::Serve(status) => {
                if status == CacheStatus::Hit {
                    self.zone.used(&self.main, &lookup.key);
                }
                self.serve(x, lookup.entry.as_ref(), status, now)
            }
            Output::Fetch(sharing) => self.before_fetching(x, lookup, (sharing, false), now).await,
            Output::Revalidate(sharing) => {
                self.before_fetching(x, lookup, (sharing, true), now).await
            }
            Output::ServeStaleAndRefresh { conditional } => {
                self.refresh(x, lookup, conditional, now).await
            }
            Output::Pass => {
                note(x, |note| note.status = self.decision.status());
                let step = self.gateway.pass(x).await;
                NextStep::Done(failed(x, step))
            }
            Output::Leave => NextStep::Done(self.gateway.client_left(x)),
            Output::Refuse => NextStep::Done(Step::Status(504)),
        }
    }

    fn serve(
        &self,
        x: &mut Exchange,
        stored: Option<&OpenEntry>,
        status: CacheStatus,
        now: u64,
    ) -> NextStep {
        let step = stored.and_then(|stored| entry::respond(x, &*self.gateway, stored, status, now));
        match step {
            Some(step) => NextStep::Done(step),
            None => NextStep::Do(Output::Pass),
        }
    }

    /// Checks whether the fill that was found suits this request, now that it has a head.
    fn suitable(&self, x: &Exchange, lookup: &CacheLookup, now: u64) -> NextStep {
        let Some(fill) = &lookup.fill else { return NextStep::Inform(Input::FillEnded) };
        if lookup::other_variant(fill, &x.request.head.headers).is_some()
            || !fill.is_readable_from_start()
            || lookup.is_foreign(fill)
            || !filling_of(x, fill, self.terms.as_ref(), now).joinable
        {
            return NextStep::Inform(Input::FillEnded);
        }
        NextStep::Join(fill.clone())
    }

    /// Reads another request's fill.
    async fn join(&self, x: &mut Exchange, fill: &Arc<Fill>) -> NextStep {
        let (status, reader) = (self.decision.status(), fill.reader(0));
        // A fill that does not remain ends with its last reader, who may just have left.
        if fill.has_ended() && !fill.is_whole() {
            return NextStep::Inform(Input::FillEnded);
        }
        match fill_body::follow(x, &*self.gateway, reader, status).await {
            Ok(step) => {
                self.zone.figures.followed();
                if let Some(tier) = &self.zone.tier {
                    tier.followed(fill.key());
                }
                NextStep::Done(step)
            }
            Err(BreakReason::Uncacheable) => NextStep::Inform(Input::Released),
            Err(_) => NextStep::Inform(Input::FillEnded),
        }
    }

    /// Waits for a fill until a moment in Unix milliseconds.
    async fn wait(&self, x: &Exchange, lookup: &CacheLookup, until: u64, now: u64) -> NextStep {
        let Some(fill) = &lookup.fill else { return NextStep::Inform(Input::FillEnded) };
        let time = Duration::from_millis(until.saturating_sub(now));
        let input = wait::for_progress(x, fill, time, self.terms.as_ref()).await;
        let other = lookup::other_variant(fill, &x.request.head.headers).is_some();
        let input = if other && input != Input::ClientGone { Input::FillEnded } else { input };
        NextStep::Inform(input)
    }

    /// Passes requests that no fill can serve.
    async fn before_fetching(
        &self,
        x: &mut Exchange,
        lookup: &CacheLookup,
        (sharing, conditional): (Sharing, bool),
        now: u64,
    ) -> NextStep {
        if switches(x) {
            return NextStep::Do(Output::Pass);
        }
        if self.passes_head(x) {
            note(x, |note| note.status = self.decision.status());
            let about = (&self.main, lookup, now);
            let head =
                passed::pass_head(x, &*self.gateway, &self.cache, &self.store, &self.zone, about);
            return NextStep::Done(head.await);
        }
        NextStep::Fetch { sharing, conditional }
    }

    /// Begins a fill, and waits for its outcome.
    async fn fetch(
        &mut self,
        x: &mut Exchange,
        lookup: &mut CacheLookup,
        (sharing, conditional): (Sharing, bool),
        now: u64,
    ) -> NextStep {
        // A response that is not stored must neither be followed nor replace a fill that is.
        // The conditions may ask for the response too: what they say now is not what they say then.
        let no_cache = &self.cache.no_cache;
        let refused = !no_cache.is_empty() && x.without_keeping(|x| any_is_true(no_cache, x));
        let sharing = if refused { Sharing::Alone } else { sharing };
        let writer = match self.begin_fill(lookup, sharing, now) {
            Ok(writer) => writer,
            Err(next) => return next,
        };
        let origin_fetch = match self.origin_fetch(x, lookup, conditional, true).await {
            Ok(origin_fetch) => origin_fetch,
            Err(step) => {
                let_others_ask(&self.store, &self.cache.rules, writer.fill().key());
                return NextStep::Done(step);
            }
        };
        // Making the request may have taken as long as the client's body.
        let requested_at = clock::unix_millis();
        // The tier has what may be shared and is fresh: what this cache has, or wants to know anew, is the origin's matter.
        let asks_tier = sharing == Sharing::Shared
            && !(conditional || refused)
            && lookup.entry.is_none()
            && lookup.parts.is_none()
            && !self.too_early;
        // A fill that was silent for too long may have been waiting for a peer.
        let asks_peers = !refused && sharing != Sharing::TakeOver;
        let tries = origin_fetch.request.group.attempts_max();
        let peers = if asks_peers { self.peer_query(x, lookup, tries, now) } else { None };
        let task = self.fill_task(x, lookup, conditional, requested_at);
        let task = FillTask { refused, asks_tier, peers, ..task };
        let (to, events) = mpsc::channel(1);
        start(origin_fetch, task, writer, Some(to));
        self.follow_task(x, events).await
    }

    /// Returns the writer of a new fill; else the next step, since another request was faster.
    fn begin_fill(
        &self,
        lookup: &mut CacheLookup,
        sharing: Sharing,
        now: u64,
    ) -> Result<FillWriter, NextStep> {
        match sharing {
            Sharing::Alone => Ok(self.store.begin_fill_beside(&lookup.key, now)),
            // Of all requests that found the same fill silent, one replaces it.
            Sharing::TakeOver => match &lookup.fill {
                Some(silent) => {
                    let replaced = self.store.replace_fill(&lookup.key, silent, now);
                    replaced.map_err(|running| {
                        lookup.fill = Some(running);
                        NextStep::Decide
                    })
                }
                None => Ok(self.store.take_over_fill(&lookup.key, now)),
            },
            Sharing::Refill => Ok(self.store.refill(&lookup.key, now)),
            Sharing::Shared => match self.store.begin_fill(&lookup.key, now) {
                // Another request's fill may have ended since the lookup.
                Ok(writer) if self.is_outdated(lookup) => {
                    writer.abort("the object is stored already");
                    Err(NextStep::Inform(Input::FillEnded))
                }
                Ok(writer) => Ok(writer),
                Err(running) if lookup.is_foreign(&running) => {
                    Ok(self.store.take_over_fill(&lookup.key, now))
                }
                Err(running) => {
                    lookup.fill = Some(running);
                    Err(NextStep::Decide)
                }
            },
        }
    }

    /// Handles the events of the task of this request's fill. A client that leaves meanwhile does not end the task.
    async fn follow_task(
        &self,
        x: &mut Exchange,
        mut events: mpsc::Receiver<FillEvent>,
    ) -> NextStep {
        loop {
            let Some(event) = next_event(x, &mut events).await else {
                return NextStep::Do(Output::Leave);
            };
            return NextStep::Done(match event {
                FillEvent::Head(head, verdict) => {
                    self.gateway.show_head(x, head);
                    let _ = verdict.send(!any_is_true(&self.cache.no_cache, x));
                    continue;
                }
                FillEvent::Follow(reader, status) => return NextStep::Read(reader, status),
                FillEvent::Pass { response, status, unstorable } => {
                    note(x, |note| note.status = status);
                    remark(x, |remarks| remarks.unstorable = unstorable);
                    let step = self.gateway.respond(x, response);
                    // The origin did not receive the client's conditions, as the response might have been stored.
                    x.response.conditions = Conditions::Server;
                    step
                }
                FillEvent::Serve(stored, status) => {
                    let step =
                        entry::respond(x, &*self.gateway, &stored, status, clock::unix_millis());
                    step.unwrap_or(Step::Status(502))
                }
                FillEvent::Failed(error, status) => {
                    note(x, |note| note.status = status);
                    let step = self.gateway.fail(x, error);
                    failed(x, step)
                }
            });
        }
    }

    /// Reads the fill that this request has begun.
    async fn read(&self, x: &mut Exchange, reader: FillReader, status: CacheStatus) -> NextStep {
        NextStep::Done(match fill_body::respond(x, &*self.gateway, reader, status).await {
            Ok(step) => step,
            Err(reason) => {
                x.log(Level::Error, format_args!("cache fill broke off: {reason}"));
                Step::Status(502)
            }
        })
    }

    /// Serves the stale object and revalidates it in the background (RFC 5861 section 3).
    async fn refresh(
        &mut self,
        x: &mut Exchange,
        lookup: &CacheLookup,
        conditional: bool,
        now: u64,
    ) -> NextStep {
        if self.passes_head(x) {
            return self.serve(x, lookup.entry.as_ref(), CacheStatus::Stale, now);
        }
        let status = match self.store.begin_fill(&lookup.key, now) {
            Err(_) => CacheStatus::Updating,
            Ok(writer) => {
                match self.origin_fetch(x, lookup, conditional, false).await {
                    Ok(origin_fetch) => {
                        let requested_at = clock::unix_millis();
                        let tries = origin_fetch.request.group.attempts_max();
                        let peers = self.peer_query(x, lookup, tries, now);
                        let task = self.fill_task(x, lookup, conditional, requested_at);
                        let task = FillTask { peers, ..task };
                        start(origin_fetch, task, writer, None);
                    }
                    Err(_) => writer.abort("the request could not be made"),
                }
                CacheStatus::Stale
            }
        };
        self.serve(x, lookup.entry.as_ref(), status, clock::unix_millis())
    }

    /// Makes the request to the origin.
    async fn origin_fetch(
        &self,
        x: &mut Exchange,
        lookup: &CacheLookup,
        conditional: bool,
        client_waits: bool,
    ) -> Result<OriginFetch, Step<'static>> {
        let known = lookup.entry.as_ref().filter(|_| conditional).and_then(decoded);
        note(x, |note| {
            note.status = self.decision.status();
            if let Some(known) = known {
                // An invalid date is not sent to the origin either.
                let modified = known.meta.last_modified().filter(|date| parse_http(date).is_some());
                note.last_modified = modified.unwrap_or_default().to_vec();
                note.etag = known.meta.etag().unwrap_or_default().to_vec();
            }
        });
        let options = FillRequestOptions { convert_head: self.cache.convert_head, client_waits };
        let request = self.gateway.request(x, options).await?;
        Ok(OriginFetch {
            request,
            settings: self.gateway.fetch_settings(),
            report: self.gateway.report(x),
            log: LogContext::of(x),
        })
    }

    /// Returns the task of a new fill for this request. The decision about the origin's response moves into it.
    fn fill_task(
        &mut self,
        x: &Exchange,
        lookup: &CacheLookup,
        conditional: bool,
        requested_at: u64,
    ) -> FillTask {
        // Where the main object was removed since the lookup its variants are removed with it.
        let is_kept = lookup.variant_set == 0
            || !lookup.names.is_empty()
            || self.store.peek(&self.main).entry.is_some();
        FillTask {
            store: self.store.clone(),
            figures: self.zone.figures.clone(),
            main: self.main.clone(),
            names: lookup.names.clone(),
            variant_set: if is_kept { lookup.variant_set } else { 0 },
            requested_at,
            cache: self.cache.clone(),
            decision: self.decision.begin_fetch(),
            client_fields: x.request.head.headers.clone(),
            conditional,
            refused: false,
            too_early: self.too_early,
            parts: lookup.parts.clone(),
            stale: lookup.entry.clone(),
            generation: lookup.generation,
            tier: self.zone.tier.clone(),
            asks_tier: false,
            peers: None,
            terms: self.terms,
            timeline: x.timeline.as_ref().map(Timeline::reference),
        }
    }

    /// Returns whether this HEAD request is passed as one: its response has no body to be stored.
    fn passes_head(&self, x: &Exchange) -> bool {
        self.cache.rfc9111 && !self.cache.convert_head && x.request.method == Method::Head
    }

    /// Returns whether the stored object has changed since the lookup.
    fn is_outdated(&self, lookup: &CacheLookup) -> bool {
        let now = self.store.peek(&lookup.key).entry.map(|entry| entry.generation);
        now.is_some() && lookup.generation != now
    }
}
