//! Addresses of names: from the operating system's resolver while the configuration is loaded, from `resolver`'s name
//! servers for names that are known per request only.

mod dns;
mod error;
mod host_port;
mod shared;
mod stub;
mod zone;

pub use dns::ServiceRecord;
pub use error::{ResolveError, ResolverError};
pub use host_port::{HostPort, HostPortError, addresses, parse};
pub use stub::Resolver;
pub use zone::{OUTCOMES, QUESTIONS, ResolverZone, SENT};
