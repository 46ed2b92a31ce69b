//! Requests in the packets of SCGI and uwsgi. The response has a CGI head, see
//! [`crate::response::parse_cgi_response`].

#[cfg(test)]
mod tests;

/// Bytes before the content of a uwsgi packet.
const UWSGI_HEADER_BYTES: usize = 4;

/// Appends a pair of an SCGI request. Name and value end with a zero byte, so neither may contain one: a zero
/// byte in a value is written as a space.
pub fn scgi_pair(name: &[u8], out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name);
    out.push(0);
    let start = out.len();
    value(out);
    out[start..].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    out.push(0);
}

/// Makes a netstring of the bytes from `start` on.
pub fn scgi_close(out: &mut Vec<u8>, start: usize) {
    let length = format!("{}:", out.len().saturating_sub(start));
    out.splice(start..start, length.into_bytes());
    out.push(b',');
}

/// Appends a pair of a uwsgi packet.
///
/// A name or value of more than 65,535 bytes makes the packet too large: [`uwsgi_close`] reports that.
pub fn uwsgi_pair(name: &[u8], out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&uwsgi_length(name.len()));
    out.extend_from_slice(name);
    let place = out.len();
    out.extend_from_slice(&[0, 0]);
    value(out);
    let length = uwsgi_length(out.len() - place - 2);
    out[place..place + 2].copy_from_slice(&length);
}

fn uwsgi_length(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes()
}

/// Reserves room for a packet's header and returns its position.
pub fn uwsgi_open(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; UWSGI_HEADER_BYTES]);
    start
}

/// Writes the header of the packet that was opened at `start`.
///
/// # Errors
/// Returns the content's length when it is more than 65,535 bytes.
pub fn uwsgi_close(out: &mut [u8], start: usize, modifiers: (u8, u8)) -> Result<(), usize> {
    let length = out.len().saturating_sub(start + UWSGI_HEADER_BYTES);
    let [low, high] = u16::try_from(length).map_err(|_| length)?.to_le_bytes();
    let header = [modifiers.0, low, high, modifiers.1];
    out[start..start + UWSGI_HEADER_BYTES].copy_from_slice(&header);
    Ok(())
}
