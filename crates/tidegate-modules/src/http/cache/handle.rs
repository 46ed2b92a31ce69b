//! A request's way through the cache: asks the store, steps the decision, does what it says.
//!
//! A hit whose object is open is answered at once, without a future; everything else is
//! [`CacheSession`].

use std::sync::Arc;

use tidegate_cache::{BreakReason, Fill, Key, OpenEntry, Store};
use tidegate_core::exchange::Conditions;
use tidegate_core::template::any_holds;
use tidegate_core::{Exchange, Level, Step};
use tidegate_http::Known;
use tidegate_http::caching::rfc9111::invalidation::is_unsafe;
use tidegate_http::caching::rfc9111::reuse::RequestTerms;
use tidegate_http::date::parse_http;
use tidegate_http::request::Method;
use tidegate_rt::clock;
use tidegate_rt::sync::mpsc;
use tidegate_upstream::LogContext;

use crate::http::cache::config::settings::{CacheSettings, ZoneSelection};
use crate::http::cache::decide::decision::{CacheDecision, Input, Output, Sharing};
use crate::http::cache::decide::facts::Demands;
use crate::http::cache::decide::policy::range_is_beyond;
use crate::http::cache::fill::origin::{Origin, OriginFetch};
use crate::http::cache::fill::task::{FillEvent, FillTask, start};
use crate::http::cache::gateway::{FillRequestOptions, Gateway, switches};
use crate::http::cache::lookup::{self, CacheLookup, filling_of};
use crate::http::cache::meta::decoded;
use crate::http::cache::purge;
use crate::http::cache::ranges::answer::{self, is_far};
use crate::http::cache::ranges::assemble::RangeAssembler;
use crate::http::cache::ranges::object::PartialObject;
use crate::http::cache::ranges::plan::RequestedRange;
use crate::http::cache::ranges::probe::{RangeProbe, join_or_start_probe};
use crate::http::cache::serve::rfc9111;
use crate::http::cache::serve::wait;
use crate::http::cache::serve::{entry, fill_body};
use crate::http::cache::status::{CacheNote, CacheStatus, note};
use crate::http::slice;

/// Answers a request by the cache; `None` when it has nothing to do with it.
pub fn handle<'a>(
    x: &'a mut Exchange,
    cache: &Arc<CacheSettings>,
    gateway: &Arc<dyn Gateway>,
) -> Result<Step<'a>, &'a mut Exchange> {
    let method = x.request.method;
    let is_cached = cache.serves(x);
    let invalidates = cache.rfc9111 && is_unsafe(method);
    let purges = cache.purge.wants(x);
    if !is_cached && !invalidates && !purges {
        return Err(x);
    }
    let store = match cache.zone(x) {
        ZoneSelection::Zone(zone) => match &zone.store {
            Some(store) => store,
            None => return Err(x),
        },
        ZoneSelection::Off => return Err(x),
        ZoneSelection::Unknown => return Ok(Step::Status(500)),
    };
    let mut text = Vec::with_capacity(128);
    match &cache.key {
        Some(key) => key.write(x, &mut text),
        None => gateway.write_key(x, &mut text),
    }
    if purges {
        let (store, cache) = (store.clone(), cache.clone());
        return Ok(Step::Wait(Box::pin(
            async move { purge::answer(x, store, &cache, text).await },
        )));
    }
    let main = Key::of(&text);
    if slice::is_part(x) {
        x.modules.extensions.insert(purge::StoredAt { store: store.clone(), key: main.clone() });
    }
    if !is_cached {
        let passed = rfc9111::write_through(x, gateway.clone(), store.clone(), main);
        return Ok(Step::Wait(Box::pin(passed)));
    }
    let note = CacheNote::new(main.text().clone(), CacheStatus::Miss);
    x.modules.extensions.insert(CacheNote { rfc9111: cache.rfc9111, ..note });
    let now = clock::unix_millis();
    let lookup = lookup::look_now(store, &main, &x.request.head.headers, now);
    let terms = cache.rfc9111.then(|| RequestTerms::of(&x.request.head.headers));
    let bypass = !cache.bypass.is_empty() && any_holds(&cache.bypass, x);
    if !bypass
        && let Some(CacheLookup { entry: Some(entry), fill: None, .. }) = &lookup
        && lookup::is_fresh(entry, terms.as_ref(), now)
        && let Some(step) = entry::answer(x, &**gateway, entry, CacheStatus::Hit)
    {
        if cache.rfc9111 {
            rfc9111::finish(x, &step, now);
        }
        return Ok(step);
    }
    let session = CacheSession {
        cache: cache.clone(),
        gateway: gateway.clone(),
        store: store.clone(),
        main,
        decision: if bypass {
            CacheDecision::bypassing()
        } else {
            CacheDecision::new(demands(terms.as_ref()))
        },
        terms,
        bypass,
    };
    Ok(Step::Wait(Box::pin(session.run(x, lookup))))
}

