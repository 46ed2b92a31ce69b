//! What other crates may use of tokio directly: primitives that neither start tasks nor touch the system.

pub use tokio::sync::futures::OwnedNotified;
pub use tokio::sync::mpsc::{Receiver, Sender, channel};
pub use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
pub use tokio::{join, pin, select};
