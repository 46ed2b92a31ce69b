//! The parts of Protocol Buffers (encoding of version 3) that the server's own messages need: spans, and health checks.

/// Types of a field's value on the wire.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// Appends a field that is an integer.
pub fn integer(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | VARINT, out);
    varint(value, out);
}

/// Appends a field that is a number of 8 bytes.
pub fn fixed64(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field that is a number of 4 bytes.
pub fn fixed32(field: u64, value: u32, out: &mut Vec<u8>) {
    varint(field << 3 | FIXED32, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field that is bytes, a text or a message.
pub fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | BYTES, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Appends a field that is a message, which `write` makes.
pub fn message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(field, &inner, out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A value of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint.
    Integer(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
    /// A number of 4 or 8 bytes.
    Fixed(&'a [u8]),
}

/// The fields of a received message in their order, with their numbers.
#[derive(Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else { return None };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads the next field; `None` where there is none, or it is broken.
    pub fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            VARINT => Value::Integer(self.varint()?),
            FIXED64 => Value::Fixed(self.take(8)?),
            BYTES => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            FIXED32 => Value::Fixed(self.take(4)?),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    /// Ends at the first field that is broken.
    fn next(&mut self) -> Option<Self::Item> {
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        field
    }
}
