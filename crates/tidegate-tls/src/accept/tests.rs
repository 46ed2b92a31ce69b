//! Complete handshakes of both sides over a pair of sockets.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_rt::net::{Addr, Stream};

use super::{Hello, Negotiated, begins_hello};
use crate::client::{Protocols, TlsOptions, TlsSettings, TlsTarget};
use crate::client_trust::ClientTrust;
use crate::connect::connect;
use crate::error::{HandshakeError, TlsConnectError};
use crate::groups::{self, Groups};
use crate::io::Io;
use crate::key_pair::KeyPair;
use crate::pem;
use crate::server::{ServerOptions, ServerProtocols, ServerSettings};
use crate::sessions::SessionCache;
use crate::side::{Client, Server};
use crate::stapling::Stapled;
use crate::tickets::{RandomKeys, TicketKeys};
use crate::x509::VerifyError;

const TIMEOUT: Duration = Duration::from_secs(300);

/// A certificate (DER) and its key (PEM and DER).
struct OwnCertificate {
    der: Vec<u8>,
    key: rcgen::KeyPair,
}

fn own(name: &str) -> OwnCertificate {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let der = params.self_signed(&key).expect("signed").der().to_vec();
    OwnCertificate { der, key }
}

/// Options of a server with the certificate `own`.
fn options(own: &OwnCertificate) -> ServerOptions {
    let suites = crate::cipher_suites::tls12("DEFAULT");
    let key = pem::private_key(own.key.serialize_pem().as_bytes(), &[]).expect("a key");
    let pair = KeyPair::new(vec![own.der.clone()], &key).expect("a pair");
    ServerOptions {
        protocols: ServerProtocols::new(true, true, &suites, None, Groups::default())
            .expect("protocols"),
        certificates: vec![Arc::new(Stapled::new(pair))],
        clients: None,
        alpn: Vec::new(),
        prefers_own_suites: false,
        record_bytes_max: 16 * 1024,
        session_timeout: TIMEOUT,
        sessions: None,
        tickets: None,
        early_data: false,
        compresses_certificates: false,
        key_log: None,
    }
}

fn client() -> TlsOptions {
    let suites = crate::cipher_suites::tls12("DEFAULT");
    TlsOptions { tls12: true, tls13: true, suites, server_name: true, ..TlsOptions::default() }
}

fn target(options: &TlsOptions, alpn: &[&str]) -> TlsTarget {
    let settings = Arc::new(TlsSettings::new(options).expect("settings"));
    let alpn: Protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsTarget::new(settings, b"localhost"[..].into(), alpn)
}

/// The result of the server, and the bytes that the client received.
type Outcome = (Result<Negotiated, HandshakeError>, Result<Vec<u8>, TlsConnectError>);

/// Runs one handshake; then the client sends `ping`, and the server sends `pong` and the end.
fn meet(server: &ServerSettings, target: &TlsTarget) -> Outcome {
    tidegate_rt::block_on(async {
        let (left, right) = Stream::pair().expect("a pair");
        let (left, right) = (Rc::new(left), Rc::new(right));
        let serve = async {
            let hello = Hello::receive(&right, Vec::new()).await?;
            assert_eq!(hello.server_name().as_deref(), Some("localhost"));
            assert!(!hello.cipher_suites().is_empty() && !hello.groups().is_empty());
            let (stream, negotiated) = hello.accept(&right, server).await?;
            let io = Io::<Server>::Tls(stream);
            assert_eq!(read(&io, 4).await, b"ping");
            write(&io, b"pong").await;
            io.shutdown().await;
            Ok(negotiated)
        };
        let ask = async {
            let stream = connect(left.clone(), &Addr::Unix("/none".into()), target).await?;
            let io = Io::<Client>::Tls(stream);
            write(&io, b"ping").await;
            Ok(read(&io, usize::MAX).await)
        };
        tidegate_rt::sync::join!(serve, ask)
    })
    .expect("a loop")
}

async fn write<S: crate::Side>(io: &Io<S>, bytes: &[u8]) {
    let count = poll_fn(|context| io.poll_write(context, bytes)).await.expect("written");
    assert_eq!(count, bytes.len());
    io.flush().await.expect("flushed");
}

/// Reads bytes up to `most` or the end.
async fn read<S: crate::Side>(io: &Io<S>, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        match poll_fn(|context| io.poll_read_append(context, &mut bytes)).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    bytes
}

/// Runs a handshake that succeeds.
fn negotiate(server: &ServerSettings, target: &TlsTarget) -> Negotiated {
    let (negotiated, received) = meet(server, target);
    assert_eq!(received.expect("a handshake"), b"pong");
    negotiated.expect("a handshake")
}

