//! The server's side of handlers: how requests are made and responses taken apart. No part of the
//! interface that applications may rely on.

pub use crate::abandonment::Abandonment;
pub use crate::invalid::InvalidResponse;
pub use crate::registry::{find, names, register};
pub use crate::request::Parts;
pub use crate::response::{Payload, Taken};
pub use crate::writer::{Sink, run};
