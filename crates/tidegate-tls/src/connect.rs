//! From a connected socket to a TLS stream.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use tidegate_rt::net::{Addr, Stream};
use tidegate_rt::sync::StreamIo;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, Error, OtherError};

use crate::client::TlsTarget;
use crate::stream::TlsStream;
use crate::verify;

/// Goes through the handshake. Time limits are the caller's.
///
/// # Errors
/// The text for the error log, in nginx's words.
pub async fn handshake(
    stream: Rc<Stream>,
    peer: &Addr,
    target: &TlsTarget,
) -> Result<TlsStream, String> {
    let connector = TlsConnector::from(target.settings.config(peer, &target.alpn));
    let connecting = connector.connect(name(&target.name, peer), StreamIo(stream.clone()));
    let session = connecting.await.map_err(|error| failure(&error))?;
    if target.settings.verify {
        // Resumed sessions know the certificates of their first handshake.
        let chain = session.get_ref().1.peer_certificates().unwrap_or_default();
        let fits = chain.first().is_some_and(|leaf| verify::is_for(leaf, &target.name));
        if !fits {
            let name = String::from_utf8_lossy(&target.name);
            return Err(format!("upstream SSL certificate does not match \"{name}\""));
        }
    }
    Ok(TlsStream::new(stream, Box::new(session)))
}

/// The name as the library takes it. An address stands for names that cannot be sent: it never is.
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

fn failure(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(fault)))) => {
            format!("upstream SSL certificate verify error: ({fault})")
        }
        Some(Error::InvalidCertificate(other)) => {
            format!("upstream SSL certificate verify error: ({other})")
        }
        Some(reason) => format!("SSL_do_handshake() failed (SSL: {reason})"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "peer closed connection in SSL handshake".to_owned()
        }
        None => format!("SSL_do_handshake() failed ({})", tidegate_os::os_error(error)),
    }
}