/// What the decision has to know of a request's terms.
fn demands(terms: Option<&RequestTerms>) -> Demands {
    let RequestTerms { only_if_cached, no_store, .. } = terms.copied().unwrap_or_default();
    Demands { only_if_cached, no_store }
}

/// A request whose answer takes more than a look into memory.
struct CacheSession {
    cache: Arc<CacheSettings>,
    gateway: Arc<dyn Gateway>,
    store: Store,
    main: Key,
    decision: CacheDecision,
    /// With `proxy_cache_rfc9111`.
    terms: Option<RequestTerms>,
    bypass: bool,
}

/// How the doing of an output ended.
enum Done {
    Answered(Step<'static>),
    /// Something else has to be done.
    Then(Output),
}

impl CacheSession {
    async fn run(mut self, x: &mut Exchange, first: Option<CacheLookup>) -> Step<'static> {
        let lookup = match first {
            Some(lookup) => lookup,
            None => lookup::look(&self.store, &self.main, &x.request.head.headers).await,
        };
        let mut lookup = self.settled(x, lookup).await;
        let mut output = match self.bypass {
            // Its answer is newer than what others are fetching.
            true => Output::Fetch(Sharing::TakeOver),
            false => self.tell(self.input(x, &lookup)),
        };
        loop {
            let done = match output {
                Output::Look => {
                    lookup = lookup::look(&self.store, &self.main, &x.request.head.headers).await;
                    lookup = self.settled(x, lookup).await;
                    Done::Then(self.tell(self.input(x, &lookup)))
                }
                Output::Wait { until } => self.wait(x, &lookup, until).await,
                Output::Follow => self.follow(x, &lookup).await,
                Output::Serve(status) => self.serve(x, lookup.entry.as_ref(), status),
                Output::Fetch(sharing) => self.fetch(x, &mut lookup, sharing, false).await,
                Output::Revalidate(sharing) => self.fetch(x, &mut lookup, sharing, true).await,
                Output::ServeStaleAndRefresh { conditional } => {
                    self.refresh(x, &lookup, conditional).await
                }
                Output::Pass => {
                    note(x, |note| note.status = self.decision.status());
                    Done::Answered(self.gateway.pass(x).await)
                }
                Output::Leave => Done::Answered(self.gateway.client_left(x)),
                Output::Refuse => Done::Answered(Step::Status(504)),
            };
            output = match done {
                Done::Answered(step) => {
                    if self.cache.rfc9111 {
                        rfc9111::finish(x, &step, clock::unix_millis());
                    }
                    return step;
                }
                Done::Then(next) => next,
            };
        }
    }

    /// A fill that is all there but may not answer this request as it is: its object, which will be
    /// there in a moment, may do so (`max-stale`), or knows its validators.
    async fn settled(&self, x: &Exchange, lookup: CacheLookup) -> CacheLookup {
        let Some(fill) = lookup.fill.as_ref() else { return lookup };
        let now = clock::unix_millis();
        let filling = filling_of(x, fill, self.terms.as_ref(), now);
        // By nginx's rules a response that is stale when it comes is for those who were there by then.
        let is_stale = || fill.head_now().is_some_and(|head| head.times.valid_until <= now);
        if !filling.whole || filling.joinable && (self.terms.is_some() || !is_stale()) {
            return lookup;
        }
        fill.placed().await;
        lookup::look(&self.store, &self.main, &x.request.head.headers).await
    }

