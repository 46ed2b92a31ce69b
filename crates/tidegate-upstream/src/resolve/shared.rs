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
pub(super) type QueryResult<T> = Result<(Vec<T>, u32), ResolveError>;

/// Name servers, families, timeout, and the name.
pub(super) type QueryKey = (Vec<SocketAddr>, bool, bool, Duration, String);

/// The thread of the query has ended.
const ENDED: ResolveError = ResolveError::FAILED;

/// The receiver of an answer.
type QueryReceiver<T> = watch::Receiver<Option<QueryResult<T>>>;

/// At most as many as requests and tasks in progress: each waits for one name.
type RunningQueries<T> = BTreeMap<QueryKey, QueryReceiver<T>>;

/// The queries of one kind.
pub(super) struct Queries<T>(Mutex<RunningQueries<T>>);

impl<T: Clone + 'static> Queries<T> {
    pub(super) const fn new() -> Queries<T> {
        Queries(Mutex::new(BTreeMap::new()))
    }

    /// Returns the answer to the query in progress, or else to the one that `ask` starts.
    ///
    /// Dropped while it waits, it leaves the query to its task: others may wait for it. The entry under `key` is
    /// removed with the query, answered or not, so that a later caller queries anew.
    pub(super) async fn answer<F>(
        &'static self,
        key: QueryKey,
        ask: impl FnOnce() -> F,
    ) -> QueryResult<T>
    where
        F: Future<Output = QueryResult<T>> + 'static,
    {
        let (mut receiver, query) = self.join(key);
        if let Some(query) = query {
            let asked = ask();
            tidegate_rt::spawn_local(async move { query.end(asked.await) });
        }
        match receiver.wait_for(Option::is_some).await {
            Ok(answer) => (*answer).clone().unwrap_or(Err(ENDED)),
            Err(_) => Err(ENDED),
        }
    }

    /// Returns the receiver of the answer, and the query if there is none yet.
    fn join(&'static self, key: QueryKey) -> (QueryReceiver<T>, Option<RunningQuery<T>>) {
        let mut running = self.running();
        if let Some(receiver) = running.get(&key) {
            return (receiver.clone(), None);
        }
        let (sender, receiver) = watch::channel(None);
        running.insert(key.clone(), receiver.clone());
        (receiver, Some(RunningQuery { queries: self, key, sender }))
    }

    fn running(&self) -> MutexGuard<'_, RunningQueries<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A query in progress; dropped without a response it fails for all waiters.
struct RunningQuery<T: Clone + 'static> {
    queries: &'static Queries<T>,
    key: QueryKey,
    sender: watch::Sender<Option<QueryResult<T>>>,
}

impl<T: Clone + 'static> RunningQuery<T> {
    fn end(self, answer: QueryResult<T>) {
        self.sender.send_replace(Some(answer));
    }
}

impl<T: Clone + 'static> Drop for RunningQuery<T> {
    fn drop(&mut self) {
        self.queries.running().remove(&self.key);
    }
}
