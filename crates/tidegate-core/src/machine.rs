//! The machine and process that a configuration is read for.

/// Properties of the machine and of the process that reads the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Whether the process was started by the superuser: then a server without `listen` has port 80, else 8000.
    pub privileged: bool,
    /// The machine's name, `$hostname`.
    pub host_name: String,
    /// Whether it has IPv6.
    pub ipv6: bool,
}

impl Machine {
    /// Reads the properties from the system.
    pub fn look() -> Machine {
        Machine {
            privileged: tidegate_os::identity::is_root(),
            // As nginx has it, everywhere.
            host_name: tidegate_os::identity::host_name().to_ascii_lowercase(),
            ipv6: tidegate_os::socket::has_ipv6(),
        }
    }
}
