//! Purges as they concern a tier: which of its objects are older than one. The cache itself needs a purge only until its own
//! files were compared with it; a tier has objects that no server sees for months, so their purges are remembered here.
//! Pure: no clock, no I/O.
//!
//! A purge concerns what was requested from the origin up to its moment. The time of the request is that of the server that
//! made it, so the moment is moved by [`SKEW_MILLIS`]: what was requested right behind a purge is not taken from the tier.
//! A soft purge is one as well: the origin has to be asked.
//!
//! The list is bounded. The oldest purge that has no room moves `floor`: no object that is older is used. What the requests of
//! clients invalidate has an own part, whose oldest entries are dropped without moving the floor: clients must not be able to
//! make all objects of a tier useless. An object that such an entry was about may be used again, as long as it is fresh.
//!
//! ```text
//! magic 8 | version u16 = 1 | reserved u16 | count u32 | floor u64 | checksum u64 of the rest
//! each: kind u8 | reserved u8 | length u32 | through u64 | bytes
//! ```

use std::collections::HashMap;

use tidegate_cache::{KeyHash, PURGE_TEXT_BYTES_MAX, Scope};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"\x89TGTPRG\n";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 32;
const ENTRY_BYTES: usize = 14;
const KIND_KEY: u8 = 0;
const KIND_PREFIX: u8 = 1;
const KIND_TAG: u8 = 2;
const KIND_INVALIDATED: u8 = 3;
const KIND_OWN_FLOOR: u8 = 4;

/// By how much the clocks of servers may differ, in milliseconds.
pub(crate) const SKEW_MILLIS: u64 = 2_000;
/// Purges by key that are remembered.
const KEYS_MAX: usize = 8 * 1024;
/// Keys that clients have invalidated and that are remembered; how many are left when there are more.
pub(super) const INVALIDATED_MAX: usize = 8 * 1024;
const INVALIDATED_KEPT: usize = INVALIDATED_MAX / 4 * 3;
/// Purges by prefix and tag that are remembered, and the bytes of their texts.
const SCOPES_MAX: usize = 1024;
const SCOPES_BYTES_MAX: usize = 512 * 1024;
/// Bytes of the largest list.
pub(super) const LIST_BYTES_MAX: usize = HEAD_BYTES
    + HASHES_MAX * (ENTRY_BYTES + 16)
    + SCOPES_MAX * ENTRY_BYTES
    + SCOPES_BYTES_MAX
    + ENTRY_BYTES;
/// Keys in the largest list.
const HASHES_MAX: usize = KEYS_MAX + INVALIDATED_MAX;

/// All purges of a cache that its tier has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Purges {
    /// Nothing that was requested up to this moment is used.
    floor: u64,
    /// As `floor`, for this server alone, which may have lost purges: only in its file, not in the bucket.
    own_floor: u64,
    keys: HashMap<[u8; 16], u64>,
    /// By main key, as `keys`.
    invalidated: HashMap<[u8; 16], u64>,
    /// In the order of [`place`], so that equal lists have equal bytes.
    scopes: Vec<(Scope, u64)>,
}

/// What a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TierPurge {
    /// The object under a main key, with its variants.
    Key(KeyHash),
    /// The same because of a request of a client, or of a response to it.
    Invalidated(KeyHash),
    Scope(Scope),
}

/// The properties of an object that purges concern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purgeable<'a> {
    /// Of the main key.
    pub main: &'a KeyHash,
    /// The text of the object's own key.
    pub key: &'a [u8],
    /// Separated by spaces.
    pub tags: &'a [u8],
    /// When it was requested from the origin, in Unix milliseconds.
    pub requested_at: u64,
}

impl Purges {
    /// Returns whether an object is newer than all purges that concern it.
    pub(crate) fn allow(&self, object: &Purgeable<'_>) -> bool {
        let is_newer = |through: u64| object.requested_at > through.saturating_add(SKEW_MILLIS);
        // `floor` 0: there never was a purge without room.
        let floor = self.floor.max(self.own_floor);
        (floor == 0 || is_newer(floor))
            && [&self.keys, &self.invalidated]
                .iter()
                .all(|known| known.get(&object.main.0).is_none_or(|through| is_newer(*through)))
            && self.scopes.iter().filter(|(_, through)| !is_newer(*through)).all(|(scope, _)| {
                !match scope {
                    Scope::Prefix(prefix) => object.key.starts_with(prefix),
                    Scope::Tag(tag) => {
                        object.tags.split(|byte| *byte == b' ').any(|word| word == &**tag)
                    }
                }
            })
    }

