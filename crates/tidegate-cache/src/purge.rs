//! Rules that make older entries stale or void at once, before their files are touched: by the beginning of
//! their key or by a tag in their metadata. Pure: no disk, no clock.
//!
//! A rule concerns responses that were requested from the origin up to its moment. An entry that is looked up
//! is compared with the rules that were added since it was last compared. A sweep of the whole cache makes
//! rules superfluous. The list is bounded, so that neither memory nor a lookup depends on the number of
//! purges.
//!
//! ```text
//! magic 8 | version u16 | reserved u16 | count u32 | checksum u64 of the rest
//! each: kind u8 | soft u8 | reserved u16 | length u32 | at u64 | through u64 | bytes
//! ```

use std::sync::Weak;

use xxhash_rust::xxh3::xxh3_64;

/// The most rules that are kept at a time.
pub const PURGE_RULES_MAX: usize = 1024;

/// Longest prefix or tag, in bytes.
pub const PURGE_TEXT_BYTES_MAX: usize = 64 * 1024;

const MAGIC: [u8; 8] = *b"\x89TGPURG\n";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 24;
const RULE_BYTES: usize = 24;

/// The entries that a purge concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Keys that begin with these bytes.
    Prefix(Box<[u8]>),
    /// Entries whose metadata contain this tag.
    Tag(Box<[u8]>),
}

/// The part of an entry's metadata that purges use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeMetadata<'m> {
    /// When it was requested from the origin, in Unix milliseconds: [`crate::Fill::started_at`].
    pub requested_at: u64,
    /// Tags, separated by spaces.
    pub tags: &'m [u8],
}

/// A reader of metadata; it returns `None` when they cannot be read, and such an entry is never served.
pub type MetadataReader = for<'m> fn(&'m [u8]) -> Option<PurgeMetadata<'m>>;

/// The result of the rules for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeEffect {
    Kept,
    /// Not fresh from this moment on, in Unix milliseconds.
    Stale(u64),
    Gone,
}

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub scope: Scope,
    /// Whether it makes entries stale instead of removing them.
    pub soft: bool,
    /// The moment of the purge, in Unix milliseconds.
    pub at: u64,
    /// The rule concerns responses that were requested up to this moment. It is not before `at`, and later
    /// than all earlier rules: a millisecond is long, and the order has to be right.
    pub through: u64,
    pub serial: u64,
    /// Alive as long as a fill is running that began before the rule.
    pub older_fills: Weak<()>,
}

/// There are [`PURGE_RULES_MAX`] rules already, or the text is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleRefused;

impl std::fmt::Display for RuleRefused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("too many purges, or too long a text")
    }
}

impl std::error::Error for RuleRefused {}

/// All rules, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    list: Vec<Rule>,
    serial: u64,
    latest: u64,
}

impl Rules {
    pub(crate) fn list(&self) -> &[Rule] {
        &self.list
    }

    /// Returns the number of the latest rule; 0: there never was one.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the latest moment of the rules: a later request is newer than all rules.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Adds a rule about all that was requested up to `asked`, and removes those that it makes superfluous.
    pub(crate) fn add(
        &mut self,
        scope: Scope,
        soft: bool,
        (now, asked): (u64, u64),
        older_fills: Weak<()>,
    ) -> Result<(), RuleRefused> {
        if scope.text().len() > PURGE_TEXT_BYTES_MAX {
            return Err(RuleRefused);
        }
        let covered = |rule: &Rule| (rule.soft || !soft) && scope.covers(&rule.scope);
        let kept = self.list.iter().filter(|rule| !covered(rule)).count();
        if kept >= PURGE_RULES_MAX {
            return Err(RuleRefused);
        }
        self.list.retain(|rule| !covered(rule));
        self.serial += 1;
        // Later than a request right after the rule before.
        self.latest = now.max(asked).max(self.latest + 1);
        let (through, serial) = (self.latest, self.serial);
        self.list.push(Rule { scope, soft, at: now, through, serial, older_fills });
        Ok(())
    }

    /// Removes the rules up to this one.
    pub(crate) fn drop_through(&mut self, serial: u64) {
        self.list.retain(|rule| rule.serial > serial);
    }

    /// Returns the number of the last rule, from the oldest on, before which no running fill began; 0: none.
    pub(crate) fn settled(&self) -> u64 {
        let settled = self.list.iter().take_while(|rule| rule.older_fills.strong_count() == 0);
        settled.last().map_or(0, |rule| rule.serial)
    }

