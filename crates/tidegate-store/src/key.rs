//! Names of records in the engine: a prefix, a kind, a zone, and a key of any bytes.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Bytes of the longest key that is written as it is. A longer one is written as its hash, so that keys of 64 KB cost the
/// engine no more than others.
const KEY_BYTES_MAX: usize = 128;

/// Appends the name of a record: `PREFIX KIND : ZONE : = KEY`, or `PREFIX KIND : ZONE : # HASH`.
///
/// Different zones and keys have different names: colons and percent signs of a zone are escaped, and the sign in front of a
/// key tells it from a hash.
pub fn write_key(out: &mut Vec<u8>, prefix: &str, kind: &str, zone: &str, key: &[u8]) {
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.push(b':');
    for byte in zone.bytes() {
        match byte {
            b':' => out.extend_from_slice(b"%3A"),
            b'%' => out.extend_from_slice(b"%25"),
            byte => out.push(byte),
        }
    }
    out.push(b':');
    if key.len() <= KEY_BYTES_MAX {
        out.push(b'=');
        out.extend_from_slice(key);
        return;
    }
    out.push(b'#');
    out.extend_from_slice(hexadecimal(&Sha256::digest(key)).as_bytes());
}

/// Returns the digits of a hash.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::write_key;

    fn name(zone: &str, key: &[u8]) -> String {
        let mut out = Vec::new();
        write_key(&mut out, "tidegate:", "r", zone, key);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn names_are_different() {
        assert_eq!(name("a:b%", b"x y"), "tidegate:r:a%3Ab%25:=x y");
        assert_eq!(name("a", b""), "tidegate:r:a:=");
        let (long, other) = (name("a", &[b'x'; 65_535]), name("a", &[b'x'; 65_534]));
        assert!(long.starts_with("tidegate:r:a:#") && long.len() == 14 + 64, "{long}");
        assert_ne!(long, other);
        let hash = long.strip_prefix("tidegate:r:a:").unwrap_or_default();
        assert_ne!(name("a", hash.as_bytes()), long);
        assert_ne!(name("a:b", b"c"), name("a", b"b:c"));
    }
}
