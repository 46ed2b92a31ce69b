//! What a plan needs from the outside while it is built. What a configuration's meaning depends on besides its text
//! (who the process is that was started, the machine's name, the addresses of host names) the master asks once for each
//! generation; a worker, which is another user and perhaps started much later, is given what the master has found.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_conf::HostNames;
use tidegate_core::log_file::LogFile;

pub use tidegate_core::machine::Machine;

/// What a plan needs from the outside while it is built: files that the master may have opened, and what the
/// machine says of itself. A worker is given the master's: whatever a configuration means is decided once.
pub trait Resources {
    /// The content of a small file: certificates, keys, password files.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// An open log file, the same one for the same path.
    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>>;

    /// A file opened for appending, for logs whose names are known per request.
    fn open_append(&self, path: &Path) -> io::Result<File> {
        tidegate_core::log_file::open_append(path)
    }

    /// The addresses of a host name that the configuration writes. May block.
    ///
    /// # Errors
    /// The name is not known.
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        SystemNames.addresses(host)
    }

    /// The machine that the configuration is for.
    fn machine(&self) -> Machine {
        Machine::look()
    }

    /// Tells of a directory that requests write into (caches, temporary files). A privileged master
    /// makes it if it is missing, as the worker's own; otherwise it is made when it is needed.
    fn directory(&self, _path: &Path) {}

    /// Tells of a directory that one server alone may use (that of a cache).
    fn claim(&self, _path: &Path) {}

    /// Tells that connections are made from addresses that are not the machine's own (`proxy_bind …
    /// transparent`). A privileged master leaves the worker the right to.
    fn send_from_anywhere(&self) {}
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
pub(crate) struct NamesOf<'a>(pub &'a dyn Resources);

impl HostNames for NamesOf<'_> {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.addresses(host)
    }
}

/// Objects that live on over reloads, by type and name: zones, caches, upstream state.
#[derive(Default)]
pub struct Survivors {
    objects: Mutex<HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>>,
}

impl Survivors {
    /// The object of this name, made by `make` the first time.
    pub fn get_or_make<T: Send + Sync + 'static, E>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<T>(), name.to_owned());
        if let Some(object) = objects.get(&key)
            && let Ok(object) = object.clone().downcast()
        {
            return Ok(object);
        }
        let object = Arc::new(make()?);
        objects.insert(key, object.clone());
        Ok(object)
    }
}
