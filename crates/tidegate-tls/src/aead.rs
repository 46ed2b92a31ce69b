//! Encryption of records of TLS 1.3 straight from a caller's bytes into the output.
//!
//! The library's own encrypter copies data behind a record's header, to an odd address, encrypts it there, and copies
//! the record to the output. This one is an extension point of the library ([`Tls13AeadAlgorithm`]): the library still
//! does handshakes, keys, their updates and limits, sequence numbers, and the splitting into records. Only the calls of
//! the cipher are made here, with the nonce of the library's sequence number. An idle connection keeps its keys as they
//! are, not expanded ([`Keys`]).
//!
//! Where the output is lent ([`seal_into`]), a record of data is written there, and the library gets an empty record
//! in its place, which is dropped. In all other cases (handshakes, alerts) the library gets the record.

mod key;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::aead::{self, AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305};
use rustls::crypto::aws_lc_rs::cipher_suite as library;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    Nonce, OutboundChunks, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls13AeadAlgorithm, UnsupportedOperationError, make_tls13_aad,
};
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    SupportedCipherSuite, Tls13CipherSuite,
};

use crate::buffers::Output;
use key::Key;
pub(crate) use key::Keys;

/// A record's header, content type and tag (RFC 8446 section 5.2).
pub(crate) const RECORD_BYTES: usize = HEADER_BYTES + TYPE_AND_TAG_BYTES;
const HEADER_BYTES: usize = 5;
const TYPE_AND_TAG_BYTES: usize = 1 + TAG_BYTES;
const TAG_BYTES: usize = 16;
/// Room for what the library writes by itself: a key update in front of a record, and empty records.
const ASIDE_BYTES: usize = 512;

/// Returns the suites of TLS 1.3, in the library's order of preference.
pub(crate) fn suites() -> [SupportedCipherSuite; 3] {
    // The library wants them for ever; they are made once.
    static SUITES: LazyLock<[SupportedCipherSuite; 3]> = LazyLock::new(|| {
        [
            suite(library::TLS13_AES_256_GCM_SHA384, &AES_256_GCM),
            suite(library::TLS13_CHACHA20_POLY1305_SHA256, &CHACHA20_POLY1305),
            suite(library::TLS13_AES_128_GCM_SHA256, &AES_128_GCM),
        ]
    });
    *SUITES
}

/// Returns a suite of the library with our encryption.
fn suite(library: SupportedCipherSuite, algorithm: &'static Algorithm) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = library else { return library };
    let aead = Aead { library: suite.aead_alg, algorithm };
    let common = CipherSuiteCommon {
        suite: suite.common.suite,
        hash_provider: suite.common.hash_provider,
        confidentiality_limit: suite.common.confidentiality_limit,
    };
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common,
        hkdf_provider: suite.hkdf_provider,
        aead_alg: Box::leak(Box::new(aead)),
        quic: suite.quic,
    })))
}

/// Lets `encrypt` encrypt data with a cipher of these suites, and puts the records into `output`. `data_bytes` is the
/// length of the data. `encrypt` is called again when `asks` reads from its error that it needs more room for records
/// which the library writes by itself.
///
/// # Errors
/// Those of `encrypt`.
pub(crate) fn seal_into<E>(
    output: &mut Output,
    data_bytes: usize,
    mut encrypt: impl FnMut(&mut [u8]) -> Result<usize, E>,
    asks: impl Fn(&E) -> Option<usize>,
) -> Result<(), E> {
    let mut wanted = data_bytes + RECORD_BYTES + ASIDE_BYTES;
    let start = output.pending().len();
    output.room(wanted);
    let mut aside = LENT.with_borrow_mut(|lent| std::mem::take(&mut lent.aside));
    let loan = Loan::new(output);
    let result = loop {
        // Only its length matters, beyond what the library writes by itself.
        if aside.len() < wanted {
            aside.resize(wanted, 0);
        }
        match encrypt(&mut aside) {
            Err(error) => match asks(&error).filter(|asked| *asked > wanted) {
                Some(asked) => wanted = asked,
                None => break Err(error),
            },
            result => break result,
        }
    };
    let records = loan.end();
    let own = result.map(|count| count.saturating_sub(records * HEADER_BYTES));
    if let Ok(count @ 1..) = own {
        // The library wrote it first, and it is sent first.
        output.insert(start, aside.get(..count).unwrap_or_default());
    }
    LENT.with_borrow_mut(|lent| lent.aside = aside);
    own.map(drop)
}

/// The output while a session encrypts data.
#[derive(Default)]
struct Lent {
    is_lent: bool,
    output: Output,
    /// Records written to it.
    records: usize,
    /// Where the library writes.
    aside: Vec<u8>,
}

thread_local! {
    static LENT: RefCell<Lent> = RefCell::default();
}

/// The loan of a session's output. It ends with a panic too: the thread serves other connections after one.
struct Loan<'a> {
    output: &'a mut Output,
}

