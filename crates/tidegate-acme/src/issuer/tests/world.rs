//! A caller of the machine in memory: a disk, challenges that are presented, time that passes when the machine waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::authority::{Authority, BASE};
use crate::chain::Chain;
use crate::config::{AccountKeySource, Config, Wanted};
use crate::files;
use crate::identifier::Identifier;
use crate::issuer::Issuer;
use crate::key::{Key, KeyKind};
use crate::message::ChallengeKind;
use crate::step::{Event, Outcome, Report, Step};
use crate::time::Time;
use crate::wire::{Method, Request, Response};

pub(super) const START: Time = Time(1_800_000_000);
/// More than any test needs: a machine that goes in circles fails.
const STEPS_MAX: usize = 3000;

/// Everything around the machine.
pub(super) struct World {
    pub authority: Authority,
    pub config: Config,
    pub wanted: Vec<Wanted>,
    pub disk: BTreeMap<String, Vec<u8>>,
    pub presented: BTreeMap<String, String>,
    pub now: Time,
    /// By how much that is ahead of the authority's clock.
    pub ahead: Duration,
    pub reports: Vec<Report>,
    /// The steps, as short texts.
    pub log: Vec<String>,
    random: u64,
}

/// What happens to a step.
pub(super) enum Fault {
    Done,
    /// The process is killed before the step.
    KilledBefore,
    /// The process is killed after the step, whose result it never sees.
    KilledAfter,
    /// The step is done, but its result is lost: the connection breaks before the response.
    Lost,
    /// The server responds with this instead, and does nothing.
    Instead(Response),
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Killed,
    /// Nothing is to be done for more than the time of the run.
    Waits(Time),
}

pub(super) fn wanted(names: &[&str], key: KeyKind) -> Wanted {
    let names: Vec<_> = names.iter().filter_map(|name| Identifier::parse(name).ok()).collect();
    Wanted::new(&names, key).expect("names")
}

impl World {
    pub(super) fn new() -> World {
        World {
            authority: Authority::new(),
            config: Config {
                directory: format!("{BASE}/dir"),
                account_key: AccountKeySource::Generate(KeyKind::Ecdsa256),
                contacts: vec!["mailto:admin@a.test".to_owned()],
                external_account: None,
                terms_agreed: true,
                challenge: ChallengeKind::Http01,
                preferred_chain: None,
                profile: None,
                common_name: false,
            },
            wanted: vec![wanted(&["a.test", "192.0.2.1"], KeyKind::Ecdsa256)],
            disk: BTreeMap::new(),
            presented: BTreeMap::new(),
            now: START,
            ahead: Duration::ZERO,
            reports: Vec::new(),
            log: Vec::new(),
            random: 0x1234_5678_9abc_def0,
        }
    }

    /// Sets the clock to be ahead of the authority's by this time.
    pub(super) fn set_clock(&mut self, ahead: Duration) {
        self.now = self.now.before(self.ahead).after(ahead);
        self.ahead = ahead;
    }

    /// Begins with what is on the disk. What was in memory is lost.
    pub(super) fn start(&mut self) -> Issuer {
        self.presented.clear();
        let (config, wanted) = (self.config.clone(), self.wanted.clone());
        let disk = &self.disk;
        let mut read = |file: &str| disk.get(file).cloned();
        Issuer::new(config, wanted, &mut read, self.now, 1 << 63).expect("an issuer")
    }

    /// Runs until the machine is killed, or waits for more than this number of seconds from now.
    pub(super) fn run(
        &mut self,
        issuer: &mut Issuer,
        seconds: u64,
        fault: &mut dyn FnMut(&Step) -> Fault,
    ) -> End {
        let end = Time(self.now.0 + seconds);
        for _ in 0..STEPS_MAX {
            let step = issuer.poll(self.now);
            match step {
                Step::Report(report) => self.reports.push(report),
                Step::Wait(until) if until > end => return End::Waits(until),
                Step::Wait(until) => {
                    assert!(until > self.now, "a wait without end");
                    self.now = until;
                }
                step => {
                    assert_eq!(issuer.poll(self.now), step, "the step stays");
                    let fault = fault(&step);
                    if matches!(fault, Fault::KilledBefore) {
                        return End::Killed;
                    }
                    let outcome = match &fault {
                        Fault::Instead(response) if matches!(step, Step::Send(_)) => {
                            Outcome::Response(response.clone())
                        }
                        _ => self.do_step(&step),
                    };
                    let outcome = match fault {
                        Fault::KilledAfter => return End::Killed,
                        Fault::Lost => Outcome::Failed("connection reset".to_owned()),
                        _ => outcome,
                    };
                    self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
                    issuer.done(outcome, self.now, self.random);
                }
            }
        }
        panic!("no end after {STEPS_MAX} steps: {:?}", &self.log[self.log.len() - 20..]);
    }

