//! Whether lines at the level `debug` are written, and the clients of `debug_connection`.
//!
//! As long as nothing is debugged a line costs one load and one branch. Its text is made only when it is written.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_conf::network::Network;
use tidegate_conf::{Args, Diagnostic};

use crate::client::Address;

/// Whether some log is at the level `debug`, or `debug_connection` names clients. Never taken back: after a reload
/// without them each line looks at its own log.
static DEBUGGING: AtomicBool = AtomicBool::new(false);

/// Announces that there is a log at the level `debug`, or clients to debug.
pub(crate) fn begin() {
    DEBUGGING.store(true, Ordering::Relaxed);
}

/// Returns whether a line at the level `debug` may have to be written.
#[inline]
pub fn is_on() -> bool {
    DEBUGGING.load(Ordering::Relaxed)
}

/// The clients of `debug_connection`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugClients {
    networks: Vec<Network>,
    /// Those of Unix sockets.
    unix: bool,
}

impl DebugClients {
    /// Parses an address, a network, a name or `unix:`.
    ///
    /// # Errors
    /// The name has no address.
    pub(crate) fn parse(args: &Args<'_>) -> Result<DebugClients, Diagnostic> {
        begin();
        let text = args.text(0)?;
        if text == "unix:" {
            return Ok(DebugClients { networks: Vec::new(), unix: true });
        }
        if let Some((network, _)) = Network::parse(text) {
            return Ok(DebugClients { networks: vec![network], unix: false });
        }
        let not_found = || args.error(0, format!("host not found in debug_connection \"{text}\""));
        let found = args.names.addresses(text).map_err(|_| not_found())?;
        match found.is_empty() {
            true => Err(not_found()),
            false => {
                let networks = found.into_iter().map(Network::single).collect();
                Ok(DebugClients { networks, unix: false })
            }
        }
    }

    /// Joins the clients of two directives.
    pub(crate) fn joined(
        first: Option<DebugClients>,
        second: Option<DebugClients>,
    ) -> Option<DebugClients> {
        let both = first.into_iter().chain(second);
        both.reduce(|mut all, more| {
            all.networks.extend(more.networks);
            all.unix |= more.unix;
            all
        })
    }

    /// Returns whether a client's lines are written at all levels.
    pub fn contains(&self, peer: &Address) -> bool {
        match peer {
            Address::Inet(address) => {
                self.networks.iter().any(|network| network.contains(address.ip()))
            }
            Address::Unix(_) => self.unix,
        }
    }
}
