//! Assignment of processors, and the limit of open descriptors.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of the two halves of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processors {
    /// Where the measured server runs.
    pub server: usize,
    /// Where load generator and origin run.
    pub client: usize,
    /// All that this process may use.
    pub allowed: Place,
}

/// A set of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(CpuSet);

impl Place {
    pub(crate) fn one(cpu: usize) -> Place {
        let mut set = CpuSet::new();
        set.set(cpu);
        Place(set)
    }

    /// The processors' numbers, in their order.
    pub(crate) fn list(self) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|cpu| self.0.is_set(*cpu)).collect()
    }
}

impl Processors {
    /// The first and the last processor that this process may use, unless the user named others.
    pub(crate) fn choose(server: Option<usize>, client: Option<usize>) -> io::Result<Processors> {
        let allowed = Place(sched_getaffinity(None)?);
        let list = allowed.list();
        let server = server.or(list.first().copied()).unwrap_or(0);
        let client = client.or(list.last().copied()).unwrap_or(0);
        let chosen = Processors { server, client, allowed };
        for cpu in [chosen.server, chosen.client] {
            if !list.contains(&cpu) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("processor {cpu} may not be used here (allowed: {list:?})"),
                ));
            }
        }
        Ok(chosen)
    }
}

/// Binds the calling thread to a place; threads and processes it starts inherit that.
pub(crate) fn pin_current_thread(place: Place) -> io::Result<()> {
    Ok(sched_setaffinity(None, &place.0)?)
}

/// Raises the limit of open descriptors to `wanted` as far as allowed (past the hard limit only
/// with privilege) and returns the new limit. Children inherit it.
pub(crate) fn raise_descriptor_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    let attempts = [(wanted, wanted.max(maximum)), (wanted.min(maximum), maximum)];
    for (current, maximum) in attempts {
        let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return current;
        }
    }
    current
}
