//! One connection of the library with buffers of ours. It does no I/O: encrypted bytes are put into its input, and
//! taken from its output.
//!
//! ```text
//! socket → Input → library (decrypts in place) → caller's vector, or `decrypted` where it has no room
//! caller's slices → library → Output → socket
//! ```
//!
//! The library bounds what a peer can send without data: empty records and KeyUpdate messages (32 each in a row),
//! warnings (4), the length of a handshake message (64 KiB).

mod library;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::rc::Rc;

use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error, HandshakeKind, ProtocolVersion};

use crate::aead::{self, Keys};
use crate::buffers::{ALIGNMENT, Decrypted, Input, Output};
use crate::error::{alert_for, plain_alert};
pub(crate) use library::Library;

/// A connection of the library and its buffers, which hold memory only while bytes are in them.
///
/// Invariant: after a failure the library is not given another byte: it does not remember every failure itself.
pub(crate) struct Session<C: Library> {
    connection: C,
    pub(crate) input: Input,
    pub(crate) output: Output,
    decrypted: Decrypted,
    failure: Option<Box<Error>>,
    keys: Keys,
    /// Whether the handshake is incomplete; `None` unless data has arrived before its end (RFC 8446 section 2.3).
    early: Option<Rc<Cell<bool>>>,
    /// The most bytes of data in a record.
    record_bytes_max: usize,
    /// `input` has bytes that the library has not seen.
    is_unseen: bool,
    is_peer_closed: bool,
    is_closed: bool,
}

/// How far the library came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Data was decrypted; there may be more in the input.
    Data,
    /// The handshake needs more bytes.
    Blocked,
    /// The handshake is over, and all input is processed that is complete.
    Ready,
    /// Both sides have closed.
    Closed,
}

/// Most bytes of data in a record whose encrypted length is 16 KiB with TLS 1.3: so records that follow each other
/// keep the alignment of the first.
pub const DATA_BYTES_MAX: usize = 16 * 1024 - TLS13_BYTES;
/// What a record of TLS 1.3 adds to its data.
const TLS13_BYTES: usize = aead::RECORD_BYTES;
/// Header, nonce and tag (RFC 5288 section 3); ChaCha20 has 8 bytes less.
const TLS12_BYTES: usize = 5 + 8 + 16;
/// Data that is encrypted in one call, bytes: the output holds it.
const SEAL_BYTES_MAX: usize = 4 * DATA_BYTES_MAX;
/// Pieces of less than this are joined to one record, bytes.
const JOIN_BYTES_MAX: usize = 2 * 1024;
/// Room that is not used in an output buffer, for what the library adds.
const SPARE_BYTES: usize = 1024;

impl<C: Library> Session<C> {
    /// Makes a session of a new connection, for which `input` has been received already. Its records have at most
    /// `record_bytes_max` bytes of data.
    pub(crate) fn new(connection: C, input: Vec<u8>, record_bytes_max: usize) -> Session<C> {
        Session {
            connection,
            is_unseen: !input.is_empty(),
            input: Input::new(input),
            output: Output::default(),
            decrypted: Decrypted::default(),
            failure: None,
            keys: Keys::default(),
            early: None,
            record_bytes_max: record_bytes_max.clamp(1, DATA_BYTES_MAX),
            is_peer_closed: false,
            is_closed: false,
        }
    }

    /// Returns what the library knows of the connection.
    pub(crate) fn common(&self) -> &CommonState {
        self.connection.common()
    }

    /// Returns whether the handshake is incomplete, as it changes, for a session whose data began before its end.
    pub(crate) fn early(&self) -> Option<Rc<Cell<bool>>> {
        self.early.clone()
    }

    /// Processes the input until the handshake is over or blocked. Data that arrived behind it is kept. Early data ends
    /// it as well: a response need not wait for the rest, which is processed as the session is read.
    ///
    /// # Errors
    /// The handshake failed; the output has the alert.
    pub(crate) fn handshake(&mut self) -> Result<Progress, Error> {
        loop {
            match self.advance(None, &mut |_, _| Ok(()))? {
                Progress::Data => {}
                // Settings with early data let the library write before the client's last message.
                Progress::Ready if self.early.is_none() && self.common().is_handshaking() => {
                    return Ok(Progress::Blocked);
                }
                progress => return Ok(progress),
            }
        }
    }

    /// Notes that bytes were put into the input.
    pub(crate) fn received(&mut self) {
        self.is_unseen = true;
    }

    /// Decrypts what has arrived into a vector's spare capacity, as far as it has room; returns the number of bytes.
    ///
    /// # Errors
    /// The peer has sent something other than valid records, or an alert. An error behind bytes is returned by the
    /// next call.
    pub(crate) fn open(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let start = buffer.len();
        self.decrypted.take(buffer);
        while buffer.len() < buffer.capacity() && self.is_unseen {
            match self.advance(Some(&mut *buffer), &mut |_, _| Ok(())) {
                Ok(Progress::Data) => {}
                Ok(_) => break,
                Err(_) if buffer.len() > start => break,
                Err(error) => return Err(invalid(error)),
            }
        }
        if buffer.len() == start && !self.is_unseen {
            self.check()?;
        }
        Ok(buffer.len() - start)
    }

