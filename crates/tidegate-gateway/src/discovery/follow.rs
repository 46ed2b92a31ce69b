//! The task that keeps a group's servers as an engine has them.
//!
//! ```text
//! asking ─→ a response: checked as a whole ─→ the group gets its servers, the file is written ─→ asking
//!    ├─→ the same response, or one without servers that is not believed yet ─→ asking
//!    └─→ no response, or an invalid one: the group stays ─→ a pause (`upsync_interval`) ─→ asking
//! ```
//! Invariant: a group changes in one step, by a response that is valid in all its parts.
//!
//! Cancelling: dropped at any await (a reload), the connection is closed and the group stays. The task of the next plan begins
//! with the servers of the last response.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::blocking;
use tidegate_core::body::{Body, Chunk};
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::{Worker, clock, timer};
use tidegate_store::Lines;
use tidegate_upstream::care::BackgroundTask;
use tidegate_upstream::{FetchSettings, Group, Member, OriginResponse};

use super::client::{BODY_BYTES_MAX, Client, HEAD_BYTES_MAX};
use super::empty::EmptyRule;
use super::kept::{Failure, Kept};
use super::login::{AUTHENTICATE, Login, TOKEN_BYTES_MAX};
use super::{consul, etcd, members};
use crate::outbound;
use crate::upstream::saved::StateFile;

/// What is asked of which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Consul(consul::Kind),
    Etcd,
}

/// The question for a group's servers.
pub(super) struct Question {
    source: Source,
    path: Arc<str>,
    prefix: Arc<str>,
    timeout: Duration,
    settings: Arc<FetchSettings>,
}

/// The discovery of one group.
pub(super) struct Follow {
    pub(super) group: Arc<Group>,
    pub(super) client: Client,
    pub(super) question: Question,
    pub(super) interval: Duration,
    pub(super) empty_after: Duration,
    pub(super) kept: Arc<Kept>,
    /// The servers that the group has by the last response. The kept ones may be of another configuration's task, which ends
    /// later than this one is made.
    pub(super) current: Mutex<Option<Arc<Vec<Member>>>>,
    pub(super) dump: Option<Arc<StateFile>>,
    /// Whether that file has the servers of the last response.
    pub(super) is_dumped: AtomicBool,
    pub(super) log: ErrorLog,
}

/// Where a task is in the engine's history.
#[derive(Debug, Default)]
struct Position {
    consul: consul::Cursor,
    /// The revision from which on changes of etcd are to be watched.
    revision: Option<u64>,
}

/// The result of a question.
struct Pulled {
    /// The members that the group is to have; `None`: nothing has changed.
    members: Option<Vec<Member>>,
    /// The next question may follow at once.
    at_once: bool,
}

/// The longest time of a question that is to be responded to at once.
const FIRST_TIME_MAX: Duration = Duration::from_secs(10);
/// The shortest time between two questions, whatever the engine does.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest time to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Added to the limit of a read, which logs: the limit of the question comes first.
const READ_TIME_MORE: Duration = Duration::from_secs(5);
/// Responses of more bytes are read on a thread of a pool, as the thread of background work has more to do.
const BYTES_AT_ONCE: usize = 64 * 1024;
/// Bytes of the longest line of a watch that is read; a longer one is a change.
const LINE_BYTES_MAX: usize = 1 << 20;
/// A watch that ends earlier, without a change, is followed by a pause.
const WATCH_TIME_MIN: Duration = Duration::from_secs(1);

impl Question {
    pub(super) fn new(source: Source, path: &str, timeout: Duration) -> Question {
        let prefix = match source {
            Source::Consul(_) => consul::prefix(path),
            Source::Etcd => etcd::prefix(path).unwrap_or_default(),
        };
        let read = timeout.saturating_add(READ_TIME_MORE);
        let connect = CONNECT_TIME_MAX.min(timeout);
        let settings = outbound::fetch_settings(connect, read, read, HEAD_BYTES_MAX);
        Question {
            source,
            path: path.into(),
            prefix: prefix.into(),
            timeout,
            settings: Arc::new(settings),
        }
    }
}

