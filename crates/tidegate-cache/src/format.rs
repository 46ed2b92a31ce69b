//! The format of a cache file.
//!
//! ```text
//! 0   magic 8 | version u16 | reserved u16 | prefix length u32 | key hash 16
//! 32  key length u32 | slot capacity u32 | body start u64 | body length u64
//! 56  checksum u64 of the 56 bytes above and the key text
//! 64  key text
//!     slot A: head 56, metadata, padding to the capacity
//!     slot B: the same
//!     body
//!     checksum u64 of each 64 KiB of the body, to the end of the file
//! slot head: sequence u64 | created, valid until, updating until, error until u64
//!            metadata length u32 | reserved u32 | checksum u64 of the 48 bytes above and metadata
//! ```
//!
//! All numbers are little-endian. The commit writes everything before the body in one write, after the body:
//! a file without it is no cache file. The prefix (up to and with the key) never changes afterwards. Metadata
//! are renewed (after a revalidation) by a write of the slot that is *not* in use, with the next sequence
//! number. A reader at that moment, or after a crash in the middle, finds the checksum of that slot wrong and
//! takes the other one. When metadata outgrow the slot, the file is written anew.
//!
//! The checksums guard against torn and foreign files, not against forgery. Those of the body are compared
//! before it is served ([`crate::verify`]): after a power failure, file systems that order renames before
//! data leave a whole header before blocks of zeros.

use std::fmt;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key::{KEY_BYTES_MAX, Key, KeyHash};
use crate::sums::sums_bytes;
use crate::times::Times;

/// Longest metadata that are stored, in bytes (the response head as the caller encodes it).
pub const METADATA_BYTES_MAX: usize = 1 << 20;

pub(crate) const PREFIX_FIXED_BYTES: usize = 64;
const PREFIX_SUMMED_BYTES: usize = 56;
const SLOT_HEAD_BYTES: usize = 56;
const SLOT_SUMMED_BYTES: usize = 48;
const MAGIC: [u8; 8] = *b"\x89TGCACH\n";
const VERSION: u16 = 2;

/// Bytes that a slot has beyond its first metadata: a renewed head differs in a date or two.
const SLOT_SPARE_BYTES: usize = 128;
const SLOT_CAPACITY_MAX: usize = METADATA_BYTES_MAX + 2 * SLOT_SPARE_BYTES;

/// The reasons why bytes are not the beginning of a cache file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    /// More bytes are needed; the total number.
    Short(usize),
    /// Not a file of this format and version.
    Foreign,
    /// A checksum fails or lengths contradict each other.
    Torn,
}

impl fmt::Display for FormatError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Short(needed) => write!(formatter, "{needed} bytes are needed"),
            FormatError::Foreign => formatter.write_str("no cache file of this version"),
            FormatError::Torn => formatter.write_str("torn cache file"),
        }
    }
}

impl std::error::Error for FormatError {}

/// The positions in a file with a given key and slot capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub key_bytes: usize,
    pub slot_capacity: usize,
}

impl Layout {
    /// Returns the layout of a new file; `None` when key or metadata are too long to be stored.
    pub(crate) fn for_new(key: &Key, metadata: &[u8]) -> Option<Layout> {
        let key_bytes = key.text().len();
        if key_bytes > KEY_BYTES_MAX || metadata.len() > METADATA_BYTES_MAX {
            return None;
        }
        let slot_capacity = (metadata.len() + SLOT_SPARE_BYTES).next_multiple_of(64);
        Some(Layout { key_bytes, slot_capacity })
    }

    pub(crate) fn slot_start(&self, slot: usize) -> usize {
        PREFIX_FIXED_BYTES + self.key_bytes + slot * (SLOT_HEAD_BYTES + self.slot_capacity)
    }

    pub(crate) fn body_start(&self) -> usize {
        self.slot_start(2)
    }

    /// Returns the size of a whole file in bytes.
    pub(crate) fn file_bytes(&self, body_bytes: u64) -> u64 {
        let sums = sums_bytes(body_bytes);
        (self.body_start() as u64).saturating_add(body_bytes).saturating_add(sums)
    }
}

/// The beginning of a cache file, read and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub hash: KeyHash,
    pub key_text: Bytes,
    pub metadata: Bytes,
    pub times: Times,
    pub body_start: u64,
    pub body_bytes: u64,
    pub(crate) layout: Layout,
    pub(crate) slot: usize,
    pub(crate) sequence: u64,
}