    /// As [`Session::open`], into a slice.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub(crate) fn open_slice(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.decrypted.is_empty() {
            self.open_ahead()?;
        }
        Ok(self.decrypted.take_slice(buffer))
    }

    /// Decrypts the next data that has arrived, and keeps it.
    fn open_ahead(&mut self) -> io::Result<()> {
        while self.decrypted.is_empty() && self.is_unseen {
            match self.advance(None, &mut |_, _| Ok(())) {
                Ok(Progress::Data) => {}
                Ok(_) => break,
                Err(error) => return Err(invalid(error)),
            }
        }
        if self.decrypted.is_empty() { self.check() } else { Ok(()) }
    }

    /// Returns whether reading would return something without further input: data, the end, or an error.
    pub(crate) fn is_read_ready(&mut self) -> bool {
        !self.decrypted.is_empty()
            || self.open_ahead().is_err()
            || !self.decrypted.is_empty()
            || self.is_peer_closed
    }

    /// Returns whether the peer has closed with close_notify.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.is_peer_closed
    }

    /// Returns whether decrypted data, or input that may contain some, waits for a reader.
    pub(crate) fn has_unread(&self) -> bool {
        !self.decrypted.is_empty() || self.is_unseen
    }

    /// Returns whether it has failed; then it can only be dropped.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns whether nothing waits to be read or sent but what the socket has, and neither side has failed or
    /// closed.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_unread()
            && self.output.is_empty()
            && !self.is_peer_closed
            && !self.is_closed
            && !self.has_failed()
    }

    /// Frees what an idle connection does not need, until it is busy again.
    pub(crate) fn rest(&self) {
        self.keys.rest();
    }

    fn check(&self) -> io::Result<()> {
        self.failure.as_deref().map_or(Ok(()), |error| Err(invalid(error.clone())))
    }

    /// Encrypts pieces of data into the output; returns how many bytes of them.
    ///
    /// # Errors
    /// The session has failed, or has been closed.
    pub(crate) fn seal(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let record_bytes_max = self.record_bytes_max;
        let version = self.common().protocol_version();
        let is_tls13 = version == Some(ProtocolVersion::TLSv1_3);
        let mut sealed = 0;
        let mut write = |traffic: &mut WriteTraffic<'_, C::Data>, output: &mut Output| {
            sealed = seal_pieces(traffic, output, pieces, record_bytes_max, is_tls13)?;
            Ok(())
        };
        self.until_ready(&mut write)?;
        Ok(sealed)
    }

    /// Puts close_notify into the output, once. Nothing can be encrypted behind it.
    pub(crate) fn close(&mut self) {
        if self.is_closed || self.has_failed() {
            return;
        }
        self.is_closed = true;
        let _ = self.until_ready(&mut |traffic, output| {
            put(output, SPARE_BYTES, |room| traffic.queue_close_notify(room))
        });
    }

    /// Advances to the state in which data can be encrypted, which `write` then does. Data that is decrypted on the
    /// way is kept; its amount is bounded by the input.
    fn until_ready(&mut self, write: &mut Write<'_, C>) -> io::Result<()> {
        loop {
            match self.advance(None, write).map_err(invalid)? {
                Progress::Data => {}
                Progress::Ready => return Ok(()),
                Progress::Blocked => return Err(io::ErrorKind::NotConnected.into()),
                Progress::Closed => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Lets the library go on until there is data, or nothing more to do. Data goes to `target` as far as that has
    /// room; control messages go to the output.
    fn advance(
        &mut self,
        mut target: Option<&mut Vec<u8>>,
        write: &mut Write<'_, C>,
    ) -> Result<Progress, Error> {
        if let Some(error) = &self.failure {
            self.is_unseen = false;
            return Err((**error).clone());
        }
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process(self.input.filled());
            self.keys.collect();
            let mut take = |bytes: &[u8]| self.decrypted.put(bytes, target.as_deref_mut());
            let progress = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        take(record.payload);
                    }
                    Ok(Some(Progress::Data))
                }
                Ok(ConnectionState::ReadEarlyData(early)) => {
                    C::early_data(early, &mut take);
                    self.early.get_or_insert_with(|| Rc::new(Cell::new(true)));
                    Ok(Some(Progress::Data))
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, &mut self.output);
                    Ok(None)
                }
                // The output is sent by its owner.
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    transmit.done();
                    Ok(None)
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.is_peer_closed = true;
                    Ok(None)
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    write(&mut traffic, &mut self.output).map(|()| Some(Progress::Ready))
                }
                Ok(ConnectionState::BlockedHandshake) => Ok(Some(Progress::Blocked)),
                Ok(_) => Ok(Some(Progress::Closed)),
                Err(error) => Err(error),
            };
            self.input.discard(discard);
            if let Some(early) = &self.early {
                early.set(self.connection.common().is_handshaking());
            }
            if self.is_peer_closed {
                // What follows a closure alert is ignored (RFC 8446 section 6.1).
                self.input.clear();
            }
            self.is_unseen = matches!(progress, Ok(Some(Progress::Data))) && !self.input.is_empty();
            match progress {
                Ok(Some(progress)) => return Ok(progress),
                Ok(None) => {}
                Err(error) => {
                    self.fail(error.clone());
                    return Err(error);
                }
            }
        }
    }

    /// Returns whether this side has encrypted nothing yet.
    fn is_plain(&self) -> bool {
        let common = self.common();
        match common.protocol_version() {
            None => true,
            Some(ProtocolVersion::TLSv1_2) => {
                C::FINISHES_TLS12
                    && common.is_handshaking()
                    && common.handshake_kind() == Some(HandshakeKind::Full)
            }
            Some(_) => false,
        }
    }

    /// Remembers a failure, and puts the alert for it into the output: the library's, or one of ours while nothing is
    /// encrypted.
    fn fail(&mut self, error: Error) {
        let alert = alert_for(&error).filter(|_| !self.common().wants_write() && self.is_plain());
        self.failure = Some(Box::new(error));
        if let Some(alert) = alert {
            self.output.insert(usize::MAX, &plain_alert(alert));
        }
        while self.connection.common().wants_write() {
            match self.connection.process(self.input.filled()).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, &mut self.output);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while traffic.next_record().is_some() {}
                }
                _ => break,
            }
        }
        self.input.clear();
    }
}

