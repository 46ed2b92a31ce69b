//! A key that is expanded while its connection is busy. The cipher's context of a key is 600 bytes, the key itself 32;
//! to expand it again takes less time than to encrypt a small record.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::aead::{Algorithm, LessSafeKey, UnboundKey};
use aws_lc_rs::error::Unspecified;
use rustls::crypto::cipher::AeadKey;

/// The key of one direction.
pub(crate) struct Key {
    algorithm: &'static Algorithm,
    bytes: AeadKey,
    /// `None` since its connection became idle.
    expanded: Mutex<Option<LessSafeKey>>,
}

impl Key {
    /// Makes a key, which the session that is being advanced on this thread gets too ([`Keys::collect`]). Gives the
    /// bytes back if they are no key of the algorithm.
    pub(super) fn new(algorithm: &'static Algorithm, bytes: AeadKey) -> Result<Arc<Key>, AeadKey> {
        let Ok(expanded) = expand(algorithm, &bytes) else { return Err(bytes) };
        let key = Arc::new(Key { algorithm, bytes, expanded: Mutex::new(Some(expanded)) });
        // A thread that ends drops connections, which may write a last record.
        let _ = MADE.try_with(|made| made.borrow_mut().add(&key));
        Ok(key)
    }

    /// Calls the cipher.
    ///
    /// # Errors
    /// Those of the cipher.
    #[inline]
    pub(super) fn with<R>(
        &self,
        cipher: impl FnOnce(&LessSafeKey) -> Result<R, Unspecified>,
    ) -> Result<R, Unspecified> {
        let mut expanded = self.expanded.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match &mut *expanded {
            Some(key) => key,
            none => none.insert(expand(self.algorithm, &self.bytes)?),
        };
        cipher(key)
    }

    fn rest(&self) {
        *self.expanded.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn expand(algorithm: &'static Algorithm, bytes: &AeadKey) -> Result<LessSafeKey, Unspecified> {
    UnboundKey::new(algorithm, bytes.as_ref()).map(LessSafeKey::new)
}

/// The newest keys of a connection, which the library has as well.
#[derive(Default)]
pub(crate) struct Keys {
    keys: [Option<Arc<Key>>; 2],
}

thread_local! {
    /// The keys that were made since a session last looked.
    static MADE: RefCell<Keys> = RefCell::default();
}

impl Keys {
    /// Takes the keys that the library has made on this thread for the connection that was just advanced. Where one
    /// is another connection's, it merely has to be expanded again there.
    #[inline]
    pub(crate) fn collect(&mut self) {
        // Not there any more while the thread ends.
        let _ = MADE.try_with(|made| {
            // The older one first.
            for key in made.borrow_mut().keys.iter_mut().rev().filter_map(Option::take) {
                self.add(&key);
            }
        });
    }

    /// Puts a key in the place of the older one.
    fn add(&mut self, key: &Arc<Key>) {
        self.keys.swap(0, 1);
        self.keys[0] = Some(key.clone());
    }

    /// Frees the expanded keys, until they are used again.
    pub(crate) fn rest(&self) {
        self.keys.iter().flatten().for_each(|key| key.rest());
    }
}
