//! What outlives reloads of an issuer, by its name: the certificates in use, the files of an issuer without a
//! directory, and the wish of the current configuration.
//!
//! ```text
//! a plan comes into use ─→ Wish (guard) ─→ `wished` ─→ the run ends its step, and goes on with the new settings
//! a plan goes out of use ─→ its guard is dropped; if no other wish has replaced it, the run ends
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_rt::spawn_local;
use tidegate_rt::sync::{Notify, select};
use tidegate_rt::timer;

use super::certificates::Certificates;
use super::issuer::IssuerPlan;
use super::run;
use super::store::Store;

/// The state of an issuer over reloads.
#[derive(Default)]
pub(super) struct Issuance {
    certificates: Arc<Certificates>,
    memory: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    wishes: Mutex<Wishes>,
    /// A wish was made or withdrawn.
    changed: Notify,
}

#[derive(Default)]
struct Wishes {
    /// The number of the last wish.
    number: u64,
    wished: Option<Arc<IssuerPlan>>,
    is_running: bool,
}

/// The wish of a plan in use; dropped with it.
pub(super) struct Wish {
    issuance: Arc<Issuance>,
    number: u64,
}

/// Ends the run's entry when the run ends, by a panic too.
struct Running(Arc<Issuance>);

impl Issuance {
    pub(super) fn certificates(&self) -> Arc<Certificates> {
        self.certificates.clone()
    }

    pub(super) fn store(&self, plan: &IssuerPlan) -> Store {
        match &plan.directory {
            Some(directory) => Store::Directory(directory.clone()),
            None => Store::Memory(self.memory.clone()),
        }
    }

    /// Takes the certificates of the files into use, except for known ones: the server has them from its first
    /// handshake on. It reads files.
    pub(super) fn load(&self, plan: &IssuerPlan) {
        let store = self.store(plan);
        for stem in plan.wanted.iter().map(|wanted| wanted.stem()) {
            if !self.certificates.has(stem)
                && let Some(contents) = store.read_pair(stem)
            {
                self.certificates.install_file(stem, &contents);
            }
        }
    }

    /// Makes the wish of a plan, and starts the run on this thread's event loop if there is none.
    pub(super) fn wish(self: &Arc<Self>, plan: Arc<IssuerPlan>) -> Wish {
        let mut wishes = self.wishes();
        wishes.number += 1;
        wishes.wished = Some(plan);
        let number = wishes.number;
        if !std::mem::replace(&mut wishes.is_running, true) {
            let running = Running(self.clone());
            spawn_local(async move {
                let Running(issuance) = &running;
                run::run(issuance).await;
            });
        }
        drop(wishes);
        self.changed.notify_one();
        Wish { issuance: self.clone(), number }
    }

    /// Returns the current wish and its number.
    pub(super) fn wished(&self) -> Option<(u64, Arc<IssuerPlan>)> {
        let wishes = self.wishes();
        Some((wishes.number, wishes.wished.clone()?))
    }

    /// Returns whether this is still the current wish.
    pub(super) fn is_current(&self, number: u64) -> bool {
        let wishes = self.wishes();
        wishes.number == number && wishes.wished.is_some()
    }

    /// Waits for this time, or for another wish.
    pub(super) async fn pause(&self, time: Duration) {
        select! {
            () = self.changed.notified() => {}
            () = timer::sleep(time) => {}
        }
    }

    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        let mut wishes = self.issuance.wishes();
        if wishes.number == self.number {
            wishes.wished = None;
            drop(wishes);
            self.issuance.changed.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.wishes().is_running = false;
    }
}
