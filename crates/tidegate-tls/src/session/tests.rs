//! Sessions against the library's own buffered connections, over memory.

mod early;
mod limits;

use std::io::{Read as _, Write as _};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use rustls::client::UnbufferedClientConnection;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::UnbufferedServerConnection;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, ServerConfig,
    ServerConnection, SideData, SignatureScheme, SupportedCipherSuite,
};

use super::*;
use crate::suites;

const SUITES: [SupportedCipherSuite; 5] = [
    aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
    aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
    aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// Accepts every certificate: these tests are not about trust.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls12_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        suites::algorithms().supported_schemes()
    }
}

/// A certificate and its key.
type Own = (CertificateDer<'static>, PrivateKeyDer<'static>);

static OWN: LazyLock<Own> = LazyLock::new(|| {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed").der().clone();
    (certificate, PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
});

/// Returns the suite as sessions have it. Their peers have the library's.
fn own(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    suites::by_number(&[u16::from(suite.suite())])[0]
}

fn configs(suite: SupportedCipherSuite, serves: bool) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    if serves { configs_of(own(suite), suite) } else { configs_of(suite, own(suite)) }
}

/// Returns configurations with the suite of each side.
fn configs_of(
    server: SupportedCipherSuite,
    client: SupportedCipherSuite,
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let provider = |suite| {
        let cipher_suites = vec![suite];
        Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
    };
    let versions = [server.version()];
    let server = ServerConfig::builder_with_provider(provider(server));
    let server = server.with_protocol_versions(&versions).expect("versions").with_no_client_auth();
    let chain = vec![OWN.0.clone()];
    let server = server.with_single_cert(chain, OWN.1.clone_key()).expect("a pair");
    let client = ClientConfig::builder_with_provider(provider(client));
    let client = client.with_protocol_versions(&versions).expect("versions").dangerous();
    let client = client.with_custom_certificate_verifier(Arc::new(Trusting)).with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

/// A peer of the library.
trait Peer {
    fn take_output(&mut self) -> Vec<u8>;
    /// Passes it encrypted bytes; returns the decrypted ones.
    fn give(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Error>;
    fn write(&mut self, bytes: &[u8]);
    fn update_keys(&mut self);
    fn close(&mut self);
}

impl<Data: SideData, P> Peer for P
where
    P: std::ops::DerefMut<Target = ConnectionCommon<Data>>,
{
    fn take_output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.wants_write() {
            self.write_tls(&mut bytes).expect("written");
        }
        bytes
    }

    fn give(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut received = Vec::new();
        while !bytes.is_empty() {
            self.read_tls(&mut bytes).expect("read");
            let state = self.process_new_packets()?;
            let start = received.len();
            received.resize(start + state.plaintext_bytes_to_read(), 0);
            self.reader().read_exact(&mut received[start..]).expect("the bytes");
        }
        Ok(received)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.set_buffer_limit(None);
        self.writer().write_all(bytes).expect("written");
    }

    fn update_keys(&mut self) {
        // TLS 1.2 has no such message.
        let _ = self.refresh_traffic_keys();
    }

    fn close(&mut self) {
        self.send_close_notify();
    }
}

fn feed<C: Library>(session: &mut Session<C>, bytes: &[u8]) {
    let input = session.input.room().expect("room");
    input.extend_from_slice(bytes);
    session.received();
}

fn output<C: Library>(session: &mut Session<C>) -> Vec<u8> {
    let bytes = session.output.pending().to_vec();
    session.output.sent(bytes.len());
    bytes
}

/// Completes a handshake, whose bytes arrive in parts of `part` bytes.
fn shake<C: Library>(session: &mut Session<C>, peer: &mut dyn Peer, part: usize) {
    for _ in 0..20 {
        for bytes in peer.take_output().chunks(part) {
            feed(session, bytes);
            session.handshake().expect("a handshake");
        }
        let progress = session.handshake().expect("a handshake");
        let bytes = output(session);
        peer.give(&bytes).expect("a handshake");
        if progress == Progress::Ready && bytes.is_empty() {
            session.input.rest();
            return;
        }
    }
    panic!("no end of the handshake");
}

/// One event of a connection. The bytes are on the wire until they are delivered.
#[derive(Clone, Debug)]
enum Event {
    PeerWrites(usize),
    PeerUpdatesKeys,
    /// The peer's bytes arrive in parts of this size, and are read with this room.
    Arrive(usize, usize),
    /// We write pieces of these sizes.
    Write(Vec<usize>),
}

/// What is wrong on the way.
#[derive(Clone, Debug, PartialEq)]
enum Fault {
    None,
    /// A bit of this byte (modulo the length) is changed in the last arrival.
    Flip(usize, u8),
    /// The last arrival ends before this byte.
    Cut(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let size = || prop_oneof![0..200_usize, 0..40_000_usize, Just(16_384)];
    prop_oneof![
        3 => size().prop_map(Event::PeerWrites),
        1 => Just(Event::PeerUpdatesKeys),
        3 => (prop_oneof![1..40_usize, 1..40_000_usize], 1..20_000_usize)
            .prop_map(|(part, room)| Event::Arrive(part, room)),
        3 => prop::collection::vec(size(), 1..4).prop_map(Event::Write),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        2 => Just(Fault::None),
        2 => (any::<usize>(), 0..8_u8).prop_map(|(at, bit)| Fault::Flip(at, bit)),
        1 => any::<usize>().prop_map(Fault::Cut),
    ]
}

/// Returns `count` bytes that differ from place to place.
fn data(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

/// Reads what has arrived, in vectors with this room.
fn open_all<C: Library>(
    session: &mut Session<C>,
    room: usize,
    received: &mut Vec<u8>,
) -> io::Result<()> {
    loop {
        let mut buffer = Vec::with_capacity(room);
        let count = session.open(&mut buffer)?;
        assert_eq!(count, buffer.len());
        received.extend_from_slice(&buffer);
        if count == 0 {
            return Ok(());
        }
    }
}

/// What both sides have sent and received.
#[derive(Default)]
struct Course {
    sent: usize,
    received: Vec<u8>,
    written: usize,
    /// The peer's bytes that are under way.
    wire: Vec<u8>,
}

impl Course {
    fn pass<C: Library>(
        &mut self,
        session: &mut Session<C>,
        peer: &mut dyn Peer,
        event: &Event,
    ) -> Result<(), TestCaseError> {
        match event {
            Event::PeerWrites(count) => {
                peer.write(&data(self.sent, *count));
                self.sent += count;
            }
            Event::PeerUpdatesKeys => peer.update_keys(),
            Event::Arrive(part, room) => {
                self.wire.extend(peer.take_output());
                for bytes in std::mem::take(&mut self.wire).chunks((*part).min(8192)) {
                    feed(session, bytes);
                    open_all(session, *room, &mut self.received).expect("valid records");
                    session.input.rest();
                }
                prop_assert_eq!(self.received.len(), self.sent);
                prop_assert!(session.input.is_empty() && !session.has_unread());
            }
            Event::Write(sizes) => self.write(session, peer, sizes)?,
        }
        Ok(())
    }

    fn write<C: Library>(
        &mut self,
        session: &mut Session<C>,
        peer: &mut dyn Peer,
        sizes: &[usize],
    ) -> Result<(), TestCaseError> {
        let all = data(self.written, sizes.iter().sum());
        let mut rest = &all[..];
        let mut pieces = Vec::new();
        for size in sizes {
            let (piece, others) = rest.split_at(*size);
            pieces.push(IoSlice::new(piece));
            rest = others;
        }
        let mut pieces = &mut pieces[..];
        IoSlice::advance_slices(&mut pieces, 0);
        let mut got = Vec::new();
        while !pieces.is_empty() {
            let sealed = session.seal(pieces).expect("sealed");
            prop_assert!(sealed > 0);
            got.extend(peer.give(&output(session)).expect("valid records"));
            IoSlice::advance_slices(&mut pieces, sealed);
        }
        prop_assert!(got == all);
        self.written += all.len();
        Ok(())
    }
}

/// Returns the place of a change that a receiver has to notice: the minor version of a record is ignored (RFC 8446
/// section 5.1), so the byte behind it takes its place.
fn noticed(wire: &[u8], at: usize) -> usize {
    let mut start = 0;
    while let Some([_, _, _, high, low]) = wire.get(start..).and_then(|rest| rest.first_chunk()) {
        if at == start + 2 {
            return at + 1;
        }
        start += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    at
}

fn run<C: Library>(
    session: &mut Session<C>,
    peer: &mut dyn Peer,
    events: &[Event],
    fault: &Fault,
) -> Result<(), TestCaseError> {
    let mut course = Course::default();
    for event in events {
        course.pass(session, peer, event)?;
    }
    let Course { sent, mut received, mut wire, .. } = course;
    peer.write(&data(sent, 1000));
    wire.extend(peer.take_output());
    let count = wire.len();
    match fault {
        Fault::None => {}
        Fault::Flip(at, bit) => {
            let at = noticed(&wire, at % count);
            wire[at] ^= 1 << bit;
        }
        Fault::Cut(at) => wire.truncate(at % count),
    }
    let mut result = Ok(());
    for bytes in wire.chunks(4096) {
        if result.is_ok() {
            feed(session, bytes);
            result = open_all(session, 4096, &mut received);
        }
    }
    prop_assert!(received == data(0, received.len()), "wrong bytes");
    match fault {
        Fault::None => {
            prop_assert!(result.is_ok() && received.len() == sent + 1000);
            prop_assert!(session.input.is_empty());
        }
        // What is missing is waited for: the end of the stream is then within a record, or at its end.
        Fault::Cut(_) => prop_assert!(result.is_ok() && received.len() < sent + 1000),
        Fault::Flip(..) => {
            // A length that has become larger lets us wait; all else is an error at once, and remains one.
            let waits = result.is_ok() && !session.input.is_empty();
            prop_assert!(waits || result.is_err());
            prop_assert!(received.len() < sent + 1000);
            if result.is_err() {
                prop_assert!(session.has_failed() && session.input.is_empty());
                prop_assert!(open_all(session, 10, &mut received).is_err());
                prop_assert!(session.seal(&[IoSlice::new(b"more")]).is_err());
                let alert = output(session);
                prop_assert!(alert.is_empty() || peer.give(&alert).is_err());
            }
        }
    }
    Ok(())
}

fn server(suite: usize) -> (Session<UnbufferedServerConnection>, ClientConnection) {
    let (server, client) = configs(SUITES[suite], true);
    let connection = UnbufferedServerConnection::new(server).expect("a connection");
    let session = Session::new(connection, Vec::new(), usize::MAX);
    (session, ClientConnection::new(client, name()).expect("a connection"))
}

fn client(suite: usize) -> (Session<UnbufferedClientConnection>, ServerConnection) {
    let (server, client) = configs(SUITES[suite], false);
    let connection = UnbufferedClientConnection::new(client, name()).expect("a connection");
    let session = Session::new(connection, Vec::new(), usize::MAX);
    (session, ServerConnection::new(server).expect("a connection"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever the splits, and with key updates in between, a peer's bytes are those it sent; a changed or missing
    /// byte never gives others.
    #[test]
    fn sessions_and_the_library_understand_each_other(
        suite in 0..SUITES.len(),
        serves in any::<bool>(),
        part in prop_oneof![1..64_usize, 64..4096_usize],
        events in prop::collection::vec(event(), 0..8),
        fault in fault(),
    ) {
        if serves {
            let (mut session, mut peer) = server(suite);
            shake(&mut session, &mut peer, part);
            run(&mut session, &mut peer, &events, &fault)?;
        } else {
            let (mut session, mut peer) = client(suite);
            shake(&mut session, &mut peer, part);
            run(&mut session, &mut peer, &events, &fault)?;
        }
    }
}

#[test]
fn idle_sessions_have_no_buffers() {
    for suite in 0..SUITES.len() {
        let (mut session, mut peer) = server(suite);
        shake(&mut session, &mut peer, 10_000);
        peer.write(b"request");
        let bytes = peer.take_output();
        let (first, rest) = bytes.split_at(9);
        feed(&mut session, first);
        session.input.rest();
        assert!(session.input.room().is_some_and(|input| input == first));
        feed(&mut session, rest);
        let mut buffer = Vec::with_capacity(100);
        assert_eq!(session.open(&mut buffer).expect("data"), 7);
        session.input.rest();
        session.seal(&[IoSlice::new(b"response")]).expect("sealed");
        assert_eq!(peer.give(&output(&mut session)).expect("data"), b"response");
        assert_eq!(session.output.spare(), 0, "no buffer");
        assert!(session.decrypted.is_empty());
    }
}

/// The records of a large write begin at aligned addresses, behind a small piece too.
#[test]
fn large_records_are_aligned() {
    let (mut session, mut peer) = server(0);
    shake(&mut session, &mut peer, 10_000);
    let (head, body) = (data(0, 300), data(300, 200_000));
    for (pieces, first) in [(vec![&body], 0), (vec![&head, &body], 300 + TLS13_BYTES)] {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let sealed = session.seal(&slices).expect("sealed");
        assert!((SEAL_BYTES_MAX - DATA_BYTES_MAX..=SEAL_BYTES_MAX).contains(&sealed), "{sealed}");
        let pending = session.output.pending();
        assert_eq!(pending[first..].as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(pending[first + 3..first + 5], (16_384_u16 - 5).to_be_bytes());
        assert_eq!(pending[first + 16_384..][..3], [23, 3, 3], "the next record");
        peer.give(&output(&mut session)).expect("valid records");
    }
}

/// A small size of records holds for small and large writes.
#[test]
fn records_have_the_size_that_is_set() {
    for (suite, overhead) in [(0, TLS13_BYTES), (3, TLS12_BYTES)] {
        let (mut session, mut peer) = server(suite);
        session.record_bytes_max = 59;
        shake(&mut session, &mut peer, 10_000);
        session.seal(&[IoSlice::new(&data(0, 150))]).expect("sealed");
        let bytes = output(&mut session);
        assert_eq!(bytes.len(), 150 + 3 * overhead);
        assert_eq!(peer.give(&bytes).expect("valid records"), data(0, 150));
    }
}

#[test]
fn closes_end_one_direction() {
    for suite in [0, 3] {
        let (mut session, mut peer) = server(suite);
        shake(&mut session, &mut peer, 10_000);
        peer.write(b"last");
        peer.close();
        let bytes = peer.take_output();
        feed(&mut session, &bytes);
        assert!(session.is_read_ready() && !session.is_idle());
        let mut buffer = Vec::with_capacity(100);
        assert_eq!(session.open(&mut buffer).expect("data"), 4);
        assert_eq!(session.open(&mut buffer).expect("the end"), 0);
        assert!(session.is_peer_closed() && session.is_read_ready());
        // The other direction stays open until we close it.
        session.seal(&[IoSlice::new(b"response")]).expect("sealed");
        session.close();
        session.close();
        let bytes = output(&mut session);
        assert_eq!(peer.give(&bytes).expect("data"), b"response");
        let state = peer.process_new_packets().expect("a close");
        assert!(state.peer_has_closed());
        assert!(session.seal(&[IoSlice::new(b"more")]).is_err());
        assert!(output(&mut session).is_empty(), "one close_notify");
    }
}
