//! FastCGI 1.0: encoding of the records of a request, and decoding of an application's records.
//!
//! A connection has one request at a time, so its id is always 1 (section 3.3: multiplexing is the server's
//! choice).

mod decode;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, RecordError, STDERR_BYTES_MAX};

/// The most bytes of content in one record (section 3.3: the length is 16 bits).
pub const CONTENT_BYTES_MAX: usize = 65_535;

const VERSION: u8 = 1;
const REQUEST_ID: u8 = 1;
const HEADER_BYTES: usize = 8;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

const ROLE_RESPONDER: u8 = 1;
const FLAG_KEEP_CONN: u8 = 1;

/// Returns the record header of a piece of the request's body.
pub fn stdin_header(length: usize) -> [u8; HEADER_BYTES] {
    header(STDIN, length)
}

/// The record that ends the request's body.
pub const STDIN_END: [u8; HEADER_BYTES] = [VERSION, STDIN, 0, REQUEST_ID, 0, 0, 0, 0];

/// Returns a record header for at most `CONTENT_BYTES_MAX`.
fn header(kind: u8, length: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    [VERSION, kind, 0, REQUEST_ID, high, low, 0, 0]
}

/// A writer of the records before a request's body.
pub struct ParamsWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The offset of the content of the parameters.
    start: usize,
}

impl<'a> ParamsWriter<'a> {
    /// Begins a request. With `keep` the application is to leave the connection open afterwards.
    pub fn begin(keep: bool, out: &'a mut Vec<u8>) -> ParamsWriter<'a> {
        out.extend_from_slice(&header(BEGIN_REQUEST, HEADER_BYTES));
        let flags = if keep { FLAG_KEEP_CONN } else { 0 };
        out.extend_from_slice(&[0, ROLE_RESPONDER, flags, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&header(PARAMS, 0));
        let start = out.len();
        ParamsWriter { out, start }
    }

    /// Adds the pairs that `write` appends, see [`pair`].
    pub fn pairs(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.out);
    }

    /// Ends the parameters; the body's records follow.
    pub fn end(self) {
        let ParamsWriter { out, start } = self;
        let length = out.len() - start;
        if length > CONTENT_BYTES_MAX {
            let content = out.split_off(start);
            out.truncate(start - HEADER_BYTES);
            for piece in content.chunks(CONTENT_BYTES_MAX) {
                out.extend_from_slice(&header(PARAMS, piece.len()));
                out.extend_from_slice(piece);
            }
        } else if length > 0 {
            out[start - HEADER_BYTES..start].copy_from_slice(&header(PARAMS, length));
        } else {
            // The empty record that ends the parameters is present already.
            return;
        }
        out.extend_from_slice(&header(PARAMS, 0));
    }
}

/// Appends a name-value pair (section 3.4): lengths below 128 take one byte, others four.
pub fn pair(name: &[u8], out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    write_length(name.len(), out);
    let place = out.len();
    out.push(0);
    out.extend_from_slice(name);
    let start = out.len();
    value(out);
    let length = out.len() - start;
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out[place] = short,
        _ => {
            let long = long_length(length);
            out.splice(place..=place, long);
        }
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => out.extend_from_slice(&long_length(length)),
    }
}

fn long_length(length: usize) -> [u8; 4] {
    (u32::try_from(length).unwrap_or(u32::MAX) | 0x8000_0000).to_be_bytes()
}
