//! The server's side of handlers: making requests and taking responses apart. It is no part of the interface for
//! applications.

pub use crate::abandonment::Abandonment;
pub use crate::invalid::InvalidResponse;
pub use crate::registry::{find, names, register};
pub use crate::request::Parts;
pub use crate::response::{Payload, Taken};
pub use crate::writer::{Sink, run};
