//! Certificates made for a test, and a client that shows what the server sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::compress::{CertDecompressor, DecompressionFailed};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateCompressionAlgorithm, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned, SupportedProtocolVersion, version,
};

use super::Server;

/// Certificates that clients with decompression have received compressed.
pub(crate) static DECOMPRESSED: AtomicUsize = AtomicUsize::new(0);

pub(crate) type Versions = &'static [&'static SupportedProtocolVersion];
pub(crate) const V12: Versions = &[&version::TLS12];
const BOTH: Versions = &[&version::TLS12, &version::TLS13];
pub(crate) const V13: Versions = &[&version::TLS13];

/// A directory with certificates `NAME.crt` and keys `NAME.key`, removed in the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(names: &[&str]) -> Directory {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("tidegate-tls-{}-{number}", std::process::id());
        let directory = Directory(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&directory.0).expect("a directory");
        for name in names {
            directory.add(name, KeyPair::generate().expect("a key"));
        }
        directory
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Adds a certificate with an RSA key.
    pub(crate) fn rsa(&self, name: &str) {
        self.add(name, KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key"));
    }

    fn add(&self, name: &str, key: KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("signed");
        std::fs::write(self.path(&format!("{name}.crt")), certificate.pem()).expect("written");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("written");
    }

    /// Returns the directives for a pair.
    pub(crate) fn pair(&self, name: &str) -> String {
        format!("ssl_certificate {name}.crt; ssl_certificate_key {name}.key;")
    }

    /// Encrypts a key in place; `false` where there is no `openssl`.
    pub(crate) fn encrypt(&self, name: &str, password: &str) -> bool {
        let key = self.path(&format!("{name}.key"));
        let out = self.path("encrypted");
        let openssl = std::process::Command::new("openssl")
            .args(["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout"])
            .arg(format!("pass:{password}"))
            .arg("-in")
            .arg(&key)
            .arg("-out")
            .arg(&out)
            .status();
        openssl.is_ok_and(|status| status.success()) && std::fs::rename(out, key).is_ok()
    }

    fn certificates(&self) -> Vec<(String, Vec<u8>)> {
        use rustls::pki_types::pem::PemObject;
        let files = std::fs::read_dir(&self.0).expect("a directory").flatten();
        files
            .filter_map(|file| {
                let name = file.file_name().into_string().ok()?.strip_suffix(".crt")?.to_owned();
                Some((name, CertificateDer::from_pem_file(file.path()).ok()?.to_vec()))
            })
            .collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a client received.
pub(crate) struct Received {
    /// Name of the certificate's files; empty in resumed sessions, where it is not known.
    pub certificate: String,
    pub bytes: Vec<u8>,
    pub body: String,
    /// The server sent close_notify.
    pub closed_properly: bool,
}

/// A client that keeps sessions and trusts every certificate.
pub(crate) struct Client {
    config: ClientConfig,
    certificates: Vec<(String, Vec<u8>)>,
    stapled: Stapled,
}

/// The last OCSP response that was sent along with a certificate.
type Stapled = Arc<Mutex<Vec<u8>>>;

impl Client {
    pub(crate) fn new(directory: &Directory) -> Client {
        let stapled = Stapled::default();
        let config = config(classical(), BOTH, &stapled);
        Client { config, certificates: directory.certificates(), stapled }
    }

    pub(crate) fn versions(mut self, versions: Versions) -> Client {
        self.config = config(classical(), versions, &self.stapled);
        self
    }

    /// Offers suites with RSA only.
    pub(crate) fn only_rsa(mut self) -> Client {
        let mut provider = classical();
        provider.cipher_suites.retain(|suite| format!("{suite:?}").contains("ECDHE_RSA"));
        self.config = config(provider, V12, &self.stapled);
        self
    }

    /// Sends early data, where sessions allow it.
    pub(crate) fn with_early_data(mut self) -> Client {
        self.config.enable_early_data = true;
        self
    }

    /// Offers to decompress certificates by zlib, and by an algorithm that servers do not have.
    pub(crate) fn with_decompression(mut self) -> Client {
        self.config.cert_decompressors = vec![&UnknownCompression, &Zlib];
        self
    }

    pub(crate) fn connect(
        &self,
        server: &Server,
        name: &str,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let socket = TcpStream::connect(server.address).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(self.config.clone()), name);
        StreamOwned::new(connection.expect("a connection"), socket)
    }

    pub(crate) fn talk(&self, server: &Server, name: &str, request: &[u8]) -> Received {
        let mut session = self.connect(server, name);
        session.write_all(request).expect("written");
        let mut bytes = Vec::new();
        let closed_properly = session.read_to_end(&mut bytes).is_ok();
        let shown = session.conn.peer_certificates().and_then(|chain| chain.first());
        let known = |bytes: &[u8]| self.certificates.iter().find(|(_, known)| known == bytes);
        let certificate =
            shown.and_then(|shown| known(shown.as_ref())).map(|(name, _)| name.clone());
        let text = String::from_utf8_lossy(&bytes);
        let body = text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned());
        Received { certificate: certificate.unwrap_or_default(), body, bytes, closed_properly }
    }

    pub(crate) fn get(&self, server: &Server, name: &str, host: &str) -> Received {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        self.talk(server, name, request.as_bytes())
    }

    /// Returns what was sent along with the certificate of a new handshake.
    pub(crate) fn stapled(&self, server: &Server, name: &str) -> Vec<u8> {
        self.get(server, name, name);
        self.stapled.lock().expect("unbroken").clone()
    }

    pub(crate) fn body(&self, server: &Server, name: &str) -> String {
        self.get(server, name, name).body
    }

    /// Returns why there is no handshake.
    pub(crate) fn failure(&self, server: &Server, name: &str) -> String {
        let mut session = self.connect(server, name);
        let written = session.write_all(b"x").and_then(|()| session.read(&mut [0; 16]));
        written.expect_err("a failing handshake").to_string()
    }
}

/// Returns a provider with classical groups first, as most clients still have them.
fn classical() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups.sort_by_key(|group| format!("{:?}", group.name()).contains("MLKEM"));
    provider
}

fn config(provider: CryptoProvider, versions: Versions, stapled: &Stapled) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(versions).expect("versions");
    let verifier = Arc::new(AcceptAnyCertificate(stapled.clone()));
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(16);
    config
}

#[derive(Debug)]
struct Zlib;

impl CertDecompressor for Zlib {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        DECOMPRESSED.fetch_add(1, Ordering::Relaxed);
        let mut decoder = flate2::read::ZlibDecoder::new(input);
        decoder.read_exact(output).map_err(|_| DecompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

#[derive(Debug)]
struct UnknownCompression;

impl CertDecompressor for UnknownCompression {
    fn decompress(&self, _: &[u8], _: &mut [u8]) -> Result<(), DecompressionFailed> {
        Err(DecompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Unknown(0x4001)
    }
}

#[derive(Debug)]
struct AcceptAnyCertificate(Stapled);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        stapled: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.0.lock().expect("unbroken") = stapled.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
