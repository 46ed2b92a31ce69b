//! The records that an application sends, decoded as they arrive.

use std::fmt;

use super::{END_REQUEST, HEADER_BYTES, REQUEST_ID, STDERR, STDOUT, VERSION};

/// Bytes of a request's error stream that are kept; the rest is dropped.
pub const STDERR_BYTES_MAX: usize = 64 * 1024;

/// The reason why a stream of records cannot be decoded further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// An unknown protocol version.
    Version(u8),
    /// A record of another request, with its id.
    RequestId(u16),
    /// A record of an unexpected type.
    Kind(u8),
    /// `END_REQUEST` with a body of another length than 8; the length.
    EndLength(u16),
    /// The application refuses the request: `protocolStatus` (section 5.5).
    Refused(u8),
}

impl fmt::Display for RecordError {
    /// Writes the error log's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Version(version) => {
                write!(f, "upstream sent unsupported FastCGI protocol version: {version}")
            }
            RecordError::RequestId(id) => {
                write!(f, "upstream sent unexpected FastCGI request id: {id}")
            }
            RecordError::Kind(kind) => {
                write!(f, "upstream sent invalid FastCGI record type: {kind}")
            }
            RecordError::EndLength(length) => {
                write!(f, "upstream sent FastCGI end of request with {length} bytes")
            }
            RecordError::Refused(status) => {
                let reason = match status {
                    1 => "it cannot multiplex connections",
                    2 => "it is overloaded",
                    3 => "it does not know the role of a responder",
                    _ => "it gives no known reason",
                };
                write!(f, "upstream refused the FastCGI request: {reason} ({status})")
            }
        }
    }
}

impl std::error::Error for RecordError {}

/// A decoder of records, in place: only the application's output remains in the buffer.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    padding: u8,
    /// Bytes of the error stream that were not taken yet.
    stderr: Vec<u8>,
    stderr_room: usize,
    /// Whether some of it has just been dropped.
    stderr_cut: bool,
    stdout_closed: bool,
    ended: bool,
    /// Whether bytes arrived behind the end.
    excess: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header {
        bytes: [u8; HEADER_BYTES],
        count: u8,
    },
    Stdout {
        left: u16,
    },
    Stderr {
        left: u16,
    },
    /// `protocolStatus` is the fifth byte.
    End {
        left: u16,
    },
    Padding,
    Over,
}

impl Default for State {
    fn default() -> State {
        State::Header { bytes: [0; HEADER_BYTES], count: 0 }
    }
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            state: State::default(),
            padding: 0,
            stderr: Vec::new(),
            stderr_room: STDERR_BYTES_MAX,
            stderr_cut: false,
            stdout_closed: false,
            ended: false,
            excess: false,
        }
    }
}

