//! TLS towards origins. Nothing else in this crate names the TLS library.
//!
//! | file | what |
//! |---|---|
//! | settings | what a configuration says, compiled |
//! | handshake | from a socket to a stream |
//! | verify | certificates and names of origins |
//! | stream | the stream itself |

mod handshake;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use handshake::handshake;
pub use settings::{Protocols, TlsOptions, TlsSettings, TlsTarget};
pub use stream::TlsStream;