    fn do_step(&mut self, step: &Step) -> Outcome {
        self.log.push(text(step));
        match step {
            Step::Store(change) => {
                match &change.contents {
                    Some(contents) => self.disk.insert(change.file.clone(), contents.clone()),
                    None => self.disk.remove(&change.file),
                };
                Outcome::Done
            }
            Step::Send(request) => {
                let now = self.now.before(self.ahead);
                let response = self.authority.respond(request, &self.presented, now);
                Outcome::Response(response)
            }
            Step::MakeKey(kind) => Outcome::Key(Key::generate(*kind).expect("a key")),
            Step::Present(list) => {
                let pairs = list.iter().cloned();
                self.presented
                    .extend(pairs.map(|challenge| (challenge.token, challenge.key_authorization)));
                Outcome::Done
            }
            Step::Withdraw(list) => {
                list.iter().for_each(|challenge| drop(self.presented.remove(&challenge.token)));
                Outcome::Done
            }
            Step::Report(_) | Step::Wait(_) => Outcome::Done,
        }
    }

    /// Runs without a fault.
    pub(super) fn run_well(&mut self, issuer: &mut Issuer, seconds: u64) -> End {
        self.run(issuer, seconds, &mut |_| Fault::Done)
    }

    /// Checks that each wanted certificate is on the disk with its key, and nothing is left of an order.
    pub(super) fn check_issued(&self) {
        for wanted in &self.wanted {
            let contents = self.disk.get(&files::pem_file(wanted)).expect("a certificate");
            let (key, chain) = files::certificate(contents).expect("a key and a certificate");
            assert_eq!(chain.check(&key, wanted.names(), self.now), Ok(()));
            assert_eq!(key.kind(), wanted.key());
        }
        let orders: Vec<_> = self.disk.keys().filter(|file| file.ends_with(".order")).collect();
        assert_eq!(orders, Vec::<&String>::new());
        assert!(self.presented.is_empty());
    }

    pub(super) fn chain(&self) -> Chain {
        let contents = self.disk.get(&files::pem_file(&self.wanted[0])).expect("a certificate");
        files::certificate(contents).expect("a certificate").1
    }

    /// The failures that were reported, as texts.
    pub(super) fn failures(&self) -> Vec<String> {
        let failure = |report: &Report| match &report.event {
            Event::Failed(failure, _) => Some(failure.to_string()),
            _ => None,
        };
        self.reports.iter().filter_map(failure).collect()
    }

    pub(super) fn requests(&self) -> BTreeSet<String> {
        self.log.iter().filter(|line| line.starts_with("POST")).cloned().collect()
    }
}

/// Writes a step as a short text.
fn text(step: &Step) -> String {
    match step {
        Step::Store(change) => {
            let kind = change.file.rsplit('.').next().unwrap_or_default();
            let name = if change.file.starts_with("account") { &change.file } else { kind };
            let verb = if change.contents.is_some() { "store" } else { "remove" };
            format!("{verb} {name}")
        }
        Step::Send(Request { method, url, .. }) => {
            let path = url.strip_prefix(BASE).unwrap_or(url);
            let method = if *method == Method::Post { "POST" } else { method.as_str() };
            format!("{method} {path}")
        }
        Step::MakeKey(kind) => format!("make {kind}"),
        Step::Present(list) => format!("present {}", list.len()),
        Step::Withdraw(list) => format!("withdraw {}", list.len()),
        Step::Report(_) | Step::Wait(_) => String::new(),
    }
}