    /// Lets this server use nothing that was requested up to `through`, in Unix milliseconds.
    pub(super) fn add_own_floor(&mut self, through: u64) {
        self.own_floor = self.own_floor.max(through);
    }

    /// Returns the part that concerns all servers.
    pub(super) fn shared(&self) -> Purges {
        Purges { own_floor: 0, ..self.clone() }
    }

    /// Adds a purge of everything that was requested up to `through`, in Unix milliseconds.
    pub(crate) fn add(&mut self, purge: TierPurge, through: u64) {
        self.insert(purge, through);
        self.make_room();
    }

    /// Adds a purge; room is to be made behind the last one.
    fn insert(&mut self, purge: TierPurge, through: u64) {
        match purge {
            TierPurge::Key(hash) => {
                let known = self.keys.entry(hash.0).or_default();
                *known = through.max(*known);
            }
            TierPurge::Invalidated(hash) => {
                let known = self.invalidated.entry(hash.0).or_default();
                *known = through.max(*known);
            }
            TierPurge::Scope(Scope::Prefix(prefix)) if prefix.is_empty() => {
                self.floor = self.floor.max(through);
            }
            TierPurge::Scope(scope) if scope.text().len() > PURGE_TEXT_BYTES_MAX => {
                self.floor = self.floor.max(through);
            }
            TierPurge::Scope(scope) => {
                match self.scopes.binary_search_by(|(known, _)| place(known).cmp(&place(&scope))) {
                    Ok(at) => self.scopes[at].1 = through.max(self.scopes[at].1),
                    Err(at) => self.scopes.insert(at, (scope, through)),
                }
            }
        }
    }

    /// Adds all purges of another list.
    pub(super) fn merge(&mut self, other: &Purges) {
        self.floor = self.floor.max(other.floor);
        self.own_floor = self.own_floor.max(other.own_floor);
        for (hash, through) in &other.keys {
            self.insert(TierPurge::Key(KeyHash(*hash)), *through);
        }
        for (hash, through) in &other.invalidated {
            self.insert(TierPurge::Invalidated(KeyHash(*hash)), *through);
        }
        for (scope, through) in &other.scopes {
            self.insert(TierPurge::Scope(scope.clone()), *through);
        }
        self.make_room();
    }

    /// Removes what the floor has made superfluous, and moves it where there are too many purges: half of them go at a time,
    /// so that a list which is always full is not sorted for each purge.
    fn make_room(&mut self) {
        if self.keys.len() > KEYS_MAX {
            let mut times: Vec<u64> = self.keys.values().copied().collect();
            times.sort_unstable();
            self.floor = self.floor.max(times[times.len() / 2]);
        }
        if self.invalidated.len() > INVALIDATED_MAX {
            // The newest are the same on all servers that have the same ones.
            let place = |(hash, through): (&[u8; 16], &u64)| (*through, *hash);
            let mut places: Vec<_> = self.invalidated.iter().map(place).collect();
            let oldest = places.len() - INVALIDATED_KEPT;
            let oldest = *places.select_nth_unstable(oldest).1;
            self.invalidated.retain(|hash, through| (*through, *hash) >= oldest);
        }
        let bytes = |scopes: &[(Scope, u64)]| -> usize {
            scopes.iter().map(|(scope, _)| scope.text().len()).sum()
        };
        while self.scopes.len() > SCOPES_MAX || bytes(&self.scopes) > SCOPES_BYTES_MAX {
            let mut times: Vec<u64> = self.scopes.iter().map(|(_, through)| *through).collect();
            times.sort_unstable();
            self.floor = self.floor.max(times[times.len() / 2]);
            let floor = self.floor;
            self.scopes.retain(|(_, through)| *through > floor);
        }
        let floor = self.floor;
        if floor > 0 {
            self.keys.retain(|_, through| *through > floor);
            self.invalidated.retain(|_, through| *through > floor);
            self.scopes.retain(|(_, through)| *through > floor);
        }
    }