impl<'a> Loan<'a> {
    fn new(output: &'a mut Output) -> Loan<'a> {
        LENT.with_borrow_mut(|lent| {
            lent.is_lent = true;
            lent.records = 0;
            std::mem::swap(&mut lent.output, output);
        });
        Loan { output }
    }

    /// Gives the output back; returns the number of records that were written to it.
    fn end(self) -> usize {
        LENT.with_borrow(|lent| lent.records)
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        LENT.with_borrow_mut(|lent| {
            lent.is_lent = false;
            std::mem::swap(&mut lent.output, self.output);
        });
    }
}

struct Aead {
    library: &'static dyn Tls13AeadAlgorithm,
    algorithm: &'static Algorithm,
}

impl Tls13AeadAlgorithm for Aead {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        match Key::new(self.algorithm, key) {
            Ok(key) => Box::new(Encrypter { key, iv, next_seq: 0 }),
            // cannot happen: the library makes keys of `key_len` bytes
            Err(key) => self.library.encrypter(key, iv),
        }
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        match Key::new(self.algorithm, key) {
            Ok(key) => Box::new(Decrypter { key, iv }),
            // cannot happen, likewise
            Err(key) => self.library.decrypter(key, iv),
        }
    }

    fn key_len(&self) -> usize {
        self.library.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.library.extract_keys(key, iv)
    }
}

/// The cipher with one key.
///
/// Invariant: the sequence numbers of its records increase, so no nonce is used twice. The library counts them, and
/// makes an encrypter for each key; a number that was used is refused here as well.
struct Encrypter {
    key: Arc<Key>,
    iv: Iv,
    /// The lowest sequence number of the next record.
    next_seq: u64,
}

impl Encrypter {
    /// Writes the encrypted record behind its header: `sealed` has the length of the data, `tag` that of type and tag.
    fn seal(
        &self,
        seq: u64,
        data: &[u8],
        content_type: ContentType,
        sealed: &mut [u8],
        tag: &mut [u8],
    ) -> Result<(), Error> {
        let nonce = aead::Nonce::assume_unique_for_key(Nonce::new(&self.iv, seq).0);
        let aad = Aad::from(make_tls13_aad(data.len() + TYPE_AND_TAG_BYTES));
        let content_type = [u8::from(content_type)];
        let result = self.key.with(|key| {
            key.seal_out_of_place_scatter(nonce, aad, data, sealed, &content_type, tag)
        });
        result.map_err(|_| Error::EncryptError)
    }

    /// Encrypts data into the output, if that is lent; returns whether it was.
    fn seal_lent(&self, data: &[u8], seq: u64) -> Result<bool, Error> {
        LENT.with_borrow_mut(|lent| {
            if !lent.is_lent {
                return Ok(false);
            }
            let length = data.len() + RECORD_BYTES;
            let record = lent.output.room(length);
            // cannot fail: there is room
            let Some((header, rest)) = record.split_first_chunk_mut::<HEADER_BYTES>() else {
                return Ok(false);
            };
            let Some((sealed, rest)) = rest.split_at_mut_checked(data.len()) else {
                return Ok(false);
            };
            let Some((tag, _)) = rest.split_at_mut_checked(TYPE_AND_TAG_BYTES) else {
                return Ok(false);
            };
            // The header is what the cipher authenticates.
            *header = make_tls13_aad(data.len() + TYPE_AND_TAG_BYTES);
            self.seal(seq, data, ContentType::ApplicationData, sealed, tag)?;
            lent.output.written(length);
            lent.records += 1;
            Ok(true)
        })
    }
}

impl MessageEncrypter for Encrypter {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        seq: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        if seq < self.next_seq {
            return Err(Error::EncryptError);
        }
        self.next_seq = seq.checked_add(1).ok_or(Error::EncryptError)?;
        let version = ProtocolVersion::TLSv1_2;
        let record =
            |payload| OutboundOpaqueMessage::new(ContentType::ApplicationData, version, payload);
        if let (ContentType::ApplicationData, OutboundChunks::Single(data)) =
            (message.typ, &message.payload)
            && self.seal_lent(data, seq)?
        {
            return Ok(record(PrefixedPayload::with_capacity(0)));
        }
        let length = self.encrypted_payload_len(message.payload.len());
        let data = message.payload.to_vec();
        let mut payload = PrefixedPayload::with_capacity(length);
        // Bytes to be overwritten.
        payload.extend_from_slice(&data);
        payload.extend_from_slice(&[0; TYPE_AND_TAG_BYTES]);
        let (sealed, tag) = payload.as_mut().split_at_mut(data.len());
        self.seal(seq, &data, message.typ, sealed, tag)?;
        Ok(record(payload))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len + TYPE_AND_TAG_BYTES
    }
}

/// The cipher with one key, for records that were received.
struct Decrypter {
    key: Arc<Key>,
    iv: Iv,
}

impl MessageDecrypter for Decrypter {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        seq: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut message.payload;
        if payload.len() < TAG_BYTES {
            return Err(Error::DecryptError);
        }
        let nonce = aead::Nonce::assume_unique_for_key(Nonce::new(&self.iv, seq).0);
        let aad = Aad::from(make_tls13_aad(payload.len()));
        let opened =
            self.key.with(|key| key.open_in_place(nonce, aad, payload).map(|data| data.len()));
        let length = opened.map_err(|_| Error::DecryptError)?;
        payload.truncate(length);
        message.into_tls13_unpadded_message()
    }
}
