//! The properties by which a request may use an idle connection.

use tidegate_tls::TlsTarget;

use crate::settings::LocalAddress;

/// The properties that a connection must match to serve another request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Id of the server.
    pub peer: u64,
    /// Location, where connections are not shared between locations; else 0.
    pub tag: u64,
    /// The protocol, as a number.
    pub wire: u8,
    /// Kept for a moment only.
    pub brief: bool,
    pub local: Option<Box<LocalAddress>>,
    pub tls: Option<TlsTarget>,
}
