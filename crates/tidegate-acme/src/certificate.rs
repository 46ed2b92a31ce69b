//! One certificate: when it is ordered, and the states of its order.
//!
//! ```text
//!           due                 stored              URL stored
//!   Rest ───────► key, Intend ─────────► Create ──► Record ─────────► Look ◄─────────────┐
//!    ▲                                     ▲                           │ pending         │
//!    │               restart, or a failure │                           ├──► Fetch ─► Present ─► Respond ─► Check
//!    │               of newOrder: Search ──┘ or Record                 │ ready           ▲
//!    │                                                                 ├──► Finalize ────┘ processing: Look
//!    │ removed          stored                                         │ valid
//!    ├───────── Clear ◄─────── Keep ◄── Download, Alternates ◄─────────┤
//!    └───────── Fail ◄─────────────────────────────────────────────────┘ invalid
//! ```
//!
//! Each failure goes back to the state that the files describe: `Search` for an intended order, `Look` for a placed one.
//! So does a restart.

mod download;
mod look;
mod search;
mod validate;
mod work;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use work::{Call, Target, success};

use crate::backoff::{ORDERS, REQUESTS};
use crate::challenge::Challenge;
use crate::config::{Config, Profile, Wanted};
use crate::failure::{Consequence, Failure};
use crate::files::{self, Change, Failed, Intent, OrderFile};
use crate::jws::AccountKey;
use crate::key::{Key, KeyKind};
use crate::limits::{FAILED_RESPONSES_MAX, RETRY_AFTER_MAX};
use crate::message::{Directory, Renewal};
use crate::renewal::Held;
use crate::step::{Event, Outcome, Step};
use crate::time::Time;
use crate::wire::Response;
use work::{Keep, Work};

/// A certificate that is wanted, with its order.
#[derive(Debug)]
pub(crate) struct Certificate {
    wanted: Wanted,
    held: Option<Held>,
    failed: Option<Failed>,
    work: Work,
    /// Challenges that the caller presents.
    presented: Vec<Challenge>,
    /// The end of a pause after a failure.
    paused: Option<Time>,
    /// Steps in a row that the caller could not do.
    caller_failures: u32,
    /// Responses of this order that have failed.
    faults: u32,
}

/// What a certificate needs next.
#[derive(Debug)]
pub(crate) enum Want {
    Wait(Time),
    MakeKey(KeyKind),
    Store(Change),
    /// A signed request.
    Call(Call),
    /// The first page of the account's list of orders.
    Orders,
    /// Renewal information of the certificate with this identifier.
    Renewal(String),
    Present(Vec<Challenge>),
    Withdraw(Vec<Challenge>),
}

/// What decisions depend on beside the state.
pub(crate) struct Context<'a> {
    pub now: Time,
    pub random: u64,
    pub config: &'a Config,
    pub directory: Option<&'a Directory>,
    pub key: Option<&'a AccountKey>,
    /// URLs of the orders of other certificates.
    pub claimed: &'a [String],
}

/// What a certificate without an order does.
enum Decision {
    Wait(Time),
    Ask(String),
    Order,
}

impl Certificate {
    /// Makes the state that the files describe. Returns the names of files that are damaged as well.
    pub(crate) fn new(
        wanted: Wanted,
        read: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
        now: Time,
        random: u64,
    ) -> (Certificate, Vec<String>) {
        let mut damaged = Vec::new();
        let mut parsed = |file: String| {
            let contents = read(&file)?;
            let is_order = file.ends_with(".order");
            let order = is_order.then(|| OrderFile::parse(&contents)).flatten();
            let pair = (!is_order).then(|| files::certificate(&contents)).flatten();
            if order.is_none() && pair.is_none() {
                damaged.push(file);
            }
            Some((order, pair))
        };
        let order = parsed(files::order_file(&wanted)).and_then(|(order, _)| order);
        let pair = parsed(files::pem_file(&wanted)).and_then(|(_, pair)| pair);
        // A certificate that has expired, or is for other names, is not in use.
        let pair = pair.filter(|(key, chain)| chain.check(key, wanted.names(), now).is_ok());
        let held = pair.map(|(key, chain)| Held::new(Arc::new(key), chain, now, random));
        let (mut failed, mut work) = (None, Work::Rest);
        match order {
            None => {}
            Some(OrderFile::Failed(failure)) => {
                // The clock may have been ahead when it was written.
                let until = failure.until.min(now.after(RETRY_AFTER_MAX));
                failed = Some(Failed { until, ..failure });
            }
            Some(OrderFile::Intended(intent)) => work = Work::search(intent),
            Some(OrderFile::Placed(placed)) => {
                let is_kept = held.as_ref().is_some_and(|held| held.key == placed.intent.key);
                work = if is_kept { Work::Clear } else { Work::look(placed) };
            }
        }
        let certificate = Certificate {
            wanted,
            held,
            failed,
            work,
            presented: Vec::new(),
            paused: None,
            caller_failures: 0,
            faults: 0,
        };
        (certificate, damaged)
    }

