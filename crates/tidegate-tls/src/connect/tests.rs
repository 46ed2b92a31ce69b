//! Handshakes over a pair of sockets.

use std::future::poll_fn;
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};
use tidegate_rt::net::{Addr, Stream};

use super::connect;
use crate::client::{TlsOptions, TlsSettings, TlsTarget};
use crate::error::{HandshakeError, TlsConnectError};
use crate::io::Io;

/// Runs a handshake with an origin whose certificate is for `localhost`; returns the bytes that the origin
/// received, or the error.
fn greet(options: TlsOptions, own: &OwnCertificate, name: &str) -> Result<String, TlsConnectError> {
    let settings = Arc::new(TlsSettings::new(&options).expect("settings"));
    let target = TlsTarget::new(settings, name.as_bytes().into(), Arc::default());
    tidegate_rt::block_on(async move {
        let (left, right) = Stream::pair().expect("a pair");
        let origin = serve(&right, own.config.clone());
        let peer = Addr::Unix("/none".into());
        let client = async {
            let io = Io::Tls(connect(Rc::new(left), &peer, &target).await?);
            poll_fn(|context| io.poll_write(context, b"hello")).await.expect("written");
            poll_fn(|context| io.poll_flush(context)).await.expect("flushed");
            Ok::<_, TlsConnectError>(io)
        };
        let (received, result) = tidegate_rt::sync::join!(origin, client);
        result.map(|io| {
            assert!(io.is_quiet(), "tickets do not end the quiet");
            received
        })
    })
    .expect("a loop")
}

/// Runs the library's own connection of an origin until data arrives, and returns that; nothing if there is no handshake.
async fn serve(stream: &Stream, config: Arc<ServerConfig>) -> String {
    let mut connection = ServerConnection::new(config).expect("a connection");
    loop {
        let mut output = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut output).expect("written");
        }
        let sent = stream.write_all(&output).await;
        let mut bytes = [0; 64];
        if let Ok(count @ 1..) = connection.reader().read(&mut bytes) {
            return String::from_utf8_lossy(&bytes[..count]).into_owned();
        }
        let mut input = Vec::with_capacity(4096);
        if sent.is_err() || !matches!(stream.read_append(&mut input).await, Ok(1..)) {
            return String::new();
        }
        let mut input = &input[..];
        while !input.is_empty() {
            connection.read_tls(&mut input).expect("read");
            if connection.process_new_packets().is_err() {
                return String::new();
            }
        }
    }
}

/// An origin's certificate and settings.
struct OwnCertificate {
    der: Vec<u8>,
    config: Arc<ServerConfig>,
}

fn own() -> OwnCertificate {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let chain = vec![certificate.der().clone()];
    let config = builder.with_no_client_auth().with_single_cert(chain, private).expect("a pair");
    OwnCertificate { der: certificate.der().to_vec(), config: Arc::new(config) }
}

#[test]
fn handshakes_verify_as_configured() {
    let (own, unknown) = (own(), self::own());
    let base = || TlsOptions {
        tls12: true,
        tls13: true,
        suites: crate::cipher_suites::tls12("DEFAULT"),
        ..TlsOptions::default()
    };
    let trusting = |trusted: &OwnCertificate| TlsOptions {
        verify: true,
        trusted: vec![trusted.der.clone()],
        ..base()
    };
    let hello = |greeted: Result<String, TlsConnectError>| {
        assert_eq!(greeted.expect("a handshake"), "hello");
    };
    hello(greet(base(), &own, "any name: at all"));
    hello(greet(TlsOptions { tls13: false, ..base() }, &own, "localhost"));
    hello(greet(trusting(&own), &own, "localhost"));
    let error = greet(trusting(&own), &own, "other").expect_err("another name");
    assert!(matches!(error, TlsConnectError::OtherName), "{error}");
    let error = greet(trusting(&unknown), &own, "localhost").expect_err("another certificate");
    let TlsConnectError::Handshake(HandshakeError::Certificate(fault)) = error else {
        panic!("{error}")
    };
    assert_eq!(fault, "18:self-signed certificate");
}