/// Encrypts data, where that is possible.
type Write<'a, C> =
    dyn FnMut(&mut WriteTraffic<'_, <C as Library>::Data>, &mut Output) -> Result<(), Error> + 'a;

/// Encrypts pieces, each in records of its own unless all are small; returns how many bytes of them.
fn seal_pieces<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    output: &mut Output,
    pieces: &[IoSlice<'_>],
    record_bytes_max: usize,
    is_tls13: bool,
) -> Result<usize, Error> {
    let overhead = if is_tls13 { TLS13_BYTES } else { TLS12_BYTES };
    let total = pieces.iter().map(|piece| piece.len()).sum();
    if total <= JOIN_BYTES_MAX.min(record_bytes_max) && pieces.len() > 1 {
        let mut joined = [0; JOIN_BYTES_MAX];
        let mut end = 0;
        for piece in pieces {
            joined[end..end + piece.len()].copy_from_slice(piece);
            end += piece.len();
        }
        return seal_record(traffic, output, &joined[..end], is_tls13).map(|()| total);
    }
    // A small piece ends where the records behind it are aligned.
    let mut filled = pieces.iter().filter(|piece| !piece.is_empty());
    let first = filled.next().map_or(0, |piece| piece.len());
    let is_small = first < JOIN_BYTES_MAX && filled.next().is_some();
    output.align(if is_small { first + overhead } else { 0 });
    let record_bytes = match record_bytes_max + overhead {
        small @ ..JOIN_BYTES_MAX => small - overhead,
        length => length / ALIGNMENT * ALIGNMENT - overhead,
    };
    let mut sealed = 0;
    for part in pieces.iter().flat_map(|piece| piece.chunks(record_bytes)) {
        let fits = part.len() + SPARE_BYTES <= output.spare();
        if sealed > 0 && (!fits || sealed + part.len() > SEAL_BYTES_MAX) {
            break;
        }
        seal_record(traffic, output, part, is_tls13)?;
        sealed += part.len();
    }
    Ok(sealed)
}

fn seal_record<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    output: &mut Output,
    data: &[u8],
    is_tls13: bool,
) -> Result<(), Error> {
    let encrypt = |room: &mut [u8]| traffic.encrypt(data, room);
    if !is_tls13 {
        return put(output, data.len() + SPARE_BYTES, encrypt);
    }
    let asks = |error: &EncryptError| match error {
        EncryptError::InsufficientSize(size) => Some(size.required_size),
        EncryptError::EncryptExhausted => None,
    };
    let sealed = aead::seal_into(output, data.len(), encrypt, asks);
    sealed.map_err(|error| Error::General(error.to_string()))
}

/// Has `write` write to the output, at first with room for `expected` bytes.
fn put(
    output: &mut Output,
    expected: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), Error> {
    let mut room = expected;
    loop {
        match write(output.room(room)) {
            Ok(count) => {
                output.written(count);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(error) => return Err(Error::General(error.to_string())),
        }
    }
}

/// Puts a handshake message or an alert into the output.
fn encode<Data>(message: &mut EncodeTlsData<'_, Data>, output: &mut Output) {
    let mut room = SPARE_BYTES;
    loop {
        match message.encode(output.room(room)) {
            Ok(count) => return output.written(count),
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            // cannot fail otherwise: each message is encoded once
            Err(_) => return,
        }
    }
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
