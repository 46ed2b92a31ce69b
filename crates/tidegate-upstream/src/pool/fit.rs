//! Which idle connections a request may use.

use tidegate_tls::TlsTarget;

use crate::settings::LocalAddress;

/// What a connection must fit to serve a request again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Id of the server.
    pub peer: u64,
    /// Location, where connections are not shared between locations; else 0.
    pub tag: u64,
    /// The language spoken, as a number.
    pub wire: u8,
    /// Kept for a moment only.
    pub brief: bool,
    pub local: Option<LocalAddress>,
    pub tls: Option<TlsTarget>,
}