impl Header {
    /// Reads the beginning of a file. `bytes` may reach into the body.
    ///
    /// Invariant: for any bytes, nothing outside of them is read, and no more bytes are requested
    /// ([`FormatError::Short`]) than the longest key and the largest slots take. The lengths of key and slots
    /// are compared with limits before they are added. Of two slots with correct checksums the one with the
    /// higher sequence number counts.
    pub(crate) fn parse(bytes: &Bytes) -> Result<Header, FormatError> {
        let fixed =
            bytes.get(..PREFIX_FIXED_BYTES).ok_or(FormatError::Short(PREFIX_FIXED_BYTES))?;
        if fixed[..8] != MAGIC || number_u16(fixed, 8) != VERSION {
            return Err(FormatError::Foreign);
        }
        let key_bytes = number_u32(fixed, 32) as usize;
        let slot_capacity = number_u32(fixed, 36) as usize;
        if key_bytes > KEY_BYTES_MAX || slot_capacity > SLOT_CAPACITY_MAX {
            return Err(FormatError::Torn);
        }
        let layout = Layout { key_bytes, slot_capacity };
        let body_start = layout.body_start();
        if bytes.len() < body_start {
            return Err(FormatError::Short(body_start));
        }
        let key_text = bytes.slice(PREFIX_FIXED_BYTES..PREFIX_FIXED_BYTES + key_bytes);
        let mut hash = [0; 16];
        hash.copy_from_slice(&fixed[16..32]);
        let hash = KeyHash(hash);
        let sum = checksum(&fixed[..PREFIX_SUMMED_BYTES], &key_text, &hash);
        // Body start and prefix length follow from the lengths above: a difference is damage.
        if number_u64(fixed, 56) != sum
            || number_u64(fixed, 40) != body_start as u64
            || number_u32(fixed, 12) as usize != PREFIX_FIXED_BYTES + key_bytes
        {
            return Err(FormatError::Torn);
        }
        let body_bytes = number_u64(fixed, 48);
        let slots = [parse_slot(bytes, &layout, 0, &hash), parse_slot(bytes, &layout, 1, &hash)];
        let newest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
        let Slot { slot, sequence, times, metadata } = newest.ok_or(FormatError::Torn)?;
        let body_start = body_start as u64;
        Ok(Header {
            hash,
            key_text,
            metadata,
            times,
            body_start,
            body_bytes,
            layout,
            slot,
            sequence,
        })
    }

    /// Returns the size in bytes of a whole file with this header; `None` when the numbers overflow.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        self.body_start.checked_add(self.body_bytes)?.checked_add(sums_bytes(self.body_bytes))
    }

    /// Returns the write that renews metadata in place: its offset and its bytes. `None` when they do not
    /// fit.
    pub(crate) fn renewal(&self, metadata: &[u8], times: Times) -> Option<(u64, Vec<u8>)> {
        if metadata.len() > self.layout.slot_capacity {
            return None;
        }
        let slot = 1 - self.slot;
        let mut bytes = Vec::with_capacity(SLOT_HEAD_BYTES + metadata.len());
        push_slot(&mut bytes, self.sequence.saturating_add(1), times, metadata, &self.hash);
        Some((self.layout.slot_start(slot) as u64, bytes))
    }
}

/// Encodes everything before the body of a new file.
pub(crate) fn encode(
    key: &Key,
    layout: Layout,
    metadata: &[u8],
    times: Times,
    body_bytes: u64,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(layout.body_start());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&((PREFIX_FIXED_BYTES + layout.key_bytes) as u32).to_le_bytes());
    bytes.extend_from_slice(&key.hash().0);
    bytes.extend_from_slice(&(layout.key_bytes as u32).to_le_bytes());
    bytes.extend_from_slice(&(layout.slot_capacity as u32).to_le_bytes());
    bytes.extend_from_slice(&(layout.body_start() as u64).to_le_bytes());
    bytes.extend_from_slice(&body_bytes.to_le_bytes());
    let sum = checksum(&bytes, key.text(), key.hash());
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(key.text());
    push_slot(&mut bytes, 1, times, metadata, key.hash());
    bytes.resize(layout.body_start(), 0);
    bytes
}

/// Checks that any input is either refused or describes itself consistently.
pub fn fuzz_header(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    match Header::parse(&bytes) {
        Ok(header) => {
            assert!(header.body_start <= input.len() as u64);
            assert!(header.metadata.len() <= header.layout.slot_capacity);
            if let Some((offset, slot)) = header.renewal(&header.metadata, header.times) {
                assert!(offset + slot.len() as u64 <= header.body_start);
            }
        }
        Err(FormatError::Short(needed)) => assert!(needed > input.len()),
        Err(FormatError::Foreign | FormatError::Torn) => {}
    }
}

struct Slot {
    slot: usize,
    sequence: u64,
    times: Times,
    metadata: Bytes,
}

/// Reads one slot; `None` when it is empty or torn. The caller has checked the length.
fn parse_slot(bytes: &Bytes, layout: &Layout, slot: usize, hash: &KeyHash) -> Option<Slot> {
    let start = layout.slot_start(slot);
    let head = bytes.get(start..start + SLOT_HEAD_BYTES)?;
    let sequence = number_u64(head, 0);
    let length = number_u32(head, 40) as usize;
    if sequence == 0 || length > layout.slot_capacity {
        return None;
    }
    let metadata = bytes.slice(start + SLOT_HEAD_BYTES..start + SLOT_HEAD_BYTES + length);
    if number_u64(head, 48) != checksum(&head[..SLOT_SUMMED_BYTES], &metadata, hash) {
        return None;
    }
    let times = Times {
        created: number_u64(head, 8),
        valid_until: number_u64(head, 16),
        updating_until: number_u64(head, 24),
        error_until: number_u64(head, 32),
    };
    Some(Slot { slot, sequence, times, metadata })
}

fn push_slot(bytes: &mut Vec<u8>, sequence: u64, times: Times, metadata: &[u8], hash: &KeyHash) {
    let start = bytes.len();
    for number in
        [sequence, times.created, times.valid_until, times.updating_until, times.error_until]
    {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    let sum = checksum(&bytes[start..], metadata, hash);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(metadata);
}

/// Returns the sum of two pieces. The hash is mixed in so that no slot is valid in another key's file.
fn checksum(first: &[u8], second: &[u8], hash: &KeyHash) -> u64 {
    let seed = xxh3_64_with_seed(&hash.0, first.len() as u64);
    xxh3_64_with_seed(second, xxh3_64_with_seed(first, seed))
}

fn number_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn number_u32(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn number_u64(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
