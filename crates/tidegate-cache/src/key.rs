//! A cache key: the full text that `proxy_cache_key` made, its MD5, and the path of the file of that hash
//! under the `levels` of `proxy_cache_path`.

use std::cell::RefCell;
use std::fmt;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest, Md5};

/// Longest key text that is stored, in bytes. A response of a longer key can be filled and followed, but not
/// stored.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// Number of keys that a thread remembers, and the longest text in bytes that is remembered: 100 kB in all
/// for common keys.
const REMEMBERED: usize = 512;
const REMEMBERED_BYTES_MAX: usize = 512;

thread_local! {
    static REMEMBERED_KEYS: RefCell<Vec<Option<Key>>> = const { RefCell::new(Vec::new()) };
}

/// Digits of a hash in hexadecimal form.
const HASH_DIGITS: usize = 32;

/// Least number of digits at the end of a temporary file's name; nginx uses ten as well.
const TEMPORARY_DIGITS_MIN: usize = 10;

/// MD5 of a key's text: file name and index key, as in nginx (`proxy_cache_path`).
/// Collisions of MD5 can be made on purpose, so a hash alone never decides which response is served: the key
/// text is compared with the one in the file, in the open entry and in the running fill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 16]);

impl KeyHash {
    /// Returns the 32 lower-case hexadecimal digits.
    pub fn hexadecimal(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(HASH_DIGITS);
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }

    /// Reads exactly 32 lower-case hexadecimal digits.
    pub fn from_hexadecimal(text: &str) -> Option<KeyHash> {
        let digits = text.as_bytes();
        if digits.len() != HASH_DIGITS {
            return None;
        }
        let mut hash = [0; 16];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit_value(pair[0])? << 4 | digit_value(pair[1])?;
        }
        Some(KeyHash(hash))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hexadecimal())
    }
}

/// A key: its hash and the text it was made from. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    hash: KeyHash,
    text: Arc<[u8]>,
}

impl Key {
    /// Makes the key of a text, such as the value of `proxy_cache_key`.
    pub fn new(text: impl Into<Arc<[u8]>>) -> Key {
        let text = text.into();
        let hash = KeyHash(Md5::digest(&text).into());
        Key { hash, text }
    }

    /// Makes the key of a text that is likely to be used again. The last keys of a thread are remembered,
    /// since a comparison of a text costs a fraction of its hash.
    pub fn of(text: &[u8]) -> Key {
        if text.len() > REMEMBERED_BYTES_MAX {
            return Key::new(text);
        }
        let slot = foldhash::fast::FixedState::default().hash_one(text) as usize % REMEMBERED;
        REMEMBERED_KEYS.with_borrow_mut(|keys| {
            if keys.is_empty() {
                keys.resize(REMEMBERED, None);
            }
            match &keys[slot] {
                Some(key) if key.text[..] == *text => key.clone(),
                _ => keys[slot].insert(Key::new(text)).clone(),
            }
        })
    }

    /// Makes a key with a given hash: for tests of colliding keys.
    #[doc(hidden)]
    pub fn with_hash(text: impl Into<Arc<[u8]>>, hash: KeyHash) -> Key {
        Key { hash, text: text.into() }
    }

    /// Returns the hash, which names the file.
    pub fn hash(&self) -> &KeyHash {
        &self.hash
    }

    /// Returns the full text, by which colliding keys are distinguished.
    pub fn text(&self) -> &Arc<[u8]> {
        &self.text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.hash, String::from_utf8_lossy(&self.text))
    }
}

/// `levels` of `proxy_cache_path`: up to three directories of one or two digits each, taken from the
/// end of the hash. None: all files lie in one directory.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Levels {
    widths: [u8; 3],
}

impl Levels {
    /// Makes levels of the given widths; returns `None` unless there are at most three, each 1 or 2.
    pub fn new(widths: &[u8]) -> Option<Levels> {
        if widths.len() > 3 || widths.iter().any(|width| !(1..=2).contains(width)) {
            return None;
        }
        let mut levels = Levels::default();
        levels.widths[..widths.len()].copy_from_slice(widths);
        Some(levels)
    }

    /// Parses the directive's form, such as `1:2`; returns `None` when it is malformed.
    pub fn parse(text: &str) -> Option<Levels> {
        let widths: Option<Vec<u8>> = text
            .split(':')
            .map(|part| match part {
                "1" => Some(1),
                "2" => Some(2),
                _ => None,
            })
            .collect();
        Levels::new(&widths?)
    }

    /// Returns the widths as numbers, 0 where there is no further directory.
    pub(crate) fn widths(&self) -> [u8; 3] {
        self.widths
    }

    /// Returns the number of directories between the cache's root and a file.
    pub fn depth(&self) -> usize {
        self.widths.iter().filter(|width| **width > 0).count()
    }

    /// Returns whether a directory with this name can be part of a cache at this depth (0 is below the root).
    pub fn is_directory(&self, depth: usize, name: &str) -> bool {
        depth < self.depth()
            && name.len() == usize::from(self.widths[depth])
            && name.bytes().all(|byte| digit_value(byte).is_some())
    }

    /// Returns the directory of a hash's file.
    pub fn directory(&self, root: &Path, hash: &KeyHash) -> PathBuf {
        let digits = hash.hexadecimal();
        let mut path = root.to_path_buf();
        let mut end = digits.len();
        for width in self.widths.iter().map(|width| usize::from(*width)).filter(|width| *width > 0)
        {
            path.push(&digits[end - width..end]);
            end -= width;
        }
        path
    }

    /// Returns the path of a hash's file.
    pub fn path(&self, root: &Path, hash: &KeyHash) -> PathBuf {
        self.directory(root, hash).join(hash.hexadecimal())
    }
}

/// Returns the name of the temporary file with this number, which [`is_temporary_name`] recognises.
pub(crate) fn temporary_name(hash: &KeyHash, number: u64) -> String {
    format!("{}.{number:010}", hash.hexadecimal())
}

/// Returns whether a file name is one that [`temporary_name`] makes.
pub(crate) fn is_temporary_name(name: &str) -> bool {
    name.split_once('.').is_some_and(|(hash, digits)| {
        KeyHash::from_hexadecimal(hash).is_some()
            && digits.len() >= TEMPORARY_DIGITS_MIN
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn digit_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
