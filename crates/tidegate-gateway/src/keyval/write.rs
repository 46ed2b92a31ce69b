//! Changes of shared pairs: they go to the engine first, and are carried out where their condition holds there.

use std::time::Duration;

use tidegate_rt::{clock, timer};
use tidegate_store::Command;

use super::scripts::WRITE;
use super::shared::{EMPTY_PAUSE, SharedPairs};

/// A change.
pub(crate) enum Write {
    /// Adds a pair.
    Add(Pair),
    /// Adds pairs where there are none.
    Fill(Vec<Pair>),
    /// Changes a pair: its time, and its value where there is one.
    Change(String, Option<String>, Option<Duration>),
    Remove(String),
    Clear,
    /// Sets a pair, whether it is there or not.
    Put(Pair),
}

/// Key, value, and time; `None`: for ever.
pub(crate) type Pair = (String, String, Option<Duration>);

/// The same, borrowed.
type Words<'a> = (&'a str, &'a str, Option<Duration>);

/// The reason why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    Exists(String),
    Missing(String),
    /// There are pairs, so that several cannot be added.
    Filled,
    /// The engine is not available, or did not say what it has done.
    Unavailable(String),
}

/// Intervals in which the engine gets its first pairs, beside the time that a server without pairs waits.
const GIVING_INTERVALS: u32 = 10;
/// Intervals in which a change arrives here as well: one that runs, and one that brings it.
const INTERVALS_MAX: u32 = 4;

impl SharedPairs {
    /// Carries out a change, and waits until this server has it as well, for a few intervals.
    ///
    /// Cancelling: dropped while it waits, the change may be carried out all the same.
    ///
    /// # Errors
    /// Nothing was changed; or, with [`WriteError::Unavailable`], it is not known.
    pub(crate) async fn write(&self, write: &Write) -> Result<(), WriteError> {
        let key = || match write {
            Write::Add((key, ..)) | Write::Put((key, ..)) => key.clone(),
            Write::Change(key, ..) | Write::Remove(key) => key.clone(),
            Write::Fill(_) | Write::Clear => String::new(),
        };
        let unavailable = |reason: &dyn std::fmt::Display| {
            Err(WriteError::Unavailable(format!("the store is not available: {reason}")))
        };
        let giving = EMPTY_PAUSE + self.store.interval() * GIVING_INTERVALS;
        let until = clock::exact_now() + giving;
        while clock::exact_now() < until {
            let reply = match self.store.engine().begin(self.command(write)).wait().await {
                Ok(reply) => reply,
                Err(error) => return unavailable(&error),
            };
            let Some([done, number]) = reply.as_list() else { return unavailable(&"a reply") };
            match done.as_text().unwrap_or_default() {
                b"OK" => {
                    let number = number.as_integer().unwrap_or(0).max(0) as u64;
                    let time =
                        self.store.interval() * INTERVALS_MAX + self.store.engine().timeout();
                    // Where it takes longer the change is made all the same.
                    let _ = timer::timeout(time, self.applied(number)).await;
                    return Ok(());
                }
                b"EXISTS" => return Err(WriteError::Exists(key())),
                b"MISSING" => return Err(WriteError::Missing(key())),
                b"FILLED" => return Err(WriteError::Filled),
                _ => timer::sleep(self.store.interval()).await,
            }
        }
        unavailable(&"it has no pairs yet")
    }

    /// Sends a change without waiting for its result; `false`: it was not sent.
    pub(super) fn send(&self, write: &Write) -> bool {
        if !self.store.is_available() {
            return false;
        }
        // Dropped, the change is carried out all the same.
        drop(self.store.engine().begin(self.command(write)));
        true
    }

    fn command(&self, write: &Write) -> Command {
        let names = self.names();
        let mut command = Command::script(&WRITE, 4).arg(&names.meta).arg(&names.changes);
        command = command.arg(&names.pairs).arg(&names.expiries);
        let (op, pairs): (&str, Vec<Words<'_>>) = match write {
            Write::Add((key, value, time)) => ("add", vec![(key, value, *time)]),
            Write::Put((key, value, time)) => ("put", vec![(key, value, *time)]),
            Write::Change(key, Some(value), time) => ("change", vec![(key, value, *time)]),
            Write::Change(key, None, time) => ("change-time", vec![(key, "", *time)]),
            Write::Remove(key) => ("remove", vec![(key, "", None)]),
            Write::Clear => ("clear", Vec::new()),
            Write::Fill(pairs) => {
                let pairs = pairs.iter().map(|(key, value, time)| (&**key, &**value, *time));
                ("fill", pairs.collect())
            }
        };
        command.push(op.as_bytes());
        for (key, value, time) in pairs {
            command.push(key.as_bytes());
            command.push(value.as_bytes());
            command.push_number(time.map_or(0, |time| (time.as_millis() as u64).max(1)));
        }
        command
    }
}
