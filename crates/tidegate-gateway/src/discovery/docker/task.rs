//! The task that follows Docker's events for the groups of a block.
//!
//! ```text
//! events are asked for ─→ the list is read, groups get their servers ─→ an event ─→ the list is read …
//!     └─→ no response, an invalid one, the end of the events: the groups stay ─→ a pause ─→ events are asked for
//! ```
//! Events are asked for before the list is read, so that none is missed in between. An event only says that there is something
//! new: the list has all that is needed.
//!
//! Cancelling: dropped at any await (a reload), connections are closed and the groups stay.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::{clock, timer};
use tidegate_store::Lines;
use tidegate_upstream::care::BackgroundTask;
use tidegate_upstream::{FetchSettings, Group, Member};

use super::{ContainerServers, labels};
use crate::discovery::client::{BODY_BYTES_MAX, Client, HEAD_BYTES_MAX};
use crate::discovery::follow::{expect_ok, next_bytes, parsed};
use crate::discovery::kept::{Failure, Kept};
use crate::discovery::members;
use crate::outbound;
use crate::upstream::Groups;

/// The containers of an engine, for the groups of a block.
pub(super) struct DockerTask {
    pub(super) client: Client,
    /// `http` or `stream`.
    pub(super) block: &'static str,
    pub(super) groups: Groups,
    /// The servers that containers are in the groups of this configuration.
    pub(super) current: Arc<ContainerServers>,
    /// The same for the next configuration.
    pub(super) servers: Arc<ContainerServers>,
    pub(super) kept: Arc<Kept>,
    pub(super) object_bytes_max: usize,
    pub(super) log: ErrorLog,
}

const LIST: &str = "/containers/json";
/// The events that change addresses or states, as `filters={"event":[…]}`.
const EVENTS: &str = "/events?filters=%7B%22event%22%3A%5B%22start%22%2C%22die%22%2C%22stop%22%2C%22pause%22%2C\
                      %22unpause%22%2C%22destroy%22%2C%22connect%22%2C%22disconnect%22%5D%7D";
/// Limit for the list.
const LIST_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest time without an event; then they are asked for again, and the list is read.
const EVENTS_TIME_MAX: Duration = Duration::from_secs(600);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between two readings of the list: events come in groups.
const PAUSE_MIN: Duration = Duration::from_millis(10);

static SETTINGS: LazyLock<Arc<FetchSettings>> = LazyLock::new(|| {
    let read = EVENTS_TIME_MAX * 2;
    Arc::new(outbound::fetch_settings(CONNECT_TIME_MAX, read, read, HEAD_BYTES_MAX))
});

impl BackgroundTask for DockerTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut lines = Lines::default();
            loop {
                let pause = match self.follow(&mut lines).await {
                    Ok(()) => PAUSE_MIN,
                    Err(failure) => {
                        self.kept.note_failure(&failure);
                        self.complain(failure.reason(), &mut lines);
                        PAUSE
                    }
                };
                timer::sleep(pause).await;
            }
        })
    }
}

impl DockerTask {
    /// Follows the events until they end, or for the longest time.
    async fn follow(&self, lines: &mut Lines) -> Result<(), Failure> {
        let asked = timer::timeout(LIST_TIME_MAX, self.client.ask(EVENTS, None, &SETTINGS)).await;
        let response = asked.unwrap_or_else(|_| Err(late()))?;
        expect_ok(&response)?;
        let mut events = response.body.into_body();
        loop {
            self.read_list(lines).await?;
            timer::sleep(PAUSE_MIN).await;
            match timer::timeout(EVENTS_TIME_MAX, next_bytes(&mut events)).await {
                Err(_) => return Ok(()),
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => {
                    return Err(Failure::NoResponse("the engine has ended its events".to_owned()));
                }
                Ok(Err(failure)) => return Err(failure),
            }
        }
    }

    async fn read_list(&self, lines: &mut Lines) -> Result<(), Failure> {
        let asking = async {
            let response = self.client.ask(LIST, None, &SETTINGS).await?;
            expect_ok(&response)?;
            Client::body(response, BODY_BYTES_MAX).await
        };
        let asked = timer::timeout(LIST_TIME_MAX, Box::pin(asking)).await;
        let list = asked.unwrap_or_else(|_| Err(late()))?;
        let (block, most) = (self.block, self.object_bytes_max);
        let mut found = parsed(list, move |list| labels::servers(block, list, most)).await?;
        let (mut all, mut is_changed) = (Vec::new(), false);
        for (name, group) in self.groups.of_containers() {
            let endpoints = found.groups.remove(&name).unwrap_or_default();
            let mut wanted = Vec::new();
            for endpoint in endpoints {
                match members::members(vec![endpoint], &group) {
                    Ok(members) => wanted.extend(members),
                    Err(reason) => found.problems.push(format!("upstream \"{name}\": {reason}")),
                }
            }
            all.extend(wanted.iter().cloned());
            is_changed |= self.take_over(&name, &group, wanted);
        }
        for name in found.groups.into_keys().take(1) {
            let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
            let what = format!("there is no upstream \"{name}\" with a zone in \"{block}\"");
            found.problems.push(what);
        }
        self.kept.note(all.into(), is_changed);
        if let Some(problem) = found.problems.first() {
            self.complain(problem, lines);
        }
        Ok(())
    }

    /// Gives a group these servers beside those of its configuration; returns whether it has changed.
    fn take_over(&self, name: &str, group: &Group, mut wanted: Vec<Member>) -> bool {
        let before = self.current.of(name);
        wanted.retain(|wanted| !is_own(group, &before, wanted));
        self.servers.set(name, wanted.clone());
        if before == wanted {
            return false;
        }
        exchange(group, &before, &wanted);
        let count = wanted.len();
        self.current.set(name, wanted);
        let text = format_args!("docker: upstream \"{name}\" has {count} container(s)");
        self.log.say(Level::Info, text);
        true
    }

    fn complain(&self, reason: &str, lines: &mut Lines) {
        let reason: Arc<str> = reason.into();
        if lines.allow(&reason, clock::exact_now()) {
            self.log.say(Level::Error, format_args!("docker ({}): {reason}", self.block));
        }
    }
}

fn late() -> Failure {
    Failure::NoResponse(format!("no response within {LIST_TIME_MAX:?}"))
}

/// Returns whether the configuration or a command has given the group a server: then no container adds or removes it.
fn is_own(group: &Group, before: &[Member], wanted: &Member) -> bool {
    let is_same = |member: &Member| member.server == wanted.server;
    !before.iter().any(is_same) && group.members().iter().any(is_same)
}

/// Exchanges some servers of a group for others. A server that a command drains remains drained.
pub(super) fn exchange(group: &Group, before: &[Member], wanted: &[Member]) {
    let gone: HashSet<&str> = before.iter().map(|member| &*member.server).collect();
    group.change_members(clock::now(), |members| {
        let old = members.extract_if(.., |member| gone.contains(&*member.server));
        let drained: HashSet<Box<str>> =
            old.filter(|member| member.options.drain).map(|member| member.server).collect();
        members.extend(wanted.iter().cloned().map(|mut wanted| {
            wanted.options.drain |= drained.contains(&wanted.server);
            wanted
        }));
    });
}
