//! Commands: heads, bodies and trailer sections. What is to be sent on a request stream is appended to a buffer of the
//! caller, which passes it on to QUIC; the end of the stream (FIN) is the caller's as well.

use tidegate_fields::Priority;

use super::{Connection, OwnStream};
use crate::Fields;
use crate::error::SendError;
use crate::frame::{kind, write};
use crate::stream::{Sent, Stream};
use crate::varint;

impl Connection {
    /// Writes the final head of a response to `out`; `end` if neither body nor trailer section follows. `list` names the
    /// fields. Returns how many of them were left out as invalid ([`Fields`]).
    ///
    /// Insertions of the encoder may have been added to the output of [`OwnStream::Encoder`]: the caller sends that first.
    ///
    /// # Errors
    /// Nothing is written, and `list` is not called: the stream is closed, has a head, or `status` is not 200 to 999.
    pub fn respond(
        &mut self,
        stream: u64,
        status: u16,
        end: bool,
        out: &mut Vec<u8>,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<u32, SendError> {
        if !(200..=999).contains(&status) {
            return Err(SendError::Invalid);
        }
        let found = self.sendable_stream(stream)?;
        if found.sent == Sent::Head {
            return Err(SendError::Order);
        }
        found.sent = Sent::Head;
        let invalid = self.write_section(stream, out, |fields| {
            fields.status(status);
            list(fields);
        });
        self.message_sent(stream, end);
        Ok(invalid)
    }

    /// Writes an interim head, 100 to 199 but 101 (RFC 9114 section 4.5). Returns as [`Connection::respond`].
    ///
    /// # Errors
    /// Nothing is written: the stream is closed, has a final head, or the status is another.
    pub fn respond_interim(
        &mut self,
        stream: u64,
        status: u16,
        out: &mut Vec<u8>,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<u32, SendError> {
        if !matches!(status, 100 | 102..=199) {
            return Err(SendError::Invalid);
        }
        if self.sendable_stream(stream)?.sent == Sent::Head {
            return Err(SendError::Order);
        }
        Ok(self.write_section(stream, out, |fields| {
            fields.status(status);
            list(fields);
        }))
    }

    /// Writes a trailer section, which ends the message. Returns as [`Connection::respond`].
    ///
    /// # Errors
    /// Nothing is written: the stream is closed or has no head yet.
    pub fn send_trailers(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> Result<u32, SendError> {
        if self.sendable_stream(stream)?.sent != Sent::Head {
            return Err(SendError::Order);
        }
        let invalid = self.write_section(stream, out, list);
        self.message_sent(stream, true);
        Ok(invalid)
    }

    /// Writes the header of a DATA frame of `length` bytes, which the caller sends behind it from where they are; nothing
    /// for 0. The message ends behind them if `end` is set. How much may be sent is QUIC's to say.
    ///
    /// # Errors
    /// Nothing is written: the stream is closed or has no head yet, or `length` is above 2^62-1.
    pub fn send_data_header(
        &mut self,
        stream: u64,
        length: u64,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        if self.sendable_stream(stream)?.sent != Sent::Head {
            return Err(SendError::Order);
        }
        if length > varint::MAX {
            return Err(SendError::Invalid);
        }
        if length > 0 {
            write::header(out, kind::DATA, length);
            self.budgets.body(length);
        }
        self.message_sent(stream, end);
        Ok(())
    }

    /// Gives a request another priority, as a `priority` field of a response does (RFC 9218 section 8).
    pub fn prioritise(&mut self, stream: u64, priority: Priority) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.priority = priority;
        }
    }

    fn sendable_stream(&mut self, stream: u64) -> Result<&mut Stream, SendError> {
        match self.failed {
            Some(_) => Err(SendError::Closed),
            None => self.sendable(stream).ok_or(SendError::Closed),
        }
    }

    fn write_section(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        list: impl FnOnce(&mut Fields<'_>),
    ) -> u32 {
        let (lines, prefix) = &mut self.encoded;
        lines.clear();
        prefix.clear();
        self.encoder.begin(stream);
        let mut fields = Fields::new(&mut self.encoder, lines);
        list(&mut fields);
        let invalid = fields.invalid();
        self.encoder.finish(prefix);
        write::headers(out, prefix, lines);
        if self.encoder.has_output() {
            let [_, encoder, _] = &mut self.outputs;
            self.encoder.take_output(encoder.bytes(OwnStream::Encoder));
        }
        invalid
    }

    fn message_sent(&mut self, stream: u64, end: bool) {
        if end && let Some(found) = self.streams.get_mut(stream) {
            found.sent = Sent::Ended;
            self.budgets.message_sent();
        }
    }
}
