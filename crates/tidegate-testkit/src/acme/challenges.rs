//! Servers that present challenges: http-01 on one port, tls-alpn-01 on another.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::aws_lc_rs::{self, sign::any_supported_type};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection};
use tidegate_acme::{ALPN_PROTOCOL, Challenge, Key, KeyKind};

use crate::bell::locked;

/// Longest wait for a validation's next bytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The challenges that are presented. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Challenges(Arc<Mutex<Vec<Challenge>>>);

impl Challenges {
    /// Begins to present on these ports. The threads end with the process.
    pub(super) fn serve(http: u16, tls: u16) -> io::Result<Challenges> {
        let challenges = Challenges::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, http))?;
        let shared = challenges.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = shared.respond(stream);
            }
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, tls))?;
        let config = challenges.tls()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = handshake(&config, stream);
            }
        });
        Ok(challenges)
    }

    pub(super) fn present(&self, list: &[Challenge]) {
        locked(&self.0).extend_from_slice(list);
    }

    pub(super) fn withdraw(&self, list: &[Challenge]) {
        locked(&self.0).retain(|challenge| !list.contains(challenge));
    }

    fn find(&self, is: impl Fn(&Challenge) -> bool) -> Option<Challenge> {
        locked(&self.0).iter().find(|challenge| is(challenge)).cloned()
    }

    fn respond(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let line = lines.next().transpose()?.unwrap_or_default();
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let path = line.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match self.find(|challenge| challenge.path() == path) {
            Some(challenge) => ("200 OK", challenge.key_authorization),
            None => ("404 Not Found", String::new()),
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    fn tls(&self) -> io::Result<Arc<ServerConfig>> {
        let key = Key::generate(KeyKind::Ecdsa256).map_err(io::Error::other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let resolver = Resolver { challenges: self.clone(), key };
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }
}

fn handshake(config: &Arc<ServerConfig>, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    connection.send_close_notify();
    connection.complete_io(&mut stream).map(drop)
}

/// Chooses the certificate of the challenge for a name.
#[derive(Debug)]
struct Resolver {
    challenges: Challenges,
    key: Key,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        let is = |challenge: &Challenge| challenge.identifier.server_name() == name;
        let challenge = self.challenges.find(is)?;
        let certificate = challenge.certificate(&self.key).ok()?;
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.to_pem().as_bytes()).ok()?;
        let key = any_supported_type(&key).ok()?;
        Some(Arc::new(CertifiedKey::new(vec![certificate], key)))
    }
}
