//! Names of servers that could not be resolved while the configuration was read (`unresolved_names retry`): they are
//! retried until they can.
//!
//! ```nginx
//! unresolved_names retry;
//! upstream u { server not-there-yet.example; }
//! ```

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_conf::NameLookup;
use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_core::plan::Service;
use tidegate_plan::SystemNames;
use tidegate_rt::clock;
use tidegate_upstream::Group;
use tidegate_upstream::peers::MemberAddress;
use tidegate_upstream::resolve::{self, HostPort};

/// The unresolved names of one configuration.
#[derive(Clone, Default)]
pub struct Pending(Arc<Mutex<Vec<UnresolvedServer>>>);

/// A server without addresses.
#[derive(Clone)]
struct UnresolvedServer {
    group: Arc<Group>,
    /// Id of the server in its group.
    number: u32,
    host: HostPort,
    port: u16,
    /// The failure has been logged.
    is_logged: bool,
}

/// The service that asks the operating system, which may take its time, on the housekeeping thread.
pub(super) struct ResolveService {
    pub pending: Pending,
    pub log: ErrorLog,
}

/// Pause between two attempts.
const RETRY: Duration = Duration::from_secs(2);
/// Pause when no name is left.
const PAUSE: Duration = Duration::from_secs(3600);

impl Pending {
    /// Adds the servers of a group that have a name and no addresses.
    pub fn add(&self, group: &Arc<Group>, port: u16) {
        for member in group.members() {
            let host = resolve::parse(&member.server, port);
            let is_wanted = member.name.is_some_and(|name| name.service.is_none());
            if let (true, true, Some(number), Ok(host)) =
                (is_wanted, member.places.is_empty(), member.number, host)
            {
                self.lock().push(UnresolvedServer {
                    group: group.clone(),
                    number,
                    host,
                    port,
                    is_logged: false,
                });
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<UnresolvedServer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for ResolveService {
    fn name(&self) -> String {
        "unresolved names".to_owned()
    }

    fn step(&self) -> Duration {
        let mut wanted = std::mem::take(&mut *self.pending.lock());
        wanted.retain_mut(|wanted| {
            let name = &wanted.group.name;
            match resolve::addresses(&wanted.host, wanted.port, |host| SystemNames.addresses(host))
            {
                Ok(addresses) => {
                    let places = addresses.into_iter().map(MemberAddress::of).collect();
                    wanted.group.set_places(wanted.number, places, clock::now());
                    self.log.say(Level::Notice, format_args!("host found in upstream \"{name}\""));
                    false
                }
                Err(what) => {
                    if !std::mem::replace(&mut wanted.is_logged, true) {
                        self.log.say(Level::Warn, format_args!("{what} in upstream \"{name}\""));
                    }
                    true
                }
            }
        });
        let mut pending = self.pending.lock();
        pending.extend(wanted);
        if pending.is_empty() { PAUSE } else { RETRY }
    }
}
