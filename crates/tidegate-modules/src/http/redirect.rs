//! `Location` fields from texts of the configuration.

use tidegate_codec::Known;
use tidegate_core::{Exchange, error_page};

/// Clears the head and sets `Location`. A path becomes absolute if `absolute_redirect` is on; anything else is not
/// changed. Control bytes are encoded: a decoded line feed of the client's must not end the field.
pub(crate) fn set_location(x: &mut Exchange, place: &[u8]) {
    let clean = encoded_controls(place);
    if clean.starts_with(b"/") {
        error_page::redirect_headers(x, &clean);
        return;
    }
    x.clear_response();
    x.response.headers.set_known(Known::Location, &clean);
}

fn encoded_controls(place: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(place.len());
    for byte in place {
        match byte {
            0..b' ' | 0x7f => {
                let digits = [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]];
                out.extend_from_slice(&[b'%', digits[0], digits[1]]);
            }
            _ => out.push(*byte),
        }
    }
    out
}
