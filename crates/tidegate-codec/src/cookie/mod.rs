//! One cookie out of the `Cookie` fields: `$cookie_NAME`.

#[cfg(test)]
mod tests;

use crate::connection::trim;
use crate::headers::{Headers, Known};

/// The value of the first cookie of this name, in any case as nginx compares it. Cookies are
/// divided by `;` only; a comma belongs to the value.
pub fn find<'a>(headers: &'a Headers, name: &[u8]) -> Option<&'a [u8]> {
    headers.all(Known::Cookie).find_map(|field| find_in(field, name))
}

/// The same within one field's value; also right for a `Set-Cookie` value's first pair.
pub fn find_in<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    field.split(|byte| *byte == b';').find_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        let found = trim(&pair[..equals]).eq_ignore_ascii_case(name);
        found.then(|| trim(&pair[equals + 1..]))
    })
}
