//! The run of an issuer: the steps of `tidegate-acme`, one after the other, on the background thread.
//!
//! It outlives reloads: it ends its step, then goes on; with settings that have changed, by another machine of the same files,
//! so that no order is lost. Disks, keys and the parsing of many certificates are work of the thread pool; the waits for the server
//! have limits. Nothing here takes a certificate out of use.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_acme::{
    Challenge, ChallengeKind, Event, Failure, Issuer, Key, Outcome, Report, Step, Time, Wanted,
};
use tidegate_core::blocking;
use tidegate_core::error_log::Level;
use tidegate_rt::{clock, random};
use tidegate_upstream::care::BackgroundTask;

use super::dns::Action;
use super::https;
use super::issuance::Issuance;
use super::issuer::IssuerPlan;
use super::store::{self, Store};

/// The task of a plan: it holds the plan's wish.
pub(super) struct IssuerTask {
    pub(super) issuance: Arc<Issuance>,
    pub(super) plan: Arc<IssuerPlan>,
}

/// The longest wait without a look at the clock, which may have been changed.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The wait for the lock of another process, or for a directory that cannot be used.
const LOCK_PAUSE: Duration = Duration::from_secs(2);
/// The wait between two attempts to begin.
const BEGIN_PAUSE: Duration = Duration::from_secs(60);

/// A run, from one wish to the next.
struct Run<'a> {
    issuance: &'a Issuance,
    /// The number of the wish.
    number: u64,
    plan: Arc<IssuerPlan>,
    store: Store,
    presented: &'a mut Presented,
}

/// The challenges that this issuer presents. They stay over a reload: validations may be on their way.
#[derive(Default)]
struct Presented(Vec<(Challenge, Arc<IssuerPlan>)>);

impl BackgroundTask for IssuerTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let _wish = self.issuance.wish(self.plan.clone());
            std::future::pending::<()>().await;
        })
    }

    /// Validations arrive at the process that listens, so that one gets the lock.
    fn ends_with_listeners(&self) -> bool {
        true
    }
}

/// Runs an issuer until no plan wishes it.
pub(super) async fn run(issuance: &Arc<Issuance>) {
    let mut presented = Presented::default();
    let mut held: Option<(PathBuf, File)> = None;
    while let Some((number, plan)) = issuance.wished() {
        held = held.filter(|(directory, _)| plan.directory.as_ref() == Some(directory));
        if held.is_none()
            && let Some(directory) = &plan.directory
        {
            match lock(issuance, number, &plan).await {
                Some(file) => held = Some((directory.clone(), file)),
                None => continue,
            }
        }
        let store = issuance.store(&plan);
        Run { issuance, number, plan, store, presented: &mut presented }.run().await;
    }
}

/// Waits for the lock of the directory; `None` when there is another wish. While another process has it (the worker
/// that this one replaces), its certificates are used.
async fn lock(issuance: &Issuance, number: u64, plan: &Arc<IssuerPlan>) -> Option<File> {
    let mut logged = false;
    while issuance.is_current(number) {
        let directory = plan.directory.clone()?;
        let shown = directory.display().to_string();
        match blocking::run(move || store::lock(&directory)).await {
            Ok(Some(file)) => return Some(file),
            Ok(None) => {
                if !std::mem::replace(&mut logged, true) {
                    let text = format!("waits for another process that uses \"{shown}\"");
                    say(plan, Level::Notice, &text);
                }
                read_again(issuance, plan).await;
            }
            Err(error) if !logged => {
                logged = true;
                let error = tidegate_os::os_error(&error);
                say(plan, Level::Error, &format!("cannot use the directory \"{shown}\" ({error})"));
            }
            Err(_) => {}
        }
        issuance.pause(LOCK_PAUSE).await;
    }
    None
}

/// Takes certificates into use that another process has stored.
async fn read_again(issuance: &Issuance, plan: &Arc<IssuerPlan>) {
    let (store, certificates, plan) = (issuance.store(plan), issuance.certificates(), plan.clone());
    let work = move || {
        for stem in plan.wanted.iter().map(|wanted| wanted.stem()) {
            if let Some(contents) = store.read_pair(stem) {
                certificates.install_file(stem, &contents);
            }
        }
        Ok(())
    };
    let _ = blocking::run(work).await;
}