    fn input(&self, x: &Exchange, lookup: &CacheLookup) -> Input {
        lookup.input(x, self.terms.as_ref(), clock::unix_millis())
    }

    fn tell(&mut self, input: Input) -> Output {
        self.decision.step(&self.cache.rules, input, clock::unix_millis())
    }

    fn serve(&self, x: &mut Exchange, entry: Option<&OpenEntry>, status: CacheStatus) -> Done {
        match entry.and_then(|entry| entry::answer(x, &*self.gateway, entry, status)) {
            Some(step) => Done::Answered(step),
            None => Done::Then(Output::Pass),
        }
    }

    /// Reads somebody else's fill.
    async fn follow(&mut self, x: &mut Exchange, lookup: &CacheLookup) -> Done {
        let Some(fill) = &lookup.fill else { return Done::Then(self.tell(Input::FillEnded)) };
        let now = clock::unix_millis();
        if lookup::other_variant(fill, &x.request.head.headers).is_some()
            || !fill.is_readable_from_start()
            || lookup.is_foreign(fill)
            || !filling_of(x, fill, self.terms.as_ref(), now).joinable
        {
            return Done::Then(self.tell(Input::FillEnded));
        }
        let beyond = self.range_is_beyond(x, Some(fill));
        if (beyond || is_far(x, fill))
            && let Some(done) = self.part(x, lookup, Some(fill)).await
        {
            return done;
        }
        if beyond {
            return Done::Then(self.tell(Input::RangeBeyond));
        }
        let status = self.decision.status();
        match fill_body::follow(x, &*self.gateway, fill.reader(0), status).await {
            Ok(step) => Done::Answered(step),
            Err(BreakReason::Uncacheable) => Done::Then(self.tell(Input::Released)),
            Err(_) => Done::Then(self.tell(Input::FillEnded)),
        }
    }

    /// Waits for a fill until a moment in Unix milliseconds.
    async fn wait(&mut self, x: &mut Exchange, lookup: &CacheLookup, until: u64) -> Done {
        let Some(fill) = &lookup.fill else { return Done::Then(self.tell(Input::FillEnded)) };
        if self.range_is_beyond(x, Some(fill)) {
            let done = self.part(x, lookup, Some(fill)).await;
            return done.unwrap_or_else(|| Done::Then(self.tell(Input::RangeBeyond)));
        }
        let input = wait::for_progress(x, fill, until, self.terms.as_ref()).await;
        let other = lookup::other_variant(fill, &x.request.head.headers).is_some();
        let input = if other && input != Input::ClientGone { Input::FillEnded } else { input };
        Done::Then(self.tell(input))
    }

