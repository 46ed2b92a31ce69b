//! From a connected socket to a TLS stream.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use tidegate_rt::net::{Addr, Stream};

use crate::client::TlsTarget;
use crate::error::{HandshakeError, TlsConnectError};
use crate::session::Session;
use crate::side::Client;
use crate::stream::{self, TlsStream};
use crate::verify;

/// Completes a handshake with an origin, and verifies its certificate where the settings require it. The
/// caller sets the time limits.
///
/// Cancelling: dropping it ends the session; the socket stays open, and can only be closed. The name is
/// compared after the handshake (RFC 9525), before any byte of the caller is sent.
///
/// # Errors
/// The handshake failed, or the certificate is not for the name.
pub async fn connect(
    stream: Rc<Stream>,
    peer: &Addr,
    target: &TlsTarget,
) -> Result<Rc<TlsStream<Client>>, TlsConnectError> {
    let config = target.settings.config(peer, &target.alpn);
    let connection = UnbufferedClientConnection::new(config, name(target.name(), peer));
    let connection = connection.map_err(|error| HandshakeError::from(&error))?;
    let mut session = Session::new(connection, Vec::new(), usize::MAX);
    stream::handshake(&stream, &mut session).await?;
    if target.settings.verify {
        // A resumed session has the certificates of its first handshake.
        let chain = session.common().peer_certificates().unwrap_or_default();
        let fits = chain.first().is_some_and(|leaf| verify::is_for(leaf, target.name()));
        if !fits {
            return Err(TlsConnectError::OtherName);
        }
    }
    Ok(Rc::new(TlsStream::new(stream, session)))
}

/// Returns the name in the library's type. An address replaces names that cannot be sent: it is never sent.
fn name(name: &[u8], peer: &Addr) -> ServerName<'static> {
    let text = std::str::from_utf8(name).unwrap_or_default();
    ServerName::try_from(text.to_owned()).unwrap_or_else(|_| {
        let address = match peer {
            Addr::Inet(address) => address.ip(),
            Addr::Unix(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        ServerName::IpAddress(address.into())
    })
}
