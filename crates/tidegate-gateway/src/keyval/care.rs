//! The service of the zones: it removes pairs that have expired, and writes the files of zones that `set` has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_core::plan::Service;
use tidegate_rt::clock;

use super::Zone;
use super::store::Unwritten;

/// Pause between two looks at the zones: a change by `set` is in its file after this time.
const PAUSE: Duration = Duration::from_secs(1);
/// Looks between two attempts to write a file that could not be written.
const LOOKS_AFTER_FAILURE: u32 = 30;
/// Expired pairs that are removed under one hold of the lock.
const SWEPT_AT_ONCE: usize = 256;

/// The service of the zones of a block.
pub(super) struct ZoneCare {
    zones: Vec<(Arc<Zone>, AtomicU32)>,
    log: ErrorLog,
}

impl ZoneCare {
    pub(super) fn new(zones: Vec<Arc<Zone>>, log: ErrorLog) -> ZoneCare {
        ZoneCare { zones: zones.into_iter().map(|zone| (zone, AtomicU32::new(0))).collect(), log }
    }

    fn write(&self, zone: &Zone) {
        let Some(path) = &zone.state else { return };
        if let Err(error) = zone.store.write_now(path) {
            let name = &zone.name;
            let message = format!("the state of keyval zone \"{name}\" was not written: {error}");
            self.log.say(Level::Error, format_args!("{message}"));
        }
    }
}

impl Service for ZoneCare {
    fn name(&self) -> String {
        "keyval zones".to_owned()
    }

    fn step(&self) -> Duration {
        for (zone, looks) in &self.zones {
            let now = clock::now();
            while zone.store.change().sweep(now, SWEPT_AT_ONCE) == SWEPT_AT_ONCE {}
            let Some(path) = &zone.state else { continue };
            let attempt = match zone.store.unwritten(path) {
                Unwritten::Nothing => false,
                Unwritten::Changes => true,
                Unwritten::Failed => {
                    looks.fetch_add(1, Ordering::Relaxed) % LOOKS_AFTER_FAILURE == 0
                }
            };
            if attempt {
                self.write(zone);
            }
        }
        PAUSE
    }

    fn drain(&self) {
        self.zones.iter().for_each(|(zone, _)| zone.store.end());
    }

    fn finish(&self) {
        for (zone, _) in &self.zones {
            if zone
                .state
                .as_ref()
                .is_some_and(|path| zone.store.unwritten(path) != Unwritten::Nothing)
            {
                self.write(zone);
            }
        }
    }
}
