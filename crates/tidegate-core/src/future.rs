//! What takes time without holding its thread.

use std::pin::Pin;

/// A future of the connection's own thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
