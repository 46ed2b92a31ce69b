//! Purges as entries of a stream of the engine. Pure.
//!
//! ```text
//! ID token RANDOM before TOKEN node NODE  [at MILLIS]  (KIND TEXT)…
//! ```
//! `before` is the token of the entry in front: entries are a chain, in which a missing one is seen. `at` is the moment of the
//! purges by the clock of the server that has carried them out first, for the lists of tiers alone. A kind is `key`,
//! `prefix` or `tag`, each with `-soft` where objects become stale, `stale` for all objects, or `begin`, which purges
//! nothing. What is not known, as it is of a later version, counts as `stale`.

use std::fmt;

use tidegate_cache::Scope;
use tidegate_store::Value;

/// Bytes of the longest entry that is sent. A longer one is sent as `stale`.
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// A number of a stream: milliseconds by the engine's clock, and a number within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId {
    pub(super) millis: u64,
    pub(super) number: u64,
}

/// A place in a stream: the entry up to which all have taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) id: EntryId,
    pub(super) token: Vec<u8>,
}

/// The objects that a purge concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PurgeWhat {
    /// One object with its variants.
    Key(Vec<u8>),
    Scope(Scope),
}

/// A purge, as all servers apply it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PurgeRule {
    pub(crate) what: PurgeWhat,
    /// Whether objects become stale instead of being removed.
    pub(crate) soft: bool,
    /// When it was carried out first, in Unix milliseconds, by the clock of the server that has; `None`: not known.
    pub(crate) at: Option<u64>,
}

/// The kind of the moment of all rules of an entry.
const AT: &[u8] = b"at";

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: Position,
    /// The token of the entry in front; empty for the first one.
    pub(super) before: Vec<u8>,
    /// The server that has applied it already; empty: none.
    pub(super) node: Vec<u8>,
    pub(super) rules: Vec<PurgeRule>,
}

impl PurgeRule {
    /// Returns the rule that makes all objects stale.
    pub(crate) fn everything_stale() -> PurgeRule {
        PurgeRule { what: PurgeWhat::Scope(Scope::Prefix(Box::default())), soft: true, at: None }
    }

    fn kind(&self) -> &'static str {
        match (&self.what, self.soft) {
            (PurgeWhat::Key(_), false) => "key",
            (PurgeWhat::Key(_), true) => "key-soft",
            (PurgeWhat::Scope(Scope::Prefix(_)), false) => "prefix",
            (PurgeWhat::Scope(Scope::Prefix(_)), true) => "prefix-soft",
            (PurgeWhat::Scope(Scope::Tag(_)), false) => "tag",
            (PurgeWhat::Scope(Scope::Tag(_)), true) => "tag-soft",
        }
    }

    fn text(&self) -> &[u8] {
        match &self.what {
            PurgeWhat::Key(key) => key,
            PurgeWhat::Scope(scope) => scope.text(),
        }
    }

    /// Reads a rule; `None`: it purges nothing.
    fn read(kind: &[u8], text: &[u8], at: Option<u64>) -> Option<PurgeRule> {
        let (name, soft) = match kind.strip_suffix(b"-soft") {
            Some(name) => (name, true),
            None => (kind, false),
        };
        let what = match name {
            b"begin" => return None,
            b"key" => PurgeWhat::Key(text.to_vec()),
            b"prefix" => PurgeWhat::Scope(Scope::Prefix(text.into())),
            b"tag" => PurgeWhat::Scope(Scope::Tag(text.into())),
            _ => return Some(PurgeRule::everything_stale()),
        };
        Some(PurgeRule { what, soft, at })
    }
}

/// Returns the fields of the rules of one purge: its moment, kinds and texts.
pub(super) fn fields(rules: &[PurgeRule]) -> Vec<Vec<u8>> {
    let bytes: usize = rules.iter().map(|rule| rule.text().len()).sum();
    if bytes > ENTRY_BYTES_MAX {
        return stale_fields();
    }
    let words = |rule: &PurgeRule| [rule.kind().as_bytes().to_vec(), rule.text().to_vec()];
    let at = rules.iter().find_map(|rule| rule.at);
    let at = at.into_iter().flat_map(|at| [AT.to_vec(), at.to_string().into_bytes()]);
    at.chain(rules.iter().flat_map(words)).collect()
}

