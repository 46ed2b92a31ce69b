//! The tasks of a store on the thread of background work: one has the connection, one sends what has changed.
//!
//! A round is: each zone makes its commands, all are sent at once, the replies are taken over in order. So a round costs one
//! round trip to the engine, whatever the number of zones. It is followed by the rest of the interval. While the engine is
//! unavailable no zone is asked: what has changed stays with the zones.
//!
//! Invariant: [`Member::end`] follows each [`Member::begin`], also where the task is dropped in between (a reload): the
//! results are then [`CallError::Lost`].

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_core::Level;
use tidegate_rt::{clock, timer};
use tidegate_store::{CallError, Lines, Reply, State, Value};
use tidegate_upstream::care::BackgroundTask;

use super::nodes;
use super::store::{Member, SyncStore};

/// The task with the connection.
pub(super) struct EngineTask(pub(super) Arc<SyncStore>);

impl BackgroundTask for EngineTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        let store = &self.0;
        let (engine, name) = (store.engine().clone(), store.name.clone());
        Box::pin(tidegate_store::run(engine, name, store.log.clone()))
    }
}

/// The task with the rounds.
pub(super) struct SyncTask(pub(super) Arc<SyncStore>);

/// The time between two renewals of this server's entry among those that share the store: a third of what it lasts.
const RENEWAL: Duration = Duration::from_secs(1);
/// The shortest pause between two rounds, where one takes longer than the interval.
const PAUSE_MIN: Duration = Duration::from_millis(5);

impl BackgroundTask for SyncTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let (store, mut lines) = (&self.0, Lines::default());
            let mut renewed: Option<Instant> = None;
            loop {
                let begun = clock::exact_now();
                let renews = !store.knows_nodes()
                    || renewed.is_none_or(|at| begun.saturating_duration_since(at) >= RENEWAL);
                // Where the engine cannot be reached the renewal is due as soon as it can.
                let is_sent = round(store, renews, &mut lines).await;
                if renews {
                    renewed = is_sent.then_some(begun);
                }
                let taken = clock::exact_now().saturating_duration_since(begun);
                timer::sleep(store.interval().saturating_sub(taken).max(PAUSE_MIN)).await;
            }
        })
    }
}

/// The commands of a zone that were sent.
struct Sent<'a> {
    store: &'a SyncStore,
    member: Arc<dyn Member>,
    replies: VecDeque<Reply>,
    results: Vec<Result<Value, CallError>>,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let lost = self.replies.drain(..).map(|_| Err(CallError::Lost("given up".into())));
        let mut results = std::mem::take(&mut self.results);
        results.extend(lost);
        self.member.end(self.store, results, clock::exact_now());
    }
}

/// Does a round; returns whether the engine can be reached.
async fn round(store: &SyncStore, renews: bool, lines: &mut Lines) -> bool {
    let (engine, begun) = (store.engine(), clock::exact_now());
    if matches!(engine.state(), State::Broken(..)) {
        store.set_available(false);
        return false;
    }
    let renewal = renews.then(|| engine.begin(nodes::renew(store.prefix(), engine.node())));
    let mut sent = Vec::new();
    let members = if store.knows_nodes() { store.members() } else { Vec::new() };
    for member in members {
        let commands = member.begin(store);
        if !commands.is_empty() {
            let replies = commands.into_iter().map(|command| engine.begin(command)).collect();
            sent.push(Sent { store, member, replies, results: Vec::new() });
        }
    }
    let (mut failure, mut any) = (None, false);
    if let Some(renewal) = renewal {
        any = true;
        match renewal.wait().await {
            Ok(reply) => store.set_nodes(nodes::count(&reply)),
            Err(error) => failure = Some(error),
        }
    }
    for mut one in sent {
        while let Some(reply) = one.replies.pop_front() {
            any = true;
            let result = reply.wait().await;
            if let Err(error) = &result {
                failure = Some(error.clone());
            }
            one.results.push(result);
        }
    }
    if any {
        note(store, failure, begun, lines);
    }
    true
}

/// Notes the result of a round. What the connection's task logs is not logged here.
fn note(store: &SyncStore, failure: Option<CallError>, begun: Instant, lines: &mut Lines) {
    let now = clock::exact_now();
    store.kept.rounds.fetch_add(1, Ordering::Relaxed);
    let taken = now.saturating_duration_since(begun);
    store.kept.round_micros.store(taken.as_micros() as u64, Ordering::Relaxed);
    let late = matches!(failure, Some(CallError::TimedOut | CallError::Lost(_)));
    store.note_round(taken, late);
    store.set_available(failure.is_none());
    let Some(failure) = failure else { return };
    store.kept.rounds_failed.fetch_add(1, Ordering::Relaxed);
    if let CallError::Refused(reason) = failure
        && lines.allow(&reason, now)
    {
        let name = &store.name;
        store
            .log
            .say(Level::Error, format_args!("the store \"{name}\" refuses commands: {reason}"));
    }
}
