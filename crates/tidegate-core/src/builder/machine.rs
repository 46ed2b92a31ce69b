//! What a configuration's meaning depends on besides its text: who the process is that was started, the
//! machine's name, the addresses of host names. The master asks once for each generation; a worker, which is
//! another user and perhaps started much later, is given what the master has found.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use tidegate_conf::HostNames;

use super::Resources;

/// The machine and the process that reads the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The process was started by the superuser: a server without `listen` has port 80, else 8000.
    pub privileged: bool,
    /// The machine's name, `$hostname`.
    pub host_name: String,
}

impl Machine {
    /// Asks the system.
    pub fn look() -> Machine {
        Machine {
            privileged: tidegate_os::identity::is_root(),
            host_name: tidegate_os::identity::host_name(),
        }
    }
}

/// The names that the system knows.
pub struct SystemNames;

impl HostNames for SystemNames {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        for address in (host, 0).to_socket_addrs()? {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip());
            }
        }
        Ok(addresses)
    }
}

/// The names that who builds the plan knows.
pub(super) struct NamesOf<'a>(pub &'a dyn Resources);

impl HostNames for NamesOf<'_> {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.addresses(host)
    }
}
