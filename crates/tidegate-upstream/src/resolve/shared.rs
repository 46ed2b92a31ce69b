//! One query in progress for each name and kind, in the whole process: later callers wait for its answer.
//!
//! The query belongs to a task of its own, so that no caller ends it by leaving. It ends by `resolver_timeout`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_rt::sync::watch;

use super::error::ResolveError;

/// The records found (addresses, or places of a service), and their lifetime in seconds.
pub(super) type Answer<T> = Result<(Vec<T>, u32), ResolveError>;

/// Name servers, families, timeout, and the name.
pub(super) type Key = (Vec<SocketAddr>, bool, bool, Duration, String);

/// The thread of the query has ended.
const ENDED: ResolveError = ResolveError::FAILED;

/// The receiver of an answer.
type Told<T> = watch::Receiver<Option<Answer<T>>>;

/// At most as many as requests and tasks in progress: each waits for one name.
type UnderWay<T> = BTreeMap<Key, Told<T>>;

/// The queries of one kind.
pub(super) struct Questions<T>(Mutex<UnderWay<T>>);

impl<T: Clone + 'static> Questions<T> {
    pub(super) const fn new() -> Questions<T> {
        Questions(Mutex::new(BTreeMap::new()))
    }

    /// Returns the answer to the query in progress, or else to the one that `ask` starts.
    ///
    /// Dropped while it waits, it leaves the query to its task: others may wait for it. The entry under `key` is
    /// removed with the query, answered or not, so that a later caller queries anew.
    pub(super) async fn answer<F>(&'static self, key: Key, ask: impl FnOnce() -> F) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + 'static,
    {
        let (mut told, question) = self.join(key);
        if let Some(question) = question {
            let asked = ask();
            tidegate_rt::spawn_local(async move { question.end(asked.await) });
        }
        match told.wait_for(Option::is_some).await {
            Ok(answer) => (*answer).clone().unwrap_or(Err(ENDED)),
            Err(_) => Err(ENDED),
        }
    }

    /// Returns the receiver of the answer, and the query if there is none yet.
    fn join(&'static self, key: Key) -> (Told<T>, Option<Question<T>>) {
        let mut under_way = self.under_way();
        if let Some(told) = under_way.get(&key) {
            return (told.clone(), None);
        }
        let (tell, told) = watch::channel(None);
        under_way.insert(key.clone(), told.clone());
        (told, Some(Question { questions: self, key, tell }))
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A query in progress; dropped unanswered it fails for all waiters.
struct Question<T: Clone + 'static> {
    questions: &'static Questions<T>,
    key: Key,
    tell: watch::Sender<Option<Answer<T>>>,
}

impl<T: Clone + 'static> Question<T> {
    fn end(self, answer: Answer<T>) {
        self.tell.send_replace(Some(answer));
    }
}

impl<T: Clone + 'static> Drop for Question<T> {
    fn drop(&mut self) {
        self.questions.under_way().remove(&self.key);
    }
}