    /// Begins a fill and answers with it, or with what it turns out to be.
    async fn fetch(
        &mut self,
        x: &mut Exchange,
        lookup: &mut CacheLookup,
        sharing: Sharing,
        conditional: bool,
    ) -> Done {
        if switches(x) {
            return Done::Then(Output::Pass);
        }
        if self.passes_head(x) {
            note(x, |note| note.status = self.decision.status());
            let passed = rfc9111::pass_head(x, &*self.gateway, &self.cache, &self.store, lookup);
            return Done::Answered(passed.await);
        }
        if self.range_is_beyond(x, None) {
            let done = self.part(x, lookup, None).await;
            return done.unwrap_or(Done::Then(Output::Pass));
        }
        // What will not be stored must lead nobody, nor take the place of what will.
        let refused = any_holds(&self.cache.no_cache, x);
        let sharing = if refused { Sharing::Alone } else { sharing };
        let now = clock::unix_millis();
        let writer = match sharing {
            Sharing::Alone => self.store.begin_fill_beside(&lookup.key, now),
            Sharing::TakeOver => self.store.take_over_fill(&lookup.key, now),
            Sharing::Shared => match self.store.begin_fill(&lookup.key, now) {
                // Somebody's fill may have ended since we looked.
                Ok(writer) if self.is_outdated(lookup) => {
                    writer.abort("the object is there");
                    return Done::Then(self.tell(Input::FillEnded));
                }
                Ok(writer) => writer,
                Err(running) if lookup.is_foreign(&running) => {
                    self.store.take_over_fill(&lookup.key, now)
                }
                Err(running) => {
                    lookup.fill = Some(running);
                    return Done::Then(self.tell(self.input(x, lookup)));
                }
            },
        };
        let origin_fetch = match self.origin_fetch(x, lookup, conditional, true).await {
            Ok(origin_fetch) => origin_fetch,
            Err(step) => return Done::Answered(step),
        };
        let task = FillTask { refused, ..self.fill_task(x, lookup, conditional) };
        let (to, mut answers) = mpsc::channel(1);
        start(origin_fetch, task, writer, Some(to));
        loop {
            let Some(answer) = wait::next_event(x, &mut answers).await else {
                return Done::Then(Output::Leave);
            };
            let (head, verdict) = match answer {
                FillEvent::Head(head, verdict) => (head, verdict),
                answer => return self.answer(x, lookup, answer).await,
            };
            self.gateway.show_head(x, head);
            let _ = verdict.send(!any_holds(&self.cache.no_cache, x));
        }
    }

    /// Whether the request's range begins beyond `proxy_cache_max_range_offset`, and beyond what is there
    /// of a fill.
    fn range_is_beyond(&self, x: &Exchange, fill: Option<&Arc<Fill>>) -> bool {
        let range = x.request.header(Known::Range);
        let (Some(range), Some(max)) = (range, self.cache.max_range_offset) else { return false };
        match fill {
            Some(fill) if fill.is_whole() => false,
            Some(fill) => range_is_beyond(range, max.max(fill.watermark())),
            None => range_is_beyond(range, max),
        }
    }

    /// A HEAD request that is to stay one: its response has no body to be stored.
    fn passes_head(&self, x: &Exchange) -> bool {
        self.cache.rfc9111 && !self.cache.convert_head && x.request.method == Method::Head
    }

    /// Whether the store has another object now than when it was looked at.
    fn is_outdated(&self, lookup: &CacheLookup) -> bool {
        let now = self.store.peek(&lookup.key).entry.map(|entry| entry.generation);
        now.is_some() && lookup.generation != now
    }

    async fn answer(&mut self, x: &mut Exchange, lookup: &CacheLookup, answer: FillEvent) -> Done {
        let step = match answer {
            FillEvent::Follow(reader, status) => {
                if is_far(x, reader.fill())
                    && let Some(done) = self.part(x, lookup, Some(reader.fill())).await
                {
                    return done;
                }
                match fill_body::answer(x, &*self.gateway, reader, status).await {
                    Ok(step) => step,
                    Err(reason) => {
                        x.log(Level::Error, format_args!("cache fill broke off: {reason}"));
                        Step::Status(502)
                    }
                }
            }
            FillEvent::Pass(response, status) => {
                note(x, |note| note.status = status);
                let step = self.gateway.respond(x, response);
                // The origin was not told of the client's conditions, as the response might have been stored.
                x.response.conditions = Conditions::Server;
                step
            }
            FillEvent::Serve(entry, status) => {
                return match entry::answer(x, &*self.gateway, &entry, status) {
                    Some(step) => Done::Answered(step),
                    None => Done::Answered(Step::Status(502)),
                };
            }
            FillEvent::Failed(error, status) => {
                note(x, |note| note.status = status);
                self.gateway.fail(x, error)
            }
            FillEvent::Head(..) => Step::Status(500),
        };
        Done::Answered(step)
    }

