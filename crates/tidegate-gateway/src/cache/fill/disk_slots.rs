//! The limit of concurrent work on a cache's files.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tidegate_cache::{Store, Sync};
use tidegate_core::blocking;
use tidegate_rt::sync::Semaphore;

/// Fills of one cache that sync at a time (`fsync`): a disk handles many of these at once.
const SYNCING_MAX: usize = 16;

static CACHES: OnceLock<Mutex<HashMap<PathBuf, Arc<Semaphore>>>> = OnceLock::new();

/// The slots of one cache at its disk: as many as processors (at least two), since the work is mostly copying beside
/// the event loops. Many fills that end together must not delay the clients that are being served. Each cache has its
/// own, so that one slow disk does not slow down the rest.
#[derive(Clone)]
pub(crate) struct DiskSlots(Arc<Semaphore>);

impl DiskSlots {
    pub(crate) fn of(store: &Store) -> DiskSlots {
        let options = store.options();
        let caches = CACHES.get_or_init(Mutex::default);
        let mut caches = caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = caches.get(&options.path) {
            return DiskSlots(slots.clone());
        }
        let processors = thread::available_parallelism().map_or(2, |number| number.get().max(2));
        let slots = if options.sync == Sync::Off { processors } else { SYNCING_MAX };
        let slots = Arc::new(Semaphore::new(slots));
        caches.insert(options.path.clone(), slots.clone());
        DiskSlots(slots)
    }

    /// Runs a fill's work on its file on a pool thread. A full queue is an error at once.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let slot = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let work = move || {
            let done = work();
            drop(slot);
            done
        };
        blocking::run(work).await
    }
}
