//! An issuer: the account and all certificates of it, as one machine with one step at a time.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use crate::backoff::{ORDERS, REQUESTS};
use crate::certificate::{Call, Certificate, Context, Target, Want};
use crate::chain::Chain;
use crate::config::{AccountKeySource, Config, Wanted};
use crate::failure::{Consequence, Failure};
use crate::files::{ACCOUNT, ACCOUNT_KEY, Registered};
use crate::jws::AccountKey;
use crate::key::{Key, KeyError};
use crate::limits::{BAD_NONCES_MAX, CONTACTS_MAX, ORDERS_IN_FLIGHT_MAX, RETRY_AFTER_MAX};
use crate::message::Directory;
use crate::problem::{Problem, ProblemKind};
use crate::renewal::Held;
use crate::session::{Need, Session, Task};
use crate::step::{Event, Outcome, Report, Step};
use crate::time::Time;
use crate::wire::{Method, Request, Response};

/// The machine of an issuer. The crate's documentation has an example of its use.
#[derive(Debug)]
pub struct Issuer {
    config: Config,
    session: Session,
    certificates: Vec<Certificate>,
    pending: Option<Pending>,
    reports: VecDeque<Report>,
    /// The certificate that is worked on.
    turn: usize,
    /// The end of a pause after a failure of the session.
    rest: Option<Time>,
    /// Failures of the session in a row.
    failures: u32,
    /// Nonces refused in a row.
    bad_nonces: u32,
    /// The moment of the last call.
    last: Time,
}

/// A certificate that can be used.
#[derive(Clone, Copy, Debug)]
pub struct Installed<'a> {
    /// Its private key.
    pub key: &'a Key,
    /// The certificate, and those between it and its root.
    pub chain: &'a Chain,
}

/// The reason why an issuer cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerError {
    /// The account's key is damaged. It is not replaced: the account would be lost.
    AccountKey(KeyError),
    /// There are more contacts than [`CONTACTS_MAX`].
    Contacts,
}

/// A step whose result is awaited.
#[derive(Debug)]
struct Pending {
    owner: Owner,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Session(Task),
    Certificate(usize),
}

/// What a certificate leads to.
enum Next {
    Step(Owner, Step),
    Wait(Time),
}

impl Issuer {
    /// Makes the machine of the state that the files describe. `read` returns the contents of a file, or none if there is
    /// no such file; it is called here only. `random` spreads renewals.
    ///
    /// # Errors
    /// The account's key is damaged, or there are too many contacts.
    pub fn new(
        config: Config,
        wanted: Vec<Wanted>,
        read: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
        now: Time,
        random: u64,
    ) -> Result<Issuer, IssuerError> {
        if config.contacts.len() > CONTACTS_MAX {
            return Err(IssuerError::Contacts);
        }
        let mut reports = VecDeque::new();
        let key = match &config.account_key {
            AccountKeySource::Given(key) => Some(key.clone()),
            AccountKeySource::Generate(_) => match read(ACCOUNT_KEY) {
                Some(contents) => {
                    let text = str::from_utf8(&contents).unwrap_or_default();
                    Some(Key::from_pem(text).map_err(IssuerError::AccountKey)?)
                }
                None => None,
            },
        };
        let key = key.map(AccountKey::new).transpose().map_err(IssuerError::AccountKey)?;
        let account = read(ACCOUNT);
        let registered = account.as_deref().and_then(Registered::parse);
        if account.is_some() && registered.is_none() {
            let event = Event::Damaged(ACCOUNT.to_owned());
            reports.push_back(Report { certificate: None, event });
        }
        let session = Session::new(&config, key, registered);
        let mut certificates = Vec::with_capacity(wanted.len());
        for (index, wanted) in wanted.into_iter().enumerate() {
            let (certificate, damaged) = Certificate::new(wanted, read, now, spread(random, index));
            certificates.push(certificate);
            reports.extend(
                damaged
                    .into_iter()
                    .map(|file| Report { certificate: Some(index), event: Event::Damaged(file) }),
            );
        }
        Ok(Issuer {
            config,
            session,
            certificates,
            pending: None,
            reports,
            turn: 0,
            rest: None,
            failures: 0,
            bad_nonces: 0,
            last: now,
        })
    }

