//! One cookie of the `Cookie` fields: `$cookie_NAME`.

#[cfg(test)]
mod tests;

use crate::connection::trim;
use crate::headers::{Headers, Known};

/// Returns the value of the first cookie of this name. Names are compared in any case, as in nginx. Cookies
/// are separated by `;` only; a comma belongs to the value.
pub fn find<'a>(headers: &'a Headers, name: &[u8]) -> Option<&'a [u8]> {
    headers.all(Known::Cookie).find_map(|field| find_in(field, name))
}

/// Returns the same within one field's value. It also works for the first pair of a `Set-Cookie` value.
pub fn find_in<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    field.split(|byte| *byte == b';').find_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        let found = trim(&pair[..equals]).eq_ignore_ascii_case(name);
        found.then(|| trim(&pair[equals + 1..]))
    })
}
