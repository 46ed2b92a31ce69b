//! The status zone of a request, as `status_zone` names it.

use std::sync::Arc;

use crate::exchange::Exchange;
use crate::figures::{Zone, ZoneGroup};
use crate::template::Template;

/// A zone with a fixed name, or one by the value of a text with variables.
pub enum Target {
    /// A zone.
    Fixed(&'static Zone),
    /// The zones of the values of a text.
    Keyed(Arc<ZoneGroup>, Template),
}

/// The zone of a server, in the server's extensions: TLS handshakes are counted there, before there is a request.
pub struct ServerZone(pub Arc<Target>);

impl Target {
    /// Returns the zone of a request; `None` for a value that is empty.
    #[inline]
    pub fn zone(&self, x: &mut Exchange) -> Option<&'static Zone> {
        match self {
            Target::Fixed(zone) => Some(zone),
            Target::Keyed(group, key) => group.zone(&key.value(x)),
        }
    }

    /// Records that a server of its zones listens with TLS.
    pub fn set_secure(&self) {
        match self {
            Target::Fixed(zone) => zone.set_secure(),
            Target::Keyed(group, _) => group.set_secure(),
        }
    }
}