    /// The clock was set back by this time.
    pub(crate) fn set_back(&mut self, back: Duration) {
        self.paused = self.paused.map(|until| until.before(back));
        if let Some(failed) = &mut self.failed {
            failed.until = failed.until.before(back);
        }
        if let Some(held) = &mut self.held {
            held.set_back(back);
        }
        self.work.set_back(back);
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Returns the URL of the order in flight.
    pub(crate) fn order_url(&self) -> Option<&str> {
        self.work.url()
    }

    /// Returns whether an order is in flight, or is being made.
    pub(crate) fn is_ordering(&self) -> bool {
        !matches!(self.work, Work::Rest | Work::Clear | Work::Fail(_))
    }

    pub(crate) fn want(&self, now: Time) -> Want {
        if self.must_withdraw() {
            return Want::Withdraw(self.presented.clone());
        }
        if let Some(until) = self.paused.filter(|until| *until > now) {
            return Want::Wait(until);
        }
        match &self.work {
            Work::Rest => match self.decide(now) {
                Decision::Wait(until) => Want::Wait(until),
                Decision::Ask(id) => Want::Renewal(id),
                Decision::Order => Want::MakeKey(self.wanted.key()),
            },
            work => work.want(&self.wanted, now),
        }
    }

    fn must_withdraw(&self) -> bool {
        !self.presented.is_empty() && !self.work.is_validating()
    }

    fn decide(&self, now: Time) -> Decision {
        let blocked = self.failed.as_ref().map_or(Time(0), |failed| failed.until);
        let Some(held) = &self.held else {
            return if blocked > now { Decision::Wait(blocked) } else { Decision::Order };
        };
        let order_at = held.renew_at().max(blocked);
        let ask_at = held.ask_at();
        match held.id() {
            _ if order_at <= now => Decision::Order,
            Some(id) if ask_at <= now => Decision::Ask(id.to_owned()),
            _ => Decision::Wait(order_at.min(ask_at)),
        }
    }

    /// Takes the result of a step that came from [`Certificate::want`]. A result that does not fit the step changes
    /// nothing: the step comes again.
    pub(crate) fn done(
        &mut self,
        step: &Step,
        outcome: Outcome,
        context: &Context<'_>,
    ) -> Option<Event> {
        if matches!(step, Step::Withdraw(_)) {
            self.presented.clear();
            return None;
        }
        let asked = matches!(self.work, Work::Rest) && matches!(step, Step::Send(_));
        if asked {
            return self.renewal_received(outcome, context);
        }
        if !matches!(outcome, Outcome::Failed(_)) {
            (self.caller_failures, self.paused) = (0, None);
        }
        let work = mem::take(&mut self.work);
        let resume = work.resume();
        match self.advance(work, outcome, context) {
            Ok((work, event)) => {
                self.work = work;
                event
            }
            Err(failure) => Some(self.stop(resume, failure, context)),
        }
    }

    /// The account has no list of orders: the server returns the order that is there, or a new one.
    pub(crate) fn no_orders(&mut self) {
        self.work = match mem::take(&mut self.work) {
            Work::Search(search) => Work::Create(search.into_intent()),
            work => work,
        };
    }

    /// The server has no renewal information.
    pub(crate) fn no_renewal(&mut self, now: Time) {
        if let Some(held) = &mut self.held {
            held.ask_again(None, now);
        }
    }

    fn advance(
        &mut self,
        work: Work,
        outcome: Outcome,
        context: &Context<'_>,
    ) -> Result<(Work, Option<Event>), Failure> {
        let work = match (work, outcome) {
            (_, Outcome::Failed(reason)) => return Err(Failure::Caller(reason)),
            (Work::Rest, Outcome::Key(key)) => return self.intend(key, context),
            (Work::Intend(intent), Outcome::Done) => Work::Create(intent),
            (Work::Search(search), Outcome::Response(response)) => {
                return search.received(&response, context);
            }
            (Work::Create(intent), Outcome::Response(response)) => {
                return search::created(intent, &response, context);
            }
            (Work::Record(placed), Outcome::Done) => Work::look(placed),
            (Work::Look(look), Outcome::Response(response)) => look.received(&response, context)?,
            (Work::Fetch(fetch), Outcome::Response(response)) => {
                fetch.received(&response, context)?
            }
            (Work::Present(validation), Outcome::Done) => {
                for challenge in validation.challenges() {
                    if !self.presented.contains(&challenge) {
                        self.presented.push(challenge);
                    }
                }
                validation.presented()
            }
            (Work::Respond(validation), Outcome::Response(response)) => {
                validation.responded(&response, context)?
            }
            (Work::Check(check), Outcome::Response(response)) => {
                check.received(&response, context)?
            }
            (Work::Finalize(finalize), Outcome::Response(response)) => {
                finalize.received(&response, context)?
            }
            (Work::Download(download), Outcome::Response(response)) => {
                download.received(&response, context)?
            }
            (Work::Keep(keep), Outcome::Done) => return Ok(self.keep(*keep, context)),
            (Work::Clear, Outcome::Done) => Work::Rest,
            (Work::Fail(failed), Outcome::Done) => {
                self.failed = Some(failed);
                Work::Rest
            }
            (work, _) => work,
        };
        Ok((work, None))
    }

    fn intend(&self, key: Key, context: &Context<'_>) -> Result<(Work, Option<Event>), Failure> {
        let profiles = context.directory.map_or(&[][..], |directory| &directory.profiles);
        let (profile, event) = match &context.config.profile {
            Some(Profile { name, .. }) if profiles.contains(name) => (Some(name.clone()), None),
            Some(Profile { name, required: true }) => return Err(Failure::NoProfile(name.clone())),
            Some(Profile { name, required: false }) => {
                (None, Some(Event::DefaultProfile(name.clone())))
            }
            None => (None, None),
        };
        let renews = context.directory.is_some_and(|directory| directory.renewal_info.is_some());
        let held = self.held.as_ref().filter(|_| renews);
        let intent = Intent {
            names: self.wanted.names().to_vec(),
            key: Arc::new(key),
            profile,
            replaces: held.and_then(Held::id).map(str::to_owned),
            failures: self.failed.as_ref().map_or(0, |failed| failed.failures),
        };
        Ok((Work::Intend(intent), event))
    }

    /// The certificate is on the disk: it is the one in use.
    fn keep(&mut self, keep: Keep, context: &Context<'_>) -> (Work, Option<Event>) {
        let Keep { placed, chain } = keep;
        let event = Event::Issued(chain.not_after());
        let held = Held::new(placed.intent.key, chain, context.now, context.random);
        self.held = Some(held.issued(context.now));
        (self.failed, self.faults) = (None, 0);
        (Work::Clear, Some(event))
    }

    fn renewal_received(&mut self, outcome: Outcome, context: &Context<'_>) -> Option<Event> {
        let held = self.held.as_mut()?;
        let received = match outcome {
            Outcome::Response(response) => renewal(&response, context.now),
            Outcome::Failed(reason) => Err(Failure::Caller(reason)),
            Outcome::Done | Outcome::Key(_) => return None,
        };
        match received {
            Ok((renewal, retry_after)) => {
                let explanation = held.set_window(renewal, retry_after, context.now);
                explanation.map(Event::Explained)
            }
            Err(failure) => {
                held.ask_again(failure.retry_after(), context.now);
                Some(Event::Failed(failure, held.ask_at()))
            }
        }
    }

    /// Decides what follows from a failure: a pause, or the end of the order.
    fn stop(&mut self, resume: Work, failure: Failure, context: &Context<'_>) -> Event {
        let failures = if failure.is_of_the_caller() {
            self.caller_failures = self.caller_failures.saturating_add(1);
            self.caller_failures
        } else {
            self.faults = self.faults.saturating_add(1);
            self.faults
        };
        let hopeless = self.faults > FAILED_RESPONSES_MAX;
        let asked = failure.retry_after().unwrap_or_default();
        let asked = asked.min(context.now.after(RETRY_AFTER_MAX));
        if failure.consequence() == Consequence::Retry && !hopeless {
            let pause = REQUESTS.pause(failures, context.random);
            let until = context.now.after(pause).max(asked);
            self.paused = Some(until);
            self.work = resume;
            return Event::Failed(failure, until);
        }
        let before = resume.intent().map(|intent| intent.failures);
        let before = before.or(self.failed.as_ref().map(|failed| failed.failures));
        let failures = before.unwrap_or(0).saturating_add(1);
        let until = context.now.after(ORDERS.pause(failures, context.random)).max(asked);
        self.faults = 0;
        let reason = failure.to_string();
        self.work = Work::Fail(Failed { failures, until, reason });
        Event::Failed(failure, until)
    }
}

fn renewal(response: &Response, now: Time) -> Result<(Renewal, Option<Time>), Failure> {
    work::success(response, now)?;
    let retry_after = response.retry_after().and_then(|value| Time::from_retry_after(value, now));
    Ok((Renewal::parse(&response.body)?, retry_after))
}