    /// Returns the number of purges.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.invalidated.len() + self.scopes.len() + usize::from(self.floor > 0)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut entry = |kind: u8, through: u64, text: &[u8]| {
            entries.extend_from_slice(&[kind, 0]);
            entries.extend_from_slice(&(text.len() as u32).to_le_bytes());
            entries.extend_from_slice(&through.to_le_bytes());
            entries.extend_from_slice(text);
        };
        // In order, so that equal lists have equal bytes.
        for (kind, known) in [(KIND_KEY, &self.keys), (KIND_INVALIDATED, &self.invalidated)] {
            let mut keys: Vec<_> = known.iter().collect();
            keys.sort_unstable();
            keys.into_iter().for_each(|(hash, through)| entry(kind, *through, hash));
        }
        for (scope, through) in &self.scopes {
            let kind = if matches!(scope, Scope::Tag(_)) { KIND_TAG } else { KIND_PREFIX };
            entry(kind, *through, scope.text());
        }
        let has_own = self.own_floor > 0;
        if has_own {
            entry(KIND_OWN_FLOOR, self.own_floor, b"");
        }
        let count = self.keys.len() + self.invalidated.len() + self.scopes.len();
        let count = (count + usize::from(has_own)) as u32;
        let mut out = Vec::with_capacity(HEAD_BYTES + entries.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&self.floor.to_le_bytes());
        // The floor is a part of what the checksum protects.
        entries.extend_from_slice(&self.floor.to_le_bytes());
        out.extend_from_slice(&xxh3_64(&entries).to_le_bytes());
        entries.truncate(entries.len() - 8);
        out.extend_from_slice(&entries);
        out
    }

    /// Decodes a list; `None` for bytes that `encode` did not make.
    pub(super) fn decode(bytes: &[u8]) -> Option<Purges> {
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let version = u16::from_le_bytes(head[8..10].try_into().ok()?);
        let count = u32::from_le_bytes(head[12..16].try_into().ok()?) as usize;
        let floor: [u8; 8] = head[16..24].try_into().ok()?;
        let sum = u64::from_le_bytes(head[24..32].try_into().ok()?);
        if head[..8] != MAGIC || version != VERSION || bytes.len() > LIST_BYTES_MAX {
            return None;
        }
        if xxh3_64(&[rest, floor.as_slice()].concat()) != sum {
            return None;
        }
        let mut purges = Purges { floor: u64::from_le_bytes(floor), ..Purges::default() };
        for _ in 0..count {
            let (entry, behind) = rest.split_at_checked(ENTRY_BYTES)?;
            let length = u32::from_le_bytes(entry[2..6].try_into().ok()?) as usize;
            let through = u64::from_le_bytes(entry[6..14].try_into().ok()?);
            let (text, behind) = behind.split_at_checked(length)?;
            rest = behind;
            let purge = match entry[0] {
                KIND_KEY => TierPurge::Key(KeyHash(text.try_into().ok()?)),
                KIND_INVALIDATED => TierPurge::Invalidated(KeyHash(text.try_into().ok()?)),
                KIND_PREFIX => TierPurge::Scope(Scope::Prefix(text.into())),
                KIND_TAG => TierPurge::Scope(Scope::Tag(text.into())),
                KIND_OWN_FLOOR if text.is_empty() => {
                    purges.add_own_floor(through);
                    continue;
                }
                _ => return None,
            };
            purges.insert(purge, through);
        }
        purges.make_room();
        rest.is_empty().then_some(purges)
    }
}

/// Returns what scopes are ordered by.
fn place(scope: &Scope) -> (bool, &[u8]) {
    (matches!(scope, Scope::Tag(_)), scope.text())
}

/// Checks, for fuzzers, that a decoded list is encoded and decoded to itself.
pub(super) fn fuzz(data: &[u8]) {
    if let Some(purges) = Purges::decode(data) {
        assert_eq!(Purges::decode(&purges.encode()), Some(purges));
    }
}