/// Returns the fields of an entry about all objects.
pub(super) fn stale_fields() -> Vec<Vec<u8>> {
    vec![b"stale".to_vec(), Vec::new()]
}

impl EntryId {
    /// Reads `MILLIS-NUMBER`.
    pub(super) fn read(text: &[u8]) -> Option<EntryId> {
        let (millis, number) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(EntryId { millis: millis.parse().ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)
    }
}

impl Position {
    /// Returns the text that is kept beside the rules of a cache.
    pub(super) fn text(&self) -> Vec<u8> {
        [self.id.to_string().as_bytes(), b" ", &self.token].concat()
    }

    /// Reads such a text.
    pub(super) fn read(text: &[u8]) -> Option<Position> {
        let space = text.iter().position(|byte| *byte == b' ')?;
        let (id, token) = (EntryId::read(&text[..space])?, text[space + 1..].to_vec());
        (!token.is_empty()).then_some(Position { id, token })
    }

    /// Reads the reply of a script: an id and a token.
    pub(super) fn of(reply: &Value) -> Option<Position> {
        let [id, token] = reply.as_list()? else { return None };
        let (id, token) = (EntryId::read(id.as_text()?)?, token.as_text()?.to_vec());
        (!token.is_empty()).then_some(Position { id, token })
    }
}

impl Entry {
    /// Reads an entry of a stream; `None`: others have written it.
    fn read(value: &Value) -> Option<Entry> {
        let [id, fields] = value.as_list()? else { return None };
        let words: Option<Vec<&[u8]>> = fields.as_list()?.iter().map(Value::as_text).collect();
        let words = words?;
        let [b"token", token, b"before", before, b"node", node, ref rules @ ..] = words[..] else {
            return None;
        };
        if token.is_empty() || rules.len() % 2 != 0 {
            return None;
        }
        let (at, rules) = match rules {
            [AT, millis, rules @ ..] => (std::str::from_utf8(millis).ok()?.parse().ok(), rules),
            rules => (None, rules),
        };
        let rule = |rule: &[&[u8]]| PurgeRule::read(rule[0], rule[1], at);
        let rules = rules.chunks(2).filter_map(rule).collect();
        let at = Position { id: EntryId::read(id.as_text()?)?, token: token.to_vec() };
        Some(Entry { at, before: before.to_vec(), node: node.to_vec(), rules })
    }
}

/// Reads a list of entries; `None` among them is one that others have written.
pub(super) fn entries(value: &Value) -> Option<Vec<Option<Entry>>> {
    Some(value.as_list()?.iter().map(Entry::read).collect())
}

/// Reads the reply to `XREAD` about one stream, in both forms: a map, and a list of pairs. Nothing new is no entry.
pub(super) fn read_reply(value: &Value) -> Option<Vec<Option<Entry>>> {
    if *value == Value::Null {
        return Some(Vec::new());
    }
    match value.as_list()? {
        [Value::Text(_), list] => entries(list),
        [pair] => match pair.as_list()? {
            [Value::Text(_), list] => entries(list),
            _ => None,
        },
        _ => None,
    }
}

/// Reads bytes as a reply with entries, for fuzzers: what is read has a position that can be kept.
pub fn fuzz_purge_entries(data: &[u8]) {
    let mut decoder = tidegate_store::resp::Decoder::default();
    decoder.buffer().extend_from_slice(data);
    while let Ok(Some(reply)) = decoder.next_reply() {
        let lists = [entries(&reply), read_reply(&reply)];
        for entry in lists.into_iter().flatten().flatten().flatten() {
            assert_eq!(Position::read(&entry.at.text()).as_ref(), Some(&entry.at));
        }
    }
    let _ = Position::read(data);
}
