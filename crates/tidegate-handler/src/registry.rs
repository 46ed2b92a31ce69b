//! The handlers of this process by name. They are registered before the configuration is read, and stay.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Handler;

static HANDLERS: Mutex<Vec<(String, Arc<dyn Handler>)>> = Mutex::new(Vec::new());

/// Adds a handler, or replaces the one of the same name.
pub fn register(name: &str, handler: Arc<dyn Handler>) {
    let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    handlers.retain(|(known, _)| known != name);
    handlers.push((name.to_owned(), handler));
}

/// Returns the handler of this name.
pub fn find(name: &str) -> Option<Arc<dyn Handler>> {
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    handlers.iter().find(|(known, _)| known == name).map(|(_, handler)| handler.clone())
}

/// Returns all names in the order of registration.
pub fn names() -> Vec<String> {
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    handlers.iter().map(|(name, _)| name.clone()).collect()
}
