//! The type of futures that stay on their thread.

use std::pin::Pin;

/// A future of the connection's own thread, so not `Send`.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