    /// Returns the result of the rules behind `checked` for an entry.
    pub(crate) fn effect_on(
        &self,
        key: &[u8],
        bearing: PurgeMetadata<'_>,
        checked: u64,
    ) -> PurgeEffect {
        let newer = self.list.iter().rev().take_while(|rule| rule.serial > checked);
        let mut verdict = PurgeEffect::Kept;
        for rule in newer.filter(|rule| bearing.requested_at <= rule.through) {
            let fits = match &rule.scope {
                Scope::Prefix(prefix) => key.starts_with(prefix),
                Scope::Tag(tag) => words(bearing.tags).any(|word| word == &**tag),
            };
            match (fits, rule.soft) {
                (true, false) => return PurgeEffect::Gone,
                // The loop is from the newest to the oldest rule: the oldest moment counts.
                (true, true) => verdict = PurgeEffect::Stale(rule.at),
                (false, _) => {}
            }
        }
        verdict
    }

    /// Returns whether a fill whose head has not arrived yet may turn out to be purged.
    pub(crate) fn may_concern(&self, key: &[u8], requested_at: u64) -> bool {
        self.list.iter().filter(|rule| requested_at <= rule.through).any(|rule| match &rule.scope {
            Scope::Prefix(prefix) => key.starts_with(prefix),
            Scope::Tag(_) => true,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut rules = Vec::new();
        for rule in &self.list {
            let kind = matches!(rule.scope, Scope::Tag(_));
            rules.extend_from_slice(&[u8::from(kind), u8::from(rule.soft), 0, 0]);
            rules.extend_from_slice(&(rule.scope.text().len() as u32).to_le_bytes());
            rules.extend_from_slice(&rule.at.to_le_bytes());
            rules.extend_from_slice(&rule.through.to_le_bytes());
            rules.extend_from_slice(rule.scope.text());
        }
        let mut bytes = Vec::with_capacity(HEAD_BYTES + rules.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&(self.list.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&rules).to_le_bytes());
        bytes.extend_from_slice(&rules);
        bytes
    }

    /// Decodes rules; returns `None` for bytes that `encode` did not make.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Rules> {
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let version = u16::from_le_bytes(head[8..10].try_into().ok()?);
        let count = u32::from_le_bytes(head[12..16].try_into().ok()?) as usize;
        let sum = u64::from_le_bytes(head[16..24].try_into().ok()?);
        if head[..8] != MAGIC || version != VERSION || sum != xxh3_64(rest) {
            return None;
        }
        let mut rules = Rules::default();
        for _ in 0..count.min(PURGE_RULES_MAX) {
            let (head, behind) = rest.split_at_checked(RULE_BYTES)?;
            let length = u32::from_le_bytes(head[4..8].try_into().ok()?) as usize;
            let at = u64::from_le_bytes(head[8..16].try_into().ok()?);
            let through = u64::from_le_bytes(head[16..24].try_into().ok()?);
            let (text, behind) = behind.split_at_checked(length)?;
            rest = behind;
            let scope = match head[0] {
                0 => Scope::Prefix(text.into()),
                1 => Scope::Tag(text.into()),
                _ => return None,
            };
            rules.serial += 1;
            rules.latest = rules.latest.max(through);
            let (soft, serial) = (head[1] != 0, rules.serial);
            let older_fills = Weak::new();
            rules.list.push(Rule { scope, soft, at, through, serial, older_fills });
        }
        rest.is_empty().then_some(rules)
    }
}

impl Scope {
    /// Returns the prefix or the tag.
    pub fn text(&self) -> &[u8] {
        match self {
            Scope::Prefix(text) | Scope::Tag(text) => text,
        }
    }

    /// Returns whether this scope, added later, includes all of the other.
    fn covers(&self, other: &Scope) -> bool {
        match (self, other) {
            (Scope::Prefix(own), Scope::Prefix(other)) => other.starts_with(own),
            (Scope::Tag(own), Scope::Tag(other)) => own == other,
            (Scope::Prefix(own), Scope::Tag(_)) => own.is_empty(),
            (Scope::Tag(_), Scope::Prefix(_)) => false,
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Checks, for fuzzers, that decoded rules encode to the same bytes.
pub fn fuzz_purge_rules(data: &[u8]) {
    if let Some(rules) = Rules::decode(data) {
        let again = rules.encode();
        let decoded = Rules::decode(&again).map(|rules| rules.encode());
        assert_eq!(decoded, Some(again));
    }
}