    /// Gives a range that is not to be waited for, by itself; `None` where that cannot be.
    async fn part(
        &mut self,
        x: &mut Exchange,
        lookup: &CacheLookup,
        fill: Option<&Arc<Fill>>,
    ) -> Option<Done> {
        let of_parts = self.cache.ranges && self.cache.no_cache.is_empty() && !self.bypass;
        // What a request demands of the whole it demands of the origin's answer here.
        let of_parts = of_parts && self.terms.is_none_or(|terms| terms == RequestTerms::default());
        let by_get = x.request.method == Method::Get && !x.is_subrequest();
        if !of_parts || !by_get || lookup.entry.is_some() {
            return None;
        }
        let wanted = RequestedRange::parse(x.request.header(Known::Range)?)?;
        let now = clock::unix_millis();
        let stored = lookup.parts.as_ref().filter(|entry| now < entry.times().valid_until);
        let known = match fill.and_then(|fill| PartialObject::filling(fill.key(), fill)) {
            Some(object) => Some(object),
            None => stored.and_then(|entry| PartialObject::stored(&lookup.key, entry)),
        };
        match &known {
            Some(object) if !object.has(x, wanted) => return None,
            None if x.request.header(Known::IfRange).is_some() => return None,
            _ => {}
        }
        let origin_fetch = match self.origin_fetch(x, lookup, false, true).await {
            Ok(origin_fetch) => origin_fetch,
            Err(step) => return Some(Done::Answered(step)),
        };
        let origin = Origin::of(&origin_fetch)?;
        let object = match known {
            Some(object) => object,
            // Somebody's first part may have come since we looked.
            None if self.is_outdated(lookup) => {
                return Some(Done::Then(self.tell(Input::FillEnded)));
            }
            None => {
                let probe = RangeProbe {
                    store: self.store.clone(),
                    cache: self.cache.clone(),
                    key: lookup.key.clone(),
                    generation: lookup.generation,
                    names: lookup.names.clone(),
                    variant_set: lookup.variant_set,
                    client_fields: x.request.head.headers.clone(),
                    asked_at: now,
                    wanted,
                };
                let mut reader = join_or_start_probe(probe, origin.clone())?;
                match wait::head_of(x, &mut reader).await {
                    None => return Some(Done::Then(Output::Leave)),
                    Some(head) => {
                        let head = head?;
                        PartialObject::published(&lookup.key, &head)?
                    }
                }
            }
        };
        if !object.has(x, wanted) {
            return None;
        }
        let assembler = RangeAssembler::new(object, self.store.clone(), origin, fill.cloned());
        answer::answer(x, &*self.gateway, wanted, assembler).await.map(Done::Answered)
    }

    /// Gives the stale object and has it renewed behind the answer.
    async fn refresh(&mut self, x: &mut Exchange, lookup: &CacheLookup, conditional: bool) -> Done {
        if self.passes_head(x) {
            return self.serve(x, lookup.entry.as_ref(), CacheStatus::Stale);
        }
        let now = clock::unix_millis();
        let status = match self.store.begin_fill(&lookup.key, now) {
            Err(_) => CacheStatus::Updating,
            Ok(writer) => {
                match self.origin_fetch(x, lookup, conditional, false).await {
                    Ok(origin_fetch) => {
                        let task = self.fill_task(x, lookup, conditional);
                        start(origin_fetch, task, writer, None);
                    }
                    Err(_) => writer.abort("the request could not be made"),
                }
                CacheStatus::Stale
            }
        };
        self.serve(x, lookup.entry.as_ref(), status)
    }

    /// What the origin is to be asked.
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
                // What is no date says nothing to the origin either.
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

    /// What a fill has to know of this request. The decision about the origin's response goes with it.
    fn fill_task(&mut self, x: &Exchange, lookup: &CacheLookup, conditional: bool) -> FillTask {
        FillTask {
            store: self.store.clone(),
            main: self.main.clone(),
            names: lookup.names.clone(),
            variant_set: lookup.variant_set,
            asked_at: clock::unix_millis(),
            cache: self.cache.clone(),
            decision: self.decision.begin_fetch(),
            client_fields: x.request.head.headers.clone(),
            conditional,
            refused: false,
            parts: lookup.parts.clone(),
            stale: lookup.entry.clone(),
            generation: lookup.generation,
        }
    }
}
