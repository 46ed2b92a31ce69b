//! The encrypter against the library's: an AEAD is deterministic, so equal input gives equal records.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const LENGTHS: [usize; 7] = [1, 2, 63, 64, 300, 16_362, 16_384];

/// Returns the library's and our encrypter with the same 32-byte key.
fn pair(library: SupportedCipherSuite) -> [Box<dyn MessageEncrypter>; 2] {
    let own = crate::suites::by_number(&[u16::from(library.suite())])[0];
    [library, own].map(|suite| {
        let aead = suite.tls13().expect("TLS 1.3").aead_alg;
        aead.encrypter(AeadKey::from([7; 32]), Iv::from([9; 12]))
    })
}

fn plain(typ: ContentType, data: &[u8]) -> OutboundPlainMessage<'_> {
    let version = ProtocolVersion::TLSv1_2;
    OutboundPlainMessage { typ, version, payload: OutboundChunks::Single(data) }
}

fn record(
    encrypter: &mut dyn MessageEncrypter,
    typ: ContentType,
    data: &[u8],
    seq: u64,
) -> Result<Vec<u8>, Error> {
    encrypter.encrypt(plain(typ, data), seq).map(OutboundOpaqueMessage::encode)
}

/// Encrypts a record of data into `output`, behind what the library writes by itself.
fn lend(
    output: &mut Output,
    encrypter: &mut dyn MessageEncrypter,
    data: &[u8],
    seq: u64,
    by_itself: &[u8],
) {
    let encrypt = |room: &mut [u8]| {
        let length = by_itself.len() + data.len() + RECORD_BYTES;
        if room.len() < length {
            return Err(length);
        }
        let bytes = [
            by_itself,
            &record(encrypter, ContentType::ApplicationData, data, seq).expect("a record"),
        ]
        .concat();
        room[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    };
    seal_into(output, data.len(), encrypt, |asked| Some(*asked)).expect("sealed");
}

#[test]
fn records_are_those_of_the_library() {
    for suite in [library::TLS13_AES_256_GCM_SHA384, library::TLS13_CHACHA20_POLY1305_SHA256] {
        let [mut library, mut own] = pair(suite);
        let mut seq = 0;
        for typ in [ContentType::ApplicationData, ContentType::Alert, ContentType::Handshake] {
            for length in LENGTHS {
                let data = vec![length as u8; length];
                let expected = record(&mut *library, typ, &data, seq).expect("a record");
                assert_eq!(record(&mut *own, typ, &data, seq).expect("a record"), expected);
                seq += 1;
            }
        }
        let mut output = Output::default();
        for length in LENGTHS {
            // More than the room at first, in the last cases.
            let by_itself = vec![1; length];
            let data = vec![length as u8; length];
            let expected = record(&mut *library, ContentType::ApplicationData, &data, seq);
            let before = output.pending().to_vec();
            lend(&mut output, &mut *own, &data, seq, &by_itself);
            let expected = [before, by_itself, expected.expect("a record")].concat();
            assert!(output.pending() == expected, "{length} bytes");
            seq += 1;
        }
    }
}

#[test]
fn no_sequence_number_is_used_twice() {
    for algorithm in [&AES_256_GCM, &CHACHA20_POLY1305] {
        let Ok(key) = Key::new(algorithm, AeadKey::from([7; 32])) else { panic!("no key") };
        let mut own = Encrypter { key, iv: Iv::from([9; 12]), next_seq: 0 };
        let data = ContentType::ApplicationData;
        for seq in [0, 1, 5, u64::MAX - 1] {
            record(&mut own, data, b"data", seq).expect("a record");
            for used in [0, seq] {
                assert!(record(&mut own, data, b"data", used).is_err(), "{used}");
                let mut output = Output::default();
                let again = |_: &mut [u8]| record(&mut own, data, b"data", used).map(|_| 0);
                assert!(seal_into(&mut output, 4, again, |_| None).is_err());
                assert!(output.is_empty());
            }
        }
        assert!(record(&mut own, data, b"data", u64::MAX).is_err(), "the last would repeat");
    }
}

/// A panic within the library ends the loan: the bytes of a connection never get to another one.
#[test]
fn loans_end_with_a_panic() {
    let [_, mut own] = pair(library::TLS13_AES_256_GCM_SHA384);
    let mut first = Output::default();
    lend(&mut first, &mut *own, b"first", 0, b"");
    let before = first.pending().to_vec();
    let fails = |_: &mut [u8]| -> Result<usize, ()> { panic!("in the library") };
    let caught = catch_unwind(AssertUnwindSafe(|| seal_into(&mut first, 10, fails, |()| None)));
    assert!(caught.is_err());
    assert_eq!(first.pending(), before);
    assert!(LENT.with_borrow(|lent| !lent.is_lent && lent.output.is_empty()));
    // Data outside of a loan is given to the library.
    let outside = record(&mut *own, ContentType::ApplicationData, b"outside", 1).expect("a record");
    assert_eq!(outside.len(), 7 + RECORD_BYTES);
    let mut second = Output::default();
    lend(&mut second, &mut *own, b"second", 2, b"");
    assert_eq!(second.pending().len(), 6 + RECORD_BYTES);
    assert_eq!(first.pending(), before);
}

/// An idle connection has no expanded keys; they are made again, and the records are the same.
#[test]
fn keys_are_expanded_while_they_are_used() {
    for suite in [library::TLS13_AES_256_GCM_SHA384, library::TLS13_CHACHA20_POLY1305_SHA256] {
        let own = crate::suites::by_number(&[u16::from(suite.suite())])[0];
        let aead = own.tls13().expect("TLS 1.3").aead_alg;
        let mut keys = Keys::default();
        keys.collect();
        let [mut library, mut encrypter] = pair(suite);
        let mut decrypter = aead.decrypter(AeadKey::from([7; 32]), Iv::from([9; 12]));
        keys.collect();
        for seq in 0..3 {
            let data = ContentType::ApplicationData;
            let expected = record(&mut *library, data, b"data", seq).expect("a record");
            let mut sealed = record(&mut *encrypter, data, b"data", seq).expect("a record");
            assert_eq!(sealed, expected);
            let message = InboundOpaqueMessage::new(
                data,
                ProtocolVersion::TLSv1_2,
                &mut sealed[HEADER_BYTES..],
            );
            let opened = decrypter.decrypt(message, seq).expect("it is right");
            assert_eq!((opened.typ, opened.payload), (data, &b"data"[..]));
            keys.rest();
        }
        let mut wrong = [0; 40];
        for length in [0, TAG_BYTES - 1, TAG_BYTES, 40] {
            let wrong = &mut wrong[..length];
            let typ = ContentType::ApplicationData;
            let message = InboundOpaqueMessage::new(typ, ProtocolVersion::TLSv1_2, wrong);
            assert!(decrypter.decrypt(message, 3).is_err(), "{length}");
        }
    }
}
