//! A request's way through the cache: asks the store, tells the turn, does what the turn says.
//!
//! A hit whose object is open is answered at once, without a future; everything else is
//! [`Conversation`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_cache::{BreakReason, Fill, Head, Key, OpenEntry, Store};
use tidegate_core::{Exchange, Level, Step};
use tidegate_http::Known;
use tidegate_rt::sync::mpsc;
use tidegate_rt::{clock, timer};
use tidegate_upstream::LogContext;

use super::fill::{self, Answer, Filler, Question};
use super::join;
use super::lookup::{self, Sight, decoded, filling_of};
use super::policy::range_is_beyond;
use super::seam::{Gateway, Whole};
use super::serve;
use super::settings::{CacheSettings, Chosen, holds};
use super::status::{CacheNote, CacheStatus};
use super::turn::{FOLLOW_FROM_BYTES, Input, Output, Sharing, Turn};

/// Answers a request by the cache; `None` when it has nothing to do with it.
pub fn handle<'a>(
    x: &'a mut Exchange,
    cache: &Arc<CacheSettings>,
    gateway: &Arc<dyn Gateway>,
) -> Result<Step<'a>, &'a mut Exchange> {
    if x.request.method.bit() & cache.methods == 0 {
        return Err(x);
    }
    let store = match cache.zone(x) {
        Chosen::Zone(zone) => match &zone.store {
            Some(store) => store,
            None => return Err(x),
        },
        Chosen::Off => return Err(x),
        Chosen::Unknown => return Ok(Step::Status(500)),
    };
    let mut text = Vec::with_capacity(128);
    match &cache.key {
        Some(key) => key.write(x, &mut text),
        None => gateway.write_key(x, &mut text),
    }
    let main = Key::of(&text);
    x.extensions.insert(CacheNote::new(main.text().clone(), CacheStatus::Miss));
    let now = clock::unix_millis();
    let sight = lookup::look_now(store, &main, &x.request.head.headers, now);
    let bypass = !cache.bypass.is_empty() && holds(&cache.bypass, x);
    if !bypass
        && let Some(Sight { entry: Some(entry), fill: None, .. }) = &sight
        && now < entry.times().valid_until
        && let Some(step) = serve::entry(x, &**gateway, entry, CacheStatus::Hit)
    {
        return Ok(step);
    }
    let conversation = Conversation {
        cache: cache.clone(),
        gateway: gateway.clone(),
        store: store.clone(),
        main,
        turn: if bypass { Turn::bypassing() } else { Turn::default() },
        bypass,
    };
    Ok(Step::Wait(Box::pin(conversation.run(x, sight))))
}

/// A request whose answer takes more than a look into memory.
struct Conversation {
    cache: Arc<CacheSettings>,
    gateway: Arc<dyn Gateway>,
    store: Store,
    main: Key,
    turn: Turn,
    bypass: bool,
}

/// How the doing of an output ended.
enum Done {
    Answered(Step<'static>),
    /// Something else has to be done.
    Then(Output),
}

impl Conversation {
    async fn run(mut self, x: &mut Exchange, first: Option<Sight>) -> Step<'static> {
        let mut sight = match first {
            Some(sight) => sight,
            None => lookup::look(&self.store, &self.main, &x.request.head.headers).await,
        };
        let mut output = match self.bypass {
            // Its answer is newer than what others are fetching.
            true => Output::Fetch(Sharing::TakeOver),
            false => self.tell(sight.input(x, clock::unix_millis())),
        };
        loop {
            let done = match output {
                Output::Look => {
                    sight = lookup::look(&self.store, &self.main, &x.request.head.headers).await;
                    Done::Then(self.tell(sight.input(x, clock::unix_millis())))
                }
                Output::Wait { until } => self.wait(x, &sight, until).await,
                Output::Follow => self.follow(x, &sight).await,
                Output::Serve(status) => self.serve(x, sight.entry.as_ref(), status),
                Output::Fetch(sharing) => self.fetch(x, &mut sight, sharing, false).await,
                Output::Revalidate(sharing) => self.fetch(x, &mut sight, sharing, true).await,
                Output::ServeStaleAndRefresh { conditional } => {
                    self.refresh(x, &sight, conditional).await
                }
                Output::Pass => {
                    serve::note(x, |note| note.status = self.turn.status());
                    Done::Answered(self.gateway.pass(x).await)
                }
                Output::Fail => Done::Answered(Step::Status(502)),
                Output::Leave => Done::Answered(self.gateway.client_left(x)),
            };
            output = match done {
                Done::Answered(step) => return step,
                Done::Then(next) => next,
            };
        }
    }

