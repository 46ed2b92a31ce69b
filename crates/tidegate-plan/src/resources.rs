//! Outside information that a build of a plan needs. The meaning of a configuration depends on more than its text:
//! the privileges of the started process, the machine's name, the addresses of host names. The master looks these up
//! once per generation and passes them to the worker, which runs as another user and perhaps starts much later.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_conf::NameLookup;
use tidegate_core::log_file::LogFile;

pub use tidegate_core::machine::Machine;

/// Files, names and properties of the machine for a build. A worker gets the master's results, so that the meaning of
/// a configuration is decided once.
pub trait Resources {
    /// Reads a small file: certificates, keys, password files.
    ///
    /// # Errors
    /// Those of the file system, here and below.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Reads a file of certificates, keys or revoked certificates. Its content of the build before may be returned where
    /// the file is the same and has the same time of modification (`ssl_object_cache_inheritable`).
    ///
    /// # Errors
    /// Those of the file system.
    fn read_unless_unchanged(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path)
    }

    /// Returns an open log file, the same one for the same path.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>>;

    /// As [`Resources::log_file`], for a file with secrets: only its owner may read it.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn private_log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        self.log_file(path)
    }

    /// Opens a file for appending, for logs whose names are known per request.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open_append(&self, path: &Path) -> io::Result<File> {
        tidegate_core::log_file::open_append(path)
    }

    /// Resolves a host name in the configuration. May block.
    ///
    /// # Errors
    /// The name has no address.
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        SystemNames.addresses(host)
    }

    /// Returns the machine that the configuration is for.
    fn machine(&self) -> Machine {
        Machine::look()
    }

    /// Declares a directory that requests write to (caches, temporary files). A privileged master creates it if it is
    /// missing, owned by the worker's user; otherwise it is created when it is needed.
    fn directory(&self, _path: &Path) {}

    /// Declares a directory that one server alone may use (a cache's).
    fn claim(&self, _path: &Path) {}

    /// Declares that connections are made from addresses that are not the machine's own (`proxy_bind … transparent`). A
    /// privileged master leaves the worker the capability for it.
    fn send_from_anywhere(&self) {}
}

/// Host names as the system resolves them.
pub struct SystemNames;

impl NameLookup for SystemNames {
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

/// Host names as the build's [`Resources`] resolve them.
pub(crate) struct ResourceNames<'a>(pub &'a dyn Resources);

impl NameLookup for ResourceNames<'_> {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.addresses(host)
    }
}

/// Objects kept across reloads, by type and name: zones, caches, state of upstream groups.
#[derive(Default)]
pub struct ReloadState {
    objects: Mutex<Objects>,
}

type ObjectKey = (TypeId, String);

#[derive(Default)]
struct Objects {
    all: HashMap<ObjectKey, Arc<dyn Any + Send + Sync>>,
    /// Those that were made for a plan that is not in use yet.
    made: Vec<ObjectKey>,
}

impl ReloadState {
    /// Takes the objects of another one, except those that this one has. All of them are of the first plan that is in use.
    pub fn adopt(&self, other: &ReloadState) {
        let others = std::mem::take(&mut other.lock().all);
        let mut objects = self.lock();
        objects.made.clear();
        for (key, object) in others {
            objects.all.entry(key).or_insert(object);
        }
    }

    /// Keeps the objects that were made since the last call, as their plan comes into use.
    pub fn keep_made(&self) {
        self.lock().made.clear();
    }

    /// Forgets the objects that were made since the last call of [`ReloadState::keep_made`], as their plan has failed: the
    /// next plan begins with what the one in use has.
    pub fn forget_made(&self) {
        let forgotten: Vec<_> = {
            let mut objects = self.lock();
            let made = std::mem::take(&mut objects.made);
            made.iter().filter_map(|key| objects.all.remove(key)).collect()
        };
        // Their own ends may take time.
        drop(forgotten);
    }

    /// Returns the object of this type and name; `make` makes it at the first call.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_make<T: Send + Sync + 'static, E>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut objects = self.lock();
        let key = (TypeId::of::<T>(), name.to_owned());
        if let Some(object) = objects.all.get(&key)
            && let Ok(object) = object.clone().downcast()
        {
            return Ok(object);
        }
        let object = Arc::new(make()?);
        objects.made.push(key.clone());
        objects.all.insert(key, object.clone());
        Ok(object)
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