impl Decoder {
    /// Makes a decoder for the records of one request.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Decodes the bytes that were appended to `buffer` from `start` on and leaves only the output, from the
    /// returned position on. That is 0 if the buffer was not empty: the output follows the present bytes.
    /// Otherwise the output of the first record stays where it is, and is not moved over the record's header.
    ///
    /// States (FastCGI 1.0 section 3.3): `Header` → `Stdout`, `Stderr` or `End` by the record's type →
    /// `Padding`, if it has any → `Header`; behind the `END_REQUEST` record `Over`, where every further byte
    /// is excess. `write <= read` holds always: bytes move towards the front only, and each is moved once.
    ///
    /// # Errors
    /// The bytes are no records of this request. Only the output before the error is left.
    pub fn decode(&mut self, buffer: &mut Vec<u8>, start: usize) -> Result<usize, RecordError> {
        let (mut read, mut write) = (start, start);
        let mut begin = 0;
        let mut outcome = Ok(());
        while read < buffer.len() && outcome.is_ok() {
            let available = buffer.len() - read;
            let fitting = |left: u16| usize::from(left).min(available);
            match &mut self.state {
                State::Header { bytes, count } => {
                    bytes[usize::from(*count)] = buffer[read];
                    *count += 1;
                    read += 1;
                    if usize::from(*count) == HEADER_BYTES {
                        let header = *bytes;
                        outcome = self.begin(header);
                    }
                }
                State::Stdout { left } => {
                    let taken = fitting(*left);
                    *left -= taken as u16;
                    let over = *left == 0;
                    // The first output of an empty buffer stays in place, behind the header.
                    if write == 0 {
                        (begin, write) = (read, read);
                    } else {
                        buffer.copy_within(read..read + taken, write);
                    }
                    (read, write) = (read + taken, write + taken);
                    self.next_if(over);
                }
                State::Stderr { left } => {
                    let taken = fitting(*left);
                    *left -= taken as u16;
                    let over = *left == 0;
                    self.keep_stderr(&buffer[read..read + taken]);
                    read += taken;
                    self.next_if(over);
                }
                State::End { left } => {
                    let (status, over) = (buffer[read], *left == 1);
                    let is_status = *left == 4;
                    *left -= 1;
                    read += 1;
                    if is_status && status != 0 {
                        outcome = Err(RecordError::Refused(status));
                    }
                    self.ended |= over;
                    self.next_if(over);
                }
                State::Padding => {
                    let taken = fitting(u16::from(self.padding));
                    self.padding -= taken as u8;
                    read += taken;
                    self.next_if(self.padding == 0);
                }
                State::Over => {
                    self.excess = true;
                    read = buffer.len();
                }
            }
        }
        buffer.truncate(write);
        if outcome.is_err() {
            // An error has no position: the output then begins at 0.
            buffer.drain(..begin);
        }
        outcome.map(|()| begin)
    }

    /// Returns whether the application has ended the request.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether no output will follow.
    pub fn is_output_closed(&self) -> bool {
        self.ended || self.stdout_closed
    }

    /// Returns whether the request ended with its last byte: the connection can take another one.
    pub fn is_clean(&self) -> bool {
        matches!(self.state, State::Over) && !self.excess
    }

    /// Takes the bytes of the error stream since the last call; the flag is whether some were dropped.
    pub fn take_stderr(&mut self) -> (Vec<u8>, bool) {
        (std::mem::take(&mut self.stderr), std::mem::take(&mut self.stderr_cut))
    }

    /// Returns the bytes of the error stream that were not taken yet.
    pub fn stderr(&self) -> &[u8] {
        &self.stderr
    }

    fn begin(&mut self, header: [u8; HEADER_BYTES]) -> Result<(), RecordError> {
        let [version, kind, id_high, id_low, length_high, length_low, padding, _] = header;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let length = u16::from_be_bytes([length_high, length_low]);
        self.state = match kind {
            _ if (id_high, id_low) != (0, REQUEST_ID) => {
                return Err(RecordError::RequestId(u16::from_be_bytes([id_high, id_low])));
            }
            STDOUT => {
                self.stdout_closed |= length == 0;
                State::Stdout { left: length }
            }
            STDERR => State::Stderr { left: length },
            END_REQUEST if length == 8 => State::End { left: length },
            END_REQUEST => return Err(RecordError::EndLength(length)),
            _ => return Err(RecordError::Kind(kind)),
        };
        self.padding = padding;
        self.next_if(length == 0);
        Ok(())
    }

    /// Continues behind a record's content, or behind its padding.
    fn next_if(&mut self, over: bool) {
        if !over {
            return;
        }
        self.state = match (self.padding, self.ended) {
            (0, true) => State::Over,
            (0, false) => State::default(),
            _ => State::Padding,
        };
    }

    fn keep_stderr(&mut self, bytes: &[u8]) {
        let kept = self.stderr_room.min(bytes.len());
        self.stderr.extend_from_slice(&bytes[..kept]);
        self.stderr_cut |= kept < bytes.len() && self.stderr_room > 0;
        self.stderr_room -= kept;
    }
}
