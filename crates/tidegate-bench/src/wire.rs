//! A client's connection, plain or by TLS. Connecting and the handshake wait; nothing does so afterwards.
//!
//! TLS is version 1.3 with AES-256-GCM and X25519 alone: every compared server does the same cryptography then.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

use crate::load::is_transient;

/// The settings of connections by TLS. Clones share sessions.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Whether a connection may resume the session of one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    Resumed,
    /// Each handshake is a full one.
    Full,
}

impl Tls {
    /// Trusts one certificate, which is in `pem` and names the address, and offers these protocols by ALPN.
    ///
    /// # Errors
    /// The text has no certificate, or one that the TLS library does not take.
    pub(crate) fn new(
        pem: &[u8],
        address: std::net::IpAddr,
        protocols: &[&[u8]],
        sessions: Sessions,
    ) -> Result<Tls, String> {
        let failed = |error: &dyn std::fmt::Display| format!("certificate: {error}");
        let certificate = rustls::pki_types::CertificateDer::from_pem_slice(pem);
        let mut roots = RootCertStore::empty();
        roots.add(certificate.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        let provider = CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384],
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| failed(&error))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        if sessions == Sessions::Full {
            config.resumption = Resumption::disabled();
        }
        Ok(Tls { config: Arc::new(config), name: ServerName::IpAddress(address.into()) })
    }

    /// The library's settings, for a connection that is not over TCP.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

/// One connection.
pub(crate) struct Wire {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

/// The result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received<'b> {
    /// Bytes of the protocol above; not empty.
    Bytes(&'b [u8]),
    /// Bytes of TLS alone.
    Nothing,
    /// The peer has closed.
    End,
}

impl Wire {
    /// Connects, and does the handshake of TLS. Connecting and each wait of the handshake take at most `patience`.
    ///
    /// # Errors
    /// No connection in time, or a failed handshake.
    pub(crate) fn connect(
        address: &SocketAddr,
        tls: Option<&Tls>,
        patience: Duration,
    ) -> io::Result<Wire> {
        Wire::over(TcpStream::connect_timeout(address, patience)?, tls, patience)
    }

    /// The same on a socket that is connected.
    ///
    /// # Errors
    /// As [`Wire::connect`].
    pub(crate) fn over(
        mut socket: TcpStream,
        tls: Option<&Tls>,
        patience: Duration,
    ) -> io::Result<Wire> {
        socket.set_nodelay(true)?;
        let mut wire_tls = None;
        if let Some(Tls { config, name }) = tls {
            socket.set_read_timeout(Some(patience))?;
            socket.set_write_timeout(Some(patience))?;
            let connection = ClientConnection::new(config.clone(), name.clone());
            let mut connection = Box::new(connection.map_err(io::Error::other)?);
            while connection.is_handshaking() || connection.wants_write() {
                connection.complete_io(&mut socket)?;
            }
            wire_tls = Some(connection);
        }
        socket.set_nonblocking(true)?;
        Ok(Wire { socket, tls: wire_tls })
    }

    /// The socket, to wait for or to look at.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The protocol that was agreed on by ALPN.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    /// Whether the handshake resumed a session.
    pub(crate) fn is_resumed(&self) -> bool {
        let kind = self.tls.as_ref().and_then(|tls| tls.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// Reads once from the socket: into `buffer`, or decrypted into `plain`, which is cleared before.
    ///
    /// # Errors
    /// Those of the socket, `WouldBlock` among them, and invalid bytes of TLS.
    pub(crate) fn receive<'b>(
        &mut self,
        buffer: &'b mut [u8],
        plain: &'b mut Vec<u8>,
    ) -> io::Result<Received<'b>> {
        let count = self.socket.read(buffer)?;
        let Some(tls) = &mut self.tls else {
            return Ok(match count {
                0 => Received::End,
                count => Received::Bytes(&buffer[..count]),
            });
        };
        plain.clear();
        // The handshake may have left bytes.
        drain(tls, plain)?;
        let mut input = &buffer[..count];
        while !input.is_empty() {
            tls.read_tls(&mut input)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            drain(tls, plain)?;
        }
        Ok(match (plain.is_empty(), count) {
            (false, _) => Received::Bytes(plain),
            (true, 0) => Received::End,
            (true, _) => Received::Nothing,
        })
    }

    /// Sends bytes; returns the number that were taken. Those of TLS may wait here: see [`Wire::flush`].
    ///
    /// # Errors
    /// Those of the socket, `WouldBlock` among them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        let count = tls.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }

    /// Sends the encrypted bytes that wait. `false`: the socket takes no more now.
    ///
    /// # Errors
    /// Those of the socket but `WouldBlock`.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if is_transient(&error) => return Ok(false),
                other => other?,
            };
        }
        Ok(true)
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Moves what is decrypted.
fn drain(tls: &mut ClientConnection, plain: &mut Vec<u8>) -> io::Result<()> {
    let mut reader = tls.reader();
    loop {
        match reader.fill_buf() {
            Ok([]) => return Ok(()),
            Ok(bytes) => {
                let count = bytes.len();
                plain.extend_from_slice(bytes);
                reader.consume(count);
            }
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