impl BackgroundTask for Follow {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut empty = EmptyRule::new(self.empty_after);
            let (mut position, mut lines) = (Position::default(), Lines::default());
            let mut is_failing = false;
            loop {
                let pause = match self.step(&mut position, &mut empty, &mut lines).await {
                    Ok(at_once) => {
                        if std::mem::take(&mut is_failing) {
                            self.say(Level::Notice, format_args!("has responses again"));
                            lines = Lines::default();
                        }
                        if at_once { PAUSE_MIN } else { self.interval }
                    }
                    Err(failure) => {
                        position = Position::default();
                        empty.interrupt();
                        is_failing = true;
                        self.complain(&failure, &mut lines);
                        self.interval
                    }
                };
                // What is empty is to be known in time.
                let left = empty.left(clock::now()).unwrap_or(pause);
                timer::sleep(pause.min(left).max(PAUSE_MIN)).await;
            }
        })
    }
}

/// Asks once, and gives the group its servers, on a thread of its own: the caller waits.
///
/// # Errors
/// There is no valid response, or it has no servers: the reason in words.
pub(super) fn first(follow: &Arc<Follow>) -> Result<(), String> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let follow = follow.clone();
    let asking = move |_| async move {
        let mut empty = EmptyRule::new(Duration::MAX);
        let (mut position, mut lines) = (Position::default(), Lines::default());
        let step = Box::pin(follow.step(&mut position, &mut empty, &mut lines));
        let step = timer::timeout(FIRST_TIME_MAX, step).await.unwrap_or_else(|_| {
            Err(Failure::NoResponse(format!("no response within {FIRST_TIME_MAX:?}")))
        });
        let result = step.map_err(|failure| failure.reason().to_owned()).and_then(|_| match empty
            .left(clock::now())
        {
            None => Ok(()),
            Some(_) => Err("the engine has none".to_owned()),
        });
        // The connection belongs to this thread.
        follow.client.forget();
        let _ = sender.send(result);
    };
    let worker = Worker::run("upsync", None, asking).map_err(|error| error.to_string())?;
    let result = receiver.recv().unwrap_or_else(|_| Err("its thread has ended".to_owned()));
    let _ = worker.join();
    result
}

impl Follow {
    /// Asks, and takes the response over; returns whether the next question may follow at once.
    async fn step(
        &self,
        position: &mut Position,
        empty: &mut EmptyRule,
        lines: &mut Lines,
    ) -> Result<bool, Failure> {
        let limit = empty.left(clock::now());
        let Pulled { members, at_once } = match self.question.source {
            Source::Consul(kind) => self.pull_consul(kind, position, limit).await?,
            Source::Etcd => self.pull_etcd_with_login(position, limit).await?,
        };
        let now = clock::now();
        match members {
            None => {}
            Some(members) if !empty.accepts(members.is_empty(), now) => self.kept.note_empty(),
            Some(members) => self.take_over(members, now, lines).await,
        }
        Ok(at_once)
    }

    /// Gives the group its servers.
    async fn take_over(&self, members: Vec<Member>, now: Instant, lines: &mut Lines) {
        let wanted = Arc::new(members);
        let before =
            self.current.lock().unwrap_or_else(PoisonError::into_inner).replace(wanted.clone());
        let is_changed = before.is_none_or(|before| *before != *wanted);
        self.kept.note(wanted.clone(), is_changed);
        if is_changed {
            members::replace(&self.group, &wanted, now);
            self.say(Level::Info, format_args!("takes over {} server(s)", wanted.len()));
            self.is_dumped.store(false, Ordering::Relaxed);
        }
        self.write_dump(lines).await;
    }

    /// Writes the file, unless it has these servers already. What could not be written is tried again with each response.
    async fn write_dump(&self, lines: &mut Lines) {
        let Some(dump) = self.dump.as_ref().filter(|_| !self.is_dumped.load(Ordering::Relaxed))
        else {
            return;
        };
        match dump.clone().write(self.group.clone()).await {
            Ok(()) => self.is_dumped.store(true, Ordering::Relaxed),
            Err(error) => {
                let reason: Arc<str> = tidegate_upstream::os_error(&error).into();
                if lines.allow(&reason, clock::exact_now()) {
                    self.say(Level::Error, format_args!("could not write its file ({reason})"));
                }
            }
        }
    }

