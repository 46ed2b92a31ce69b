//! One question under way for each name, in the whole process: whoever asks meanwhile waits for its answer.
//!
//! The question belongs to a task of its own, so that none of those who wait takes it along when it leaves. It ends
//! by `resolver_timeout`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_rt::sync::watch;

use super::stub::ResolveError;

/// Addresses and for how many seconds they hold.
pub(super) type Answer = Result<(Vec<IpAddr>, u32), ResolveError>;

/// Who is asked, for what families, for how long, and the name.
pub(super) type Key = (Vec<SocketAddr>, bool, bool, Duration, String);

/// The loop that asked has ended.
const ENDED: ResolveError = ResolveError(2, "Server failure");

/// No more than requests and duties under way: each waits for one name.
type UnderWay = BTreeMap<Key, watch::Receiver<Option<Answer>>>;

static UNDER_WAY: Mutex<UnderWay> = Mutex::new(BTreeMap::new());

fn under_way() -> MutexGuard<'static, UnderWay> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to the question that is under way, or else to the one that `ask` makes.
pub(super) async fn answer<F>(key: Key, ask: impl FnOnce() -> F) -> Answer
where
    F: Future<Output = Answer> + 'static,
{
    let (mut told, question) = join(key);
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
fn join(key: Key) -> (watch::Receiver<Option<Answer>>, Option<Question>) {
    let mut under_way = under_way();
    if let Some(told) = under_way.get(&key) {
        return (told.clone(), None);
    }
    let (tell, told) = watch::channel(None);
    under_way.insert(key.clone(), told.clone());
    (told, Some(Question { key, tell }))
}

/// A question under way; dropped unanswered it fails for all who wait.
struct Question {
    key: Key,
    tell: watch::Sender<Option<Answer>>,
}

impl Question {
    fn end(self, answer: Answer) {
        self.tell.send_replace(Some(answer));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        under_way().remove(&self.key);
    }
}
