//! The MD5-based crypt of Poul-Henning Kamp: `$1$` as of FreeBSD and glibc, `$apr1$` as of Apache.

use md5::{Digest, Md5};

/// Bytes of the longest salt; further bytes are ignored.
const SALT_BYTES_MAX: usize = 8;
const ROUNDS: usize = 1000;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Hashes a password with the scheme and salt of `like`; `None` if that is of another scheme.
pub(super) fn hash(password: &[u8], like: &str) -> Option<String> {
    let magic = ["$1$", "$apr1$"].into_iter().find(|magic| like.starts_with(magic))?;
    let salt = like[magic.len()..].split('$').next().unwrap_or_default();
    let salt = &salt.as_bytes()[..salt.len().min(SALT_BYTES_MAX)];
    let digest = stretched(password, salt, first(password, magic.as_bytes(), salt));
    let mut out = magic.as_bytes().to_vec();
    out.extend_from_slice(salt);
    out.push(b'$');
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        let group = [digest[high], digest[middle], digest[low]];
        encode(group.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)), 4, &mut out);
    }
    encode(digest[11].into(), 2, &mut out);
    String::from_utf8(out).ok()
}

fn first(password: &[u8], magic: &[u8], salt: &[u8]) -> [u8; 16] {
    let twice = Md5::new().chain_update(password).chain_update(salt).chain_update(password);
    let twice: [u8; 16] = twice.finalize().into();
    let mut sum = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for part in password.chunks(twice.len()) {
        sum.update(&twice[..part.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        sum.update(if bits & 1 == 1 { &[0] } else { &password[..1] });
        bits >>= 1;
    }
    sum.finalize().into()
}

fn stretched(password: &[u8], salt: &[u8], first: [u8; 16]) -> [u8; 16] {
    let mut digest = first;
    for round in 0..ROUNDS {
        let (front, back) =
            if round % 2 == 1 { (password, &digest[..]) } else { (&digest[..], password) };
        let mut sum = Md5::new().chain_update(front);
        if round % 3 != 0 {
            sum.update(salt);
        }
        if round % 7 != 0 {
            sum.update(password);
        }
        digest = sum.chain_update(back).finalize().into();
    }
    digest
}

/// Appends `count` characters of six bits each, the lowest bits first.
fn encode(mut word: u32, count: usize, out: &mut Vec<u8>) {
    for _ in 0..count {
        out.push(ALPHABET[(word & 63) as usize]);
        word >>= 6;
    }
}