    fn tell(&mut self, input: Input) -> Output {
        self.turn.step(&self.cache.rules, input, clock::unix_millis())
    }

    fn serve(&self, x: &mut Exchange, entry: Option<&OpenEntry>, status: CacheStatus) -> Done {
        match entry.and_then(|entry| serve::entry(x, &*self.gateway, entry, status)) {
            Some(step) => Done::Answered(step),
            None => Done::Then(Output::Pass),
        }
    }

    /// Reads somebody else's fill.
    async fn follow(&mut self, x: &mut Exchange, sight: &Sight) -> Done {
        let Some(fill) = &sight.fill else { return Done::Then(self.tell(Input::FillEnded)) };
        if lookup::other_variant(fill, &x.request.head.headers).is_some()
            || !fill.is_readable_from_start()
        {
            return Done::Then(self.tell(Input::FillEnded));
        }
        if self.range_is_beyond(x, Some(fill)) {
            return Done::Then(self.tell(Input::RangeBeyond));
        }
        let status = self.turn.status();
        match serve::fill(x, &*self.gateway, fill.reader(0), status).await {
            Ok(step) => Done::Answered(step),
            Err(BreakReason::Uncacheable) => Done::Then(self.tell(Input::Released)),
            Err(_) => Done::Then(self.tell(Input::FillEnded)),
        }
    }

    /// Waits for a fill until a moment in Unix milliseconds.
    async fn wait(&mut self, x: &mut Exchange, sight: &Sight, until: u64) -> Done {
        let Some(fill) = &sight.fill else { return Done::Then(self.tell(Input::FillEnded)) };
        if self.range_is_beyond(x, Some(fill)) {
            return Done::Then(self.tell(Input::RangeBeyond));
        }
        let input = wait_for(x, fill, until).await;
        let other = lookup::other_variant(fill, &x.request.head.headers).is_some();
        let input = if other && input != Input::ClientGone { Input::FillEnded } else { input };
        Done::Then(self.tell(input))
    }

