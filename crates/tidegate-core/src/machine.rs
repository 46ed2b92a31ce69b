//! The machine that a configuration is for.

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