#[test]
fn first_bytes_distinguish_tls_from_plain_text() {
    for (first, expected) in [(0x16, true), (0x80, true), (b'G', false), (b'\n', false), (0, false)]
    {
        assert_eq!(begins_hello(first), expected, "{first}");
    }
}

#[test]
fn both_sides_agree() {
    let own = own("localhost");
    let trusting = TlsOptions { verify: true, trusted: vec![own.der.clone()], ..client() };
    for (options, protocol, cipher) in [
        (trusting.clone(), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (
            TlsOptions { tls13: false, ..trusting.clone() },
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            TlsOptions { suites_tls13: vec![0x1303], ..trusting },
            "TLSv1.3",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
    ] {
        let found = negotiate(&ServerSettings::new(self::options(&own)), &target(&options, &[]));
        assert_eq!((found.protocol, found.cipher), (protocol, cipher));
        assert!(!found.session_reused && found.alpn.is_none() && found.client.is_none());
        let known = ["X25519MLKEM768", "X25519", "prime256v1"].contains(&found.group);
        assert!(known, "{}", found.group);
    }
}

#[test]
fn servers_choose_group_and_protocol() {
    let own = own("localhost");
    let groups = groups::parse("prime256v1").expect("a group");
    let protocols = ServerProtocols::new(false, true, &[], None, groups).expect("protocols");
    let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = ServerSettings::new(ServerOptions { protocols, alpn, ..options(&own) });
    let found = negotiate(&server, &target(&client(), &["http/1.1", "h2"]));
    assert_eq!((found.group, found.alpn.as_deref()), ("prime256v1", Some("h2")));
    let found = negotiate(&server, &target(&client(), &[]));
    assert_eq!(found.alpn, None);
    let (refused, _) = meet(&server, &target(&client(), &["other"]));
    assert!(matches!(refused, Err(HandshakeError::Protocol(_))), "{refused:?}");
    let nothing = ServerProtocols::new(true, false, &[], None, Groups::default());
    assert!(nothing.is_err(), "no suite of TLS 1.2");
}

#[test]
fn certificates_of_clients_are_judged_and_not_refused() {
    let (own, client_own, unknown) = (own("localhost"), own("a"), own("b"));
    let clients = || Some(ClientTrust::new(std::slice::from_ref(&client_own.der), &[], &[], 1));
    let server = || ServerSettings::new(ServerOptions { clients: clients(), ..options(&own) });
    let showing = |shown: &OwnCertificate| TlsOptions {
        certificate: vec![shown.der.clone()],
        key: shown.key.serialize_der(),
        ..client()
    };
    for tls13 in [true, false] {
        let shown = |options: TlsOptions| {
            let found = negotiate(&server(), &target(&TlsOptions { tls13, ..options }, &[]));
            found.client.map(|client| (client.der, client.fault))
        };
        assert_eq!(shown(showing(&client_own)), Some((client_own.der.clone(), None)));
        let fault = Some(VerifyError::SelfSigned);
        assert_eq!(shown(showing(&unknown)), Some((unknown.der.clone(), fault)));
        assert_eq!(shown(client()), None);
    }
}

#[test]
fn sessions_are_resumed_where_they_are_kept() {
    let own = own("localhost");
    let unknown = self::own("localhost");
    let cache = Arc::new(SessionCache::with_entries(100));
    let keys = TicketKeys::Random(Arc::new(RandomKeys::new(TIMEOUT)));
    for tls13 in [true, false] {
        let options = |own: &OwnCertificate, cached: bool, tickets: bool| ServerOptions {
            sessions: cached.then(|| cache.clone()),
            tickets: tickets.then(|| keys.clone()),
            ..options(own)
        };
        for (cached, tickets) in [(false, false), (true, false), (false, true), (true, true)] {
            let settings =
                |own: &OwnCertificate| ServerSettings::new(options(own, cached, tickets));
            let resuming = TlsOptions { session_reuse: true, tls13, ..client() };
            let target = target(&resuming, &[]);
            assert!(!negotiate(&settings(&own), &target).session_reused, "the first one");
            let again = negotiate(&settings(&own), &target);
            assert_eq!(again.session_reused, cached || tickets, "{tls13} {cached} {tickets}");
            let other = negotiate(&settings(&unknown), &target);
            assert!(!other.session_reused, "a server with another certificate");
        }
    }
}

/// Runs a client that sends `bytes` and closes; returns the hello, the error of the server, and the bytes
/// that the client received.
fn greet(bytes: &[u8]) -> (Option<Hello>, Option<HandshakeError>, Vec<u8>) {
    tidegate_rt::block_on(async {
        let (left, right) = Stream::pair().expect("a pair");
        left.write_all(bytes).await.expect("written");
        left.shutdown_write().expect("shut down");
        let found = Hello::receive(&right, Vec::new()).await;
        drop(right);
        let mut received = Vec::with_capacity(64);
        while matches!(left.read_append(&mut received).await, Ok(1..)) {}
        match found {
            Ok(hello) => (Some(hello), None, received),
            Err(error) => (None, Some(error), received),
        }
    })
    .expect("a loop")
}

#[test]
fn other_bytes_get_an_alert() {
    const ALERT: u8 = 21;
    let (_, error, received) = greet(b"");
    assert!(matches!(error, Some(HandshakeError::Closed)) && received.is_empty(), "{error:?}");
    let (_, error, received) = greet(&[0x16, 3, 1, 0, 40, 1, 0]);
    assert!(matches!(error, Some(HandshakeError::Closed)) && received.is_empty(), "{error:?}");
    // A message of another type.
    let (_, error, _) = greet(&[0x16, 3, 1, 0, 4, 9, 0, 0, 0]);
    assert!(matches!(error, Some(HandshakeError::Protocol(_))), "{error:?}");
    // A hello that only accepts compressed bytes: length, version, random, no session, one suite, one method.
    let start = [&[0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3][..], &[7; 32], &[0]].concat();
    let (_, error, received) = greet(&[&start[..], &[0, 2, 0x13, 1, 1, 1]].concat());
    assert!(matches!(error, Some(HandshakeError::Protocol(_))), "{error:?}");
    assert_eq!(received.first(), Some(&ALERT));
}

#[test]
fn failures_without_an_alert_of_the_library_get_one() {
    // A hello's first part, then another record; a handshake message of an unknown type; one of 16 MB; a hello of TLS
    // 1.1.
    let interleaved = [0x16, 3, 1, 0, 6, 1, 0, 0, 9, 3, 3, 0x14, 3, 3, 0, 1, 1];
    let unknown = [0x16, 3, 1, 0, 5, 245, 0, 0, 1, 0];
    let endless = records(&[[1, 0xff, 0xff, 0xff].as_slice(), &vec![0; 100_000]].concat());
    let start = [&[0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2][..], &[7; 32], &[0]].concat();
    let old = [&start[..], &[0, 2, 0, 0x2f, 1, 0]].concat();
    for (bytes, alert, reason) in [
        (&interleaved[..], 10, "mixed handshake and non handshake data"),
        (&unknown, 10, "unexpected message"),
        (&endless, 47, "excessive message size"),
        (&old, 70, "unsupported protocol"),
    ] {
        let (_, error, received) = greet(bytes);
        assert_eq!(received, [0x15, 3, 3, 0, 2, 2, alert], "{reason}");
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.ends_with(reason), "{error}");
    }
}

#[test]
fn a_long_hello_is_read_however_it_arrives() {
    let hello = records(&padded_hello(40_000));
    assert!(greet(&hello).0.is_some());
    let found = tidegate_rt::block_on(async {
        let (_left, right) = Stream::pair().expect("a pair");
        Hello::receive(&right, hello).await.is_ok()
    });
    assert_eq!(found.ok(), Some(true));
}

/// Returns a hello of TLS 1.3 with `padding` bytes of padding (RFC 7685).
fn padded_hello(padding: u16) -> Vec<u8> {
    let mut extensions: Vec<u8> = [
        &[0, 43, 0, 3, 2, 3, 4][..],
        &[0, 10, 0, 4, 0, 2, 0, 29],
        &[0, 13, 0, 4, 0, 2, 4, 3],
        &[0, 51, 0, 38, 0, 36, 0, 29, 0, 32],
        &[9; 32],
        &[0, 21],
        &padding.to_be_bytes(),
    ]
    .concat();
    extensions.resize(extensions.len() + usize::from(padding), 0);
    let mut body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let length = (body.len() as u32).to_be_bytes();
    [&[1][..], &length[1..], &body].concat()
}

/// Cuts a handshake message into records.
fn records(message: &[u8]) -> Vec<u8> {
    let record =
        |part: &[u8]| [&[0x16, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    message.chunks(16_384).flat_map(record).collect()
}

#[test]
fn names_can_be_refused() {
    let refused = tidegate_rt::block_on(async {
        let (left, right) = Stream::pair().expect("a pair");
        let refuse = async {
            let hello = Hello::receive(&right, Vec::new()).await.expect("a hello");
            hello.refuse_name(&right).await;
        };
        let target = target(&client(), &[]);
        let peer = Addr::Unix("/none".into());
        let ask = connect(Rc::new(left), &peer, &target);
        tidegate_rt::sync::join!(refuse, ask).1
    });
    let error = refused.expect("a loop").expect_err("refused");
    let TlsConnectError::Handshake(HandshakeError::Protocol(reason)) = error else {
        panic!("{error:?}")
    };
    assert!(reason.to_string().contains("tlsv1 unrecognized name"), "{reason}");
}