    async fn pull_consul(
        &self,
        kind: consul::Kind,
        position: &mut Position,
        limit: Option<Duration>,
    ) -> Result<Pulled, Failure> {
        let Question { path, prefix, timeout, .. } = &self.question;
        let wait = consul::wait(*timeout).min(limit.unwrap_or(Duration::MAX));
        let target = position.consul.target(kind, path, wait);
        let most = match position.consul.index {
            None => FIRST_TIME_MAX.min(*timeout),
            Some(_) => *timeout,
        };
        let begun = clock::exact_now();
        let asked = self.ask(target, None, most, async |response: OriginResponse| {
            let index = response.head.headers.first_named(b"x-consul-index");
            let index = index.and_then(|text| str::from_utf8(text).ok()?.trim().parse().ok());
            match (response.head.status, kind) {
                (200, _) => Ok((index, Some(Client::body(response, BODY_BYTES_MAX).await?))),
                // No key with this prefix.
                (404, consul::Kind::Keys) => Ok((index, None)),
                (status, _) => Err(Failure::Refused(format!("HTTP status {status}"))),
            }
        });
        let (index, body) = asked.await?;
        let taken = clock::exact_now().saturating_duration_since(begun);
        let before = position.consul.index;
        let at_once = position.consul.advance(index, taken);
        if before.is_some() && before == index && limit.is_none() {
            return Ok(Pulled { members: None, at_once });
        }
        let members = match body {
            None => Vec::new(),
            Some(body) => {
                let (prefix, group) = (prefix.clone(), self.group.clone());
                let read = move |body: &[u8]| {
                    members::members(consul::endpoints(kind, &prefix, body)?, &group)
                };
                parsed(body, read).await?
            }
        };
        Ok(Pulled { members: Some(members), at_once })
    }

    /// As [`Follow::pull_etcd`], with a login where there is one. A token is replaced once, whatever is refused with it: etcd
    /// has several words for one that has ended.
    async fn pull_etcd_with_login(
        &self,
        position: &mut Position,
        limit: Option<Duration>,
    ) -> Result<Pulled, Failure> {
        self.log_in().await?;
        match self.pull_etcd(position, limit).await {
            Err(Failure::Unauthorized | Failure::Refused(_))
                if self.client.login().is_some_and(Login::refused) =>
            {
                self.log_in().await?;
                self.pull_etcd(position, limit).await
            }
            pulled => pulled,
        }
    }

    /// Gets a token, where one is needed.
    async fn log_in(&self) -> Result<(), Failure> {
        let Some(login) = self.client.login() else { return Ok(()) };
        let Some(body) = login.question() else { return Ok(()) };
        let most = FIRST_TIME_MAX.min(self.question.timeout);
        let asked = self.ask(AUTHENTICATE.to_owned(), Some(body), most, async |response| {
            let status = response.head.status;
            Ok((status, Client::body(response, TOKEN_BYTES_MAX).await?))
        });
        let (status, body) = asked.await?;
        login.take_over(status, &body).map_err(Failure::Refused)
    }

