//! One question under way for each name and kind, in the whole process: whoever asks meanwhile waits for its answer.
//!
//! The question belongs to a task of its own, so that none of those who wait takes it along when it leaves. It ends
//! by `resolver_timeout`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_rt::sync::watch;

use super::error::ResolveError;

/// What was found (addresses, or places of a service), and for how many seconds it holds.
pub(super) type Answer<T> = Result<(Vec<T>, u32), ResolveError>;

/// Who is asked, for what families, for how long, and the name.
pub(super) type Key = (Vec<SocketAddr>, bool, bool, Duration, String);

/// The loop that asked has ended.
const ENDED: ResolveError = ResolveError::FAILED;

/// Where the answer will be.
type Told<T> = watch::Receiver<Option<Answer<T>>>;

/// No more than requests and tasks under way: each waits for one name.
type UnderWay<T> = BTreeMap<Key, Told<T>>;

/// The questions of one kind.
pub(super) struct Questions<T>(Mutex<UnderWay<T>>);

impl<T: Clone + 'static> Questions<T> {
    pub(super) const fn new() -> Questions<T> {
        Questions(Mutex::new(BTreeMap::new()))
    }

    /// The answer to the question that is under way, or else to the one that `ask` makes.
    ///
    /// Dropped while it waits, it leaves the question to its task: others may wait for it. The entry under `key` goes
    /// with the question, answered or not, so that one who comes later asks anew.
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

    /// Where the answer will be, and the question if there is none yet.
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

/// A question under way; dropped unanswered it fails for all who wait.
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