    /// Returns the next step. Until its result is passed to [`Issuer::done`], the same step is returned; reports and
    /// waits have no result.
    pub fn poll(&mut self, now: Time) -> Step {
        self.observe(now);
        if let Some(report) = self.reports.pop_front() {
            return Step::Report(report);
        }
        if let Some(pending) = &self.pending {
            return pending.step.clone();
        }
        let count = self.certificates.len();
        let mut until = Time(u64::MAX);
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            match self.certificate_step(index, now) {
                Ok(Next::Step(owner, step)) => {
                    self.turn = index;
                    self.pending = Some(Pending { owner, step: step.clone() });
                    return step;
                }
                Ok(Next::Wait(time)) => until = until.min(time),
                Err(failure) => {
                    until = until.min(self.fail(failure, now, 0));
                    break;
                }
            }
        }
        match self.reports.pop_front() {
            Some(report) => Step::Report(report),
            None => Step::Wait(until),
        }
    }

    /// Takes the result of the last step. `random` spreads pauses and renewals; it is used once.
    pub fn done(&mut self, outcome: Outcome, now: Time, random: u64) {
        self.observe(now);
        let Some(Pending { owner, step }) = self.pending.take() else { return };
        if let Outcome::Response(response) = &outcome
            && self.is_bad_nonce(&step, response)
        {
            return;
        }
        match owner {
            Owner::Session(task) => match self.session.done(task, outcome, &self.config, now) {
                Ok(event) => {
                    (self.failures, self.rest) = (0, None);
                    self.reports.extend(event.map(|event| Report { certificate: None, event }));
                }
                Err(failure) => {
                    self.fail(failure, now, random);
                }
            },
            Owner::Certificate(index) => self.certificate_done(index, &step, outcome, now, random),
        }
    }

    /// Returns the wanted certificates, each with the one that can be used, if there is one. It changes when
    /// [`Event::Issued`] is reported.
    pub fn certificates(&self) -> impl Iterator<Item = (&Wanted, Option<Installed<'_>>)> {
        self.certificates
            .iter()
            .map(|certificate| (certificate.wanted(), certificate.held().map(Installed::of)))
    }

    /// Notes the time. Where the clock was set back, all that is waited for comes earlier by as much: a clock that was years
    /// ahead for a moment must not end renewals.
    fn observe(&mut self, now: Time) {
        let back = self.last.since(now);
        self.last = now;
        if back.is_zero() {
            return;
        }
        self.rest = self.rest.map(|until| until.before(back));
        self.session.set_back(back);
        for certificate in &mut self.certificates {
            certificate.set_back(back);
        }
    }

    /// Keeps the nonce of a response. Says whether the response is a refusal of the request's nonce, after which the same
    /// request is sent with another one, within a limit.
    fn is_bad_nonce(&mut self, step: &Step, response: &Response) -> bool {
        let signed = matches!(step, Step::Send(Request { method: Method::Post, .. }));
        let refused = signed
            && !response.is_success()
            && Problem::of_body(&response.body).kind == ProblemKind::BadNonce;
        if refused {
            self.session.drop_nonces();
        }
        self.session.keep_nonce(response);
        self.bad_nonces = if refused { self.bad_nonces + 1 } else { 0 };
        let again = refused && self.bad_nonces <= BAD_NONCES_MAX;
        if !again {
            self.bad_nonces = 0;
        }
        again
    }

    fn certificate_done(
        &mut self,
        index: usize,
        step: &Step,
        outcome: Outcome,
        now: Time,
        random: u64,
    ) {
        let others = self.certificates.iter().enumerate().filter(|(other, _)| *other != index);
        let claimed: Vec<String> =
            others.filter_map(|(_, other)| other.order_url().map(str::to_owned)).collect();
        let context = Context {
            now,
            random,
            config: &self.config,
            directory: self.session.directory(),
            key: self.session.key(),
            claimed: &claimed,
        };
        let Some(certificate) = self.certificates.get_mut(index) else { return };
        let Some(event) = certificate.done(step, outcome, &context) else { return };
        if let Event::Failed(failure, _) = &event {
            self.session.after_failure(failure);
        }
        self.reports.push_back(Report { certificate: Some(index), event });
    }

    /// Returns the next step of a certificate, or of the session before it.
    fn certificate_step(&mut self, index: usize, now: Time) -> Result<Next, Failure> {
        let owner = Owner::Certificate(index);
        loop {
            let Some(certificate) = self.certificates.get_mut(index) else {
                return Ok(Next::Wait(Time(u64::MAX)));
            };
            let want = certificate.want(now);
            let need = match &want {
                Want::Wait(until) => return Ok(Next::Wait(*until)),
                Want::Store(change) => return Ok(Next::Step(owner, Step::Store(change.clone()))),
                Want::Present(list) => return Ok(Next::Step(owner, Step::Present(list.clone()))),
                Want::Withdraw(list) => return Ok(Next::Step(owner, Step::Withdraw(list.clone()))),
                Want::Renewal(_) => Need::Directory,
                Want::MakeKey(_) => Need::Account,
                Want::Call(_) | Want::Orders => Need::Nonce,
            };
            if let Some(rest) = self.rest.filter(|rest| *rest > now) {
                return Ok(Next::Wait(rest));
            }
            // The end of another order is the result of a step, after which this is decided again.
            if matches!(want, Want::MakeKey(_)) && !self.has_room() {
                return Ok(Next::Wait(Time(u64::MAX)));
            }
            let Some(certificate) = self.certificates.get_mut(index) else {
                return Ok(Next::Wait(Time(u64::MAX)));
            };
            if let Some((task, step)) = self.session.next(need, &self.config, now)? {
                return Ok(Next::Step(Owner::Session(task), step));
            }
            // Both ways around leave the state that led to them, so the loop ends.
            match want {
                Want::Renewal(id) => match renewal_url(self.session.directory(), &id) {
                    Some(url) => {
                        let request = Request::plain(Method::Get, &url);
                        return Ok(Next::Step(owner, Step::Send(request)));
                    }
                    None => certificate.no_renewal(now),
                },
                Want::Orders => match self.session.orders_url().map(str::to_owned) {
                    Some(url) => {
                        let request = self.session.signed(Some(&url), None, None)?;
                        return Ok(Next::Step(owner, Step::Send(request)));
                    }
                    None => certificate.no_orders(),
                },
                Want::MakeKey(kind) => return Ok(Next::Step(owner, Step::MakeKey(kind))),
                Want::Call(call) => {
                    return Ok(Next::Step(owner, Step::Send(self.request(&call)?)));
                }
                Want::Wait(_) | Want::Store(_) | Want::Present(_) | Want::Withdraw(_) => {}
            }
        }
    }

    /// Returns whether another order may begin.
    fn has_room(&self) -> bool {
        let ordering = self.certificates.iter().filter(|certificate| certificate.is_ordering());
        ordering.count() < ORDERS_IN_FLIGHT_MAX
    }

    fn request(&mut self, call: &Call) -> Result<Request, Failure> {
        let url = match (&call.target, self.session.directory()) {
            (Target::Url(url), _) => url.clone(),
            (Target::NewOrder, Some(directory)) => directory.new_order.clone(),
            (Target::NewOrder, None) => return Err(Failure::AccountInvalid),
        };
        self.session.signed(Some(&url), call.payload.as_ref(), call.accept)
    }

    /// Rests after a failure of the session, and returns the end of the rest.
    fn fail(&mut self, failure: Failure, now: Time, random: u64) -> Time {
        self.failures = self.failures.saturating_add(1);
        self.session.after_failure(&failure);
        let backoff = match failure.consequence() {
            Consequence::Retry => REQUESTS,
            Consequence::Reorder | Consequence::Reregister => ORDERS,
        };
        let asked = failure.retry_after().unwrap_or_default().min(now.after(RETRY_AFTER_MAX));
        let until = now.after(backoff.pause(self.failures, random)).max(asked);
        self.rest = Some(until);
        let event = Event::Failed(failure, until);
        self.reports.push_back(Report { certificate: None, event });
        until
    }
}

fn renewal_url(directory: Option<&Directory>, id: &str) -> Option<String> {
    let base = directory?.renewal_info.as_deref()?;
    Some(format!("{}/{id}", base.trim_end_matches('/')))
}

impl Installed<'_> {
    fn of(held: &Held) -> Installed<'_> {
        Installed { key: &held.key, chain: &held.chain }
    }
}

/// Returns another random number for each position.
fn spread(random: u64, index: usize) -> u64 {
    // The step of the Weyl sequence of the golden ratio: neighbours are far apart.
    random.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl fmt::Display for IssuerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IssuerError::AccountKey(error) => write!(f, "the account's key: {error}"),
            IssuerError::Contacts => write!(f, "an account has at most {CONTACTS_MAX} contacts"),
        }
    }
}

impl std::error::Error for IssuerError {}