impl Run<'_> {
    /// Does steps until there is a wish that needs another machine, or none.
    async fn run(mut self) {
        let mut issuer = match self.begin().await {
            Ok(issuer) => issuer,
            Err(reason) => {
                say(&self.plan, Level::Error, &reason);
                return self.issuance.pause(BEGIN_PAUSE).await;
            }
        };
        self.install(&issuer);
        while let Some((number, plan)) = self.issuance.wished() {
            if number != self.number {
                // A reload that changes nothing for the machine asks the server nothing.
                if !plan.continues(&self.plan) {
                    return;
                }
                (self.number, self.plan) = (number, plan);
            }
            match issuer.poll(now()) {
                Step::Wait(until) => {
                    let wait = until.since(now()).clamp(Duration::from_millis(1), WAIT_MAX);
                    self.issuance.pause(wait).await;
                }
                Step::Report(report) => {
                    self.report(&report);
                    if matches!(report.event, Event::Issued(_)) {
                        self.install(&issuer);
                    }
                }
                step => {
                    let outcome = self.step(step).await;
                    issuer.done(outcome, now(), random::next_u64());
                }
            }
        }
    }

    /// Makes the machine of the files. With many certificates that takes a while.
    async fn begin(&self) -> Result<Issuer, String> {
        let (plan, store) = (self.plan.clone(), self.store.clone());
        let begin = move || {
            let mut unreadable = None;
            let mut read = |file: &str| match store.read(file) {
                Ok(contents) => contents,
                Err(error) => {
                    unreadable.get_or_insert(error);
                    None
                }
            };
            let (config, wanted) = (plan.config.clone(), plan.wanted.clone());
            let made = Issuer::new(config, wanted, &mut read, now(), random::next_u64());
            // Nothing was written yet.
            unreadable.map_or(Ok(made), Err)
        };
        match blocking::run(begin).await {
            Ok(made) => made.map_err(|error| error.to_string()),
            Err(error) => Err(tidegate_os::os_error(&error)),
        }
    }

    fn install(&self, issuer: &Issuer) {
        let certificates = self.issuance.certificates();
        for (wanted, installed) in issuer.certificates() {
            if let Some(installed) = installed {
                let (key, chain) = (installed.key.to_pem(), installed.chain.to_pem());
                certificates.install(wanted.stem(), &key, chain);
            }
        }
    }

    async fn step(&mut self, step: Step) -> Outcome {
        let done = match step {
            Step::Store(change) => {
                let store = self.store.clone();
                let stored = blocking::run(move || store.store(change)).await;
                stored.map_err(|error| {
                    let text = format!("cannot store {error}");
                    say(&self.plan, Level::Error, &text);
                    text
                })
            }
            Step::MakeKey(kind) => {
                let made = blocking::run(move || Key::generate(kind).map_err(io::Error::other));
                match made.await {
                    Ok(key) => return Outcome::Key(key),
                    Err(error) => Err(error.to_string()),
                }
            }
            Step::Send(request) => match https::send(&self.plan, &request).await {
                Ok(response) => return Outcome::Response(response),
                Err(reason) => Err(reason),
            },
            Step::Present(list) => match self.records(Action::Set, &list).await {
                Ok(()) => self.presented.present(list, &self.plan),
                Err(reason) => Err(reason),
            },
            Step::Withdraw(list) => {
                // A record that stays does no harm.
                if let Err(reason) = self.records(Action::Clear, &list).await {
                    say(&self.plan, Level::Warn, &reason);
                }
                self.presented.withdraw(&list);
                Ok(())
            }
            Step::Report(_) | Step::Wait(_) => Ok(()),
        };
        done.map_or_else(Outcome::Failed, |()| Outcome::Done)
    }

    /// Changes the records of challenges by dns-01.
    async fn records(&self, action: Action, list: &[Challenge]) -> Result<(), String> {
        let is_dns = |challenge: &Challenge| challenge.kind == ChallengeKind::Dns01;
        match &self.plan.dns {
            Some(program) if list.iter().all(is_dns) => program.run(action, list).await,
            _ => Ok(()),
        }
    }

    /// Notes an event for status pages. A failure that is not about one certificate holds all of them up.
    fn note(&self, report: &Report, wanted: Option<&Wanted>) {
        let all = match (wanted, &report.event) {
            (Some(wanted), _) => std::slice::from_ref(wanted),
            (None, Event::Failed(..)) => &self.plan.wanted[..],
            (None, _) => return,
        };
        let (certificates, event) = (self.issuance.certificates(), report.event.to_string());
        let now = clock::unix_millis();
        all.iter().for_each(|wanted| certificates.note(wanted.stem(), &event, now));
    }

    fn report(&self, report: &Report) {
        let level = match &report.event {
            // The network: the certificate in use is not in danger yet. Disks are logged where they fail.
            Event::Failed(Failure::Caller(_), _) => Level::Warn,
            event if event.is_error() => Level::Error,
            Event::DefaultProfile(_) => Level::Warn,
            Event::Issued(_) => Level::Notice,
            _ => Level::Info,
        };
        let wanted = report.certificate.and_then(|index| self.plan.wanted.get(index));
        let name = wanted.and_then(|wanted| wanted.names().first());
        self.note(report, wanted);
        let text = match name {
            Some(name) => format!("{}, certificate \"{name}\"", report.event),
            None => report.event.to_string(),
        };
        say(&self.plan, level, &text);
    }
}

impl Presented {
    fn present(&mut self, list: Vec<Challenge>, plan: &Arc<IssuerPlan>) -> Result<(), String> {
        for challenge in list {
            plan.challenges.present(&challenge)?;
            if self.0.iter().all(|(known, _)| *known != challenge) {
                self.0.push((challenge, plan.clone()));
            }
        }
        Ok(())
    }

    fn withdraw(&mut self, list: &[Challenge]) {
        self.0.retain(|(challenge, plan)| {
            let ends = list.contains(challenge);
            if ends {
                plan.challenges.withdraw(challenge);
            }
            !ends
        });
    }
}

impl Drop for Presented {
    fn drop(&mut self) {
        for (challenge, plan) in &self.0 {
            plan.challenges.withdraw(challenge);
        }
    }
}

fn say(plan: &IssuerPlan, level: Level, text: &str) {
    plan.log.say(level, format_args!("{text}, acme issuer: \"{}\"", plan.name));
}

fn now() -> Time {
    Time(u64::try_from(clock::unix_seconds()).unwrap_or_default())
}