    /// Reads all keys, at first and whenever a watch tells of a change.
    async fn pull_etcd(
        &self,
        position: &mut Position,
        limit: Option<Duration>,
    ) -> Result<Pulled, Failure> {
        let Question { prefix, timeout, .. } = &self.question;
        if let Some(revision) = position.revision.take() {
            let time = limit.unwrap_or(*timeout).min(*timeout);
            let begun = clock::exact_now();
            let watched = timer::timeout(time, self.watch(revision)).await;
            let taken = clock::exact_now().saturating_duration_since(begun);
            match watched {
                // Nothing has changed in the longest time: the keys are read again all the same.
                Err(_) => {}
                Ok(is_changed) => {
                    if !is_changed? && taken < WATCH_TIME_MIN {
                        position.revision = Some(revision);
                        return Ok(Pulled { members: None, at_once: false });
                    }
                }
            }
        }
        let body = Some(etcd::range_request(prefix));
        let most = FIRST_TIME_MAX.min(*timeout);
        let asked = self.ask(etcd::RANGE.to_owned(), body, most, async |response| {
            expect_ok(&response)?;
            Client::body(response, BODY_BYTES_MAX).await
        });
        let body = asked.await?;
        let (prefix, group) = (prefix.clone(), self.group.clone());
        let read = move |body: &[u8]| {
            let (revision, endpoints) = etcd::range(&prefix, body)?;
            Ok((revision, members::members(endpoints, &group)?))
        };
        let (revision, members) = parsed(body, read).await?;
        position.revision = Some(revision.saturating_add(1));
        Ok(Pulled { members: Some(members), at_once: true })
    }

    /// Waits for a change; `false`: the watch has ended without one.
    async fn watch(&self, revision: u64) -> Result<bool, Failure> {
        let body = Some(etcd::watch_request(&self.question.prefix, revision));
        let response = self.client.ask(etcd::WATCH, body, &self.question.settings).await?;
        expect_ok(&response)?;
        let mut body = response.body.into_body();
        let mut line = Vec::new();
        while let Some(chunk) = next_bytes(&mut body).await? {
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LINE_BYTES_MAX {
                    return Ok(true);
                }
                if part.ends_with(b"\n") {
                    if !line.trim_ascii().is_empty()
                        && etcd::event(&line).map_err(Failure::Refused)?
                    {
                        return Ok(true);
                    }
                    line.clear();
                }
            }
        }
        Ok(false)
    }

    /// Sends a request and reads its response, within `most`.
    async fn ask<T>(
        &self,
        target: String,
        body: Option<String>,
        most: Duration,
        read: impl AsyncFnOnce(OriginResponse) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let asking = async {
            let response = self.client.ask(&target, body, &self.question.settings).await?;
            read(response).await
        };
        match timer::timeout(most, Box::pin(asking)).await {
            Ok(result) => result,
            Err(_) => {
                self.client.forget();
                Err(Failure::NoResponse(format!("no response within {most:?}")))
            }
        }
    }

    fn complain(&self, failure: &Failure, lines: &mut Lines) {
        self.kept.note_failure(failure);
        let reason: Arc<str> = failure.reason().into();
        if lines.allow(&reason, clock::exact_now()) {
            self.say(Level::Error, format_args!("keeps its servers: {reason}"));
        }
    }

    fn say(&self, level: Level, what: std::fmt::Arguments<'_>) {
        let name = &self.group.name;
        self.log.say(level, format_args!("upsync: upstream \"{name}\" {what}"));
    }
}

pub(super) fn expect_ok(response: &OriginResponse) -> Result<(), Failure> {
    match response.head.status {
        200 => Ok(()),
        401 => Err(Failure::Unauthorized),
        status => Err(Failure::Refused(format!("HTTP status {status}"))),
    }
}

/// Returns the next bytes of a body; `None` at its end.
pub(super) async fn next_bytes(body: &mut Body) -> Result<Option<bytes::Bytes>, Failure> {
    loop {
        match body.next().await {
            None => return Ok(None),
            Some(Ok(Chunk::Bytes(bytes))) => return Ok(Some(bytes)),
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(Failure::NoResponse("the watch breaks off".to_owned())),
        }
    }
}

/// Reads a response; a large one on a thread of a pool.
pub(super) async fn parsed<T: Send + 'static>(
    body: Vec<u8>,
    parse: impl FnOnce(&[u8]) -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    let result = match body.len() > BYTES_AT_ONCE {
        false => parse(&body),
        true => match blocking::run(move || Ok(parse(&body))).await {
            Ok(result) => result,
            Err(error) => return Err(Failure::NoResponse(error.to_string())),
        },
    };
    result.map_err(Failure::Refused)
}