    /// Begins a fill and answers with it, or with what it turns out to be.
    async fn fetch(
        &mut self,
        x: &mut Exchange,
        sight: &mut Sight,
        sharing: Sharing,
        conditional: bool,
    ) -> Done {
        if self.range_is_beyond(x, None) {
            return Done::Then(Output::Pass);
        }
        // What will not be stored must lead nobody, nor take the place of what will.
        let refused = holds(&self.cache.no_cache, x);
        let sharing = if refused { Sharing::Alone } else { sharing };
        let now = clock::unix_millis();
        let writer = match sharing {
            Sharing::Alone => self.store.begin_fill_beside(&sight.key, now),
            Sharing::TakeOver => self.store.take_over_fill(&sight.key, now),
            Sharing::Shared => match self.store.begin_fill(&sight.key, now) {
                // Somebody's fill may have ended since we looked.
                Ok(writer) if self.is_outdated(sight) => {
                    writer.abort("the object is there");
                    return Done::Then(self.tell(Input::FillEnded));
                }
                Ok(writer) => writer,
                Err(running) => {
                    sight.fill = Some(running);
                    return Done::Then(self.tell(sight.input(x, now)));
                }
            },
        };
        let (question, mut filler) = match self.question(x, sight, conditional).await {
            Ok(asked) => asked,
            Err(step) => return Done::Answered(step),
        };
        filler.refused = refused;
        let (to, mut answers) = mpsc::channel(1);
        fill::start(question, filler, writer, Some(to));
        loop {
            let Some(answer) = answer(x, &mut answers).await else {
                return Done::Then(Output::Leave);
            };
            let (response, verdict) = match answer {
                Answer::Judge(response, verdict) => (response, verdict),
                answer => return self.answer(x, answer).await,
            };
            self.gateway.show_head(x, &response.head);
            let store = !holds(&self.cache.no_cache, x);
            let _ = verdict.send((response, store));
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

    /// Whether the store has another object now than when it was looked at.
    fn is_outdated(&self, sight: &Sight) -> bool {
        let now = self.store.peek(&sight.key).entry.map(|entry| entry.generation);
        now.is_some() && sight.generation != now
    }

    async fn answer(&self, x: &mut Exchange, answer: Answer) -> Done {
        let step = match answer {
            Answer::Follow(reader, status) => {
                match serve::fill(x, &*self.gateway, reader, status).await {
                    Ok(step) => step,
                    Err(reason) => {
                        x.log(Level::Error, format_args!("cache fill broke off: {reason}"));
                        Step::Status(502)
                    }
                }
            }
            Answer::Pass(response, status) => {
                serve::note(x, |note| note.status = status);
                self.gateway.respond(x, response)
            }
            Answer::Serve(entry, status) => {
                return match serve::entry(x, &*self.gateway, &entry, status) {
                    Some(step) => Done::Answered(step),
                    None => Done::Answered(Step::Status(502)),
                };
            }
            Answer::Failed(error, status) => {
                serve::note(x, |note| note.status = status);
                self.gateway.fail(x, error)
            }
            Answer::Judge(..) => Step::Status(500),
        };
        Done::Answered(step)
    }

    /// Gives the stale object and has it renewed behind the answer.
    async fn refresh(&mut self, x: &mut Exchange, sight: &Sight, conditional: bool) -> Done {
        let now = clock::unix_millis();
        let status = match self.store.begin_fill(&sight.key, now) {
            Err(_) => CacheStatus::Updating,
            Ok(writer) => {
                match self.question(x, sight, conditional).await {
                    Ok((question, filler)) => fill::start(question, filler, writer, None),
                    Err(_) => writer.abort("the request could not be made"),
                }
                CacheStatus::Stale
            }
        };
        self.serve(x, sight.entry.as_ref(), status)
    }

    /// The question for the origin, and what the fill has to know of this request.
    async fn question(
        &self,
        x: &mut Exchange,
        sight: &Sight,
        conditional: bool,
    ) -> Result<(Question, Filler), Step<'static>> {
        let known = sight.entry.as_ref().filter(|_| conditional).and_then(decoded);
        serve::note(x, |note| {
            note.status = self.turn.status();
            if let Some(known) = known {
                note.last_modified = known.meta.last_modified().unwrap_or_default().to_vec();
                note.etag = known.meta.etag().unwrap_or_default().to_vec();
            }
        });
        let whole = Whole { convert_head: self.cache.convert_head };
        let request = self.gateway.request(x, whole).await?;
        let question = Question {
            request,
            settings: self.gateway.fetch_settings(),
            report: self.gateway.report(x),
            log: LogContext::of(x),
        };
        let filler = Filler {
            store: self.store.clone(),
            main: self.main.clone(),
            names: sight.names.clone(),
            cache: self.cache.clone(),
            turn: self.turn.clone(),
            client_fields: x.request.head.headers.clone(),
            conditional,
            refused: false,
            stale: sight.entry.clone(),
        };
        Ok((question, filler))
    }
}

/// The next answer of a fill; `None` when the client has left.
async fn answer(x: &Exchange, answers: &mut mpsc::Receiver<Answer>) -> Option<Answer> {
    let client = &x.client;
    let watch = !x.is_subrequest;
    poll_fn(|context| {
        if let Poll::Ready(answer) = answers.poll_recv(context) {
            return Poll::Ready(answer);
        }
        if watch && client.poll_gone(context).is_ready() {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await
}

/// Waits until a fill ends, has a head, what the request needs or more than a small body, or its time is
/// over.
async fn wait_for(x: &Exchange, fill: &Arc<Fill>, until: u64) -> Input {
    let client = &x.client;
    let head = fill.head_now();
    let needed = head.as_ref().and_then(|head| join::needed(x, head)).unwrap_or(u64::MAX);
    // A reader is woken when the byte at its offset is there.
    let mut reader = fill.reader(needed.saturating_sub(1).min(FOLLOW_FROM_BYTES));
    let time = Duration::from_millis(until.saturating_sub(clock::unix_millis()));
    let mut sleep = std::pin::pin!(timer::sleep(time));
    poll_fn(|context| {
        let ready = match head.is_some() {
            true => reader.poll_next(context, 1).is_ready(),
            false => match reader.poll_head(context) {
                Poll::Ready(Head::Uncacheable) => return Poll::Ready(Input::Released),
                read => read.is_ready(),
            },
        };
        if ready {
            let filling = filling_of(x, fill);
            let goes_on = filling.has_head && (!fill.has_ended() || filling.whole);
            return Poll::Ready(match goes_on {
                true => Input::FillProgress(filling),
                false => Input::FillEnded,
            });
        }
        if sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(Input::TimedOut(filling_of(x, fill)));
        }
        if !x.is_subrequest && client.poll_gone(context).is_ready() {
            return Poll::Ready(Input::ClientGone);
        }
        Poll::Pending
    })
    .await
}
