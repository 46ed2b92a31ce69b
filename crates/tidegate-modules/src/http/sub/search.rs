//! Replaces several strings in a text that arrives in chunks.

/// A string and its replacement.
pub(super) struct Pair {
    /// In lower case, never empty.
    pub pattern: Vec<u8>,
    pub replacement: Vec<u8>,
}

/// The state of the replacements in one text.
pub(super) struct Replacer {
    /// Pairs that are still searched for, in the order of the configuration.
    pairs: Vec<Pair>,
    once: bool,
    /// Whether a byte begins a pattern, in either case.
    begins: Box<[bool; 256]>,
    /// The end of the received text, which may be the beginning of a match.
    held: Vec<u8>,
}

/// The result of matching at an offset of the text.
enum MatchResult {
    /// The pair of this index.
    Match(usize),
    /// The beginning of a pattern; more bytes decide.
    Maybe,
    Nothing,
}

impl Replacer {
    /// Makes a replacer; pairs with an empty pattern are dropped.
    pub(super) fn new(mut pairs: Vec<Pair>, once: bool) -> Replacer {
        pairs.retain_mut(|pair| {
            pair.pattern.make_ascii_lowercase();
            !pair.pattern.is_empty()
        });
        let mut replacer =
            Replacer { pairs, once, begins: Box::new([false; 256]), held: Vec::new() };
        replacer.index();
        replacer
    }

    /// Returns true if nothing is left to search for.
    pub(super) fn is_done(&self) -> bool {
        self.pairs.is_empty() && self.held.is_empty()
    }

    /// Appends `text` with its replacements; the end is held back where it may begin a match.
    pub(super) fn push(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if self.held.is_empty() {
            self.scan(text, false, out);
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(text);
            self.scan(&joined, false, out);
        }
    }

    /// Appends what was held back, at the end of the text.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        self.scan(&held, true, out);
    }

    fn scan(&mut self, text: &[u8], at_end: bool, out: &mut Vec<u8>) {
        let (mut copied, mut at) = (0, 0);
        while let Some(ahead) = self.next_candidate(&text[at..]) {
            at += ahead;
            match self.match_at(&text[at..], at_end) {
                MatchResult::Nothing => at += 1,
                MatchResult::Maybe => {
                    out.extend_from_slice(&text[copied..at]);
                    self.held.extend_from_slice(&text[at..]);
                    return;
                }
                MatchResult::Match(rank) => {
                    out.extend_from_slice(&text[copied..at]);
                    out.extend_from_slice(&self.pairs[rank].replacement);
                    at += self.pairs[rank].pattern.len();
                    copied = at;
                    if self.once {
                        self.pairs.remove(rank);
                        self.index();
                    }
                }
            }
        }
        out.extend_from_slice(&text[copied..]);
    }

    /// Returns the distance to the next byte that begins a pattern.
    fn next_candidate(&self, text: &[u8]) -> Option<usize> {
        if self.pairs.is_empty() {
            return None;
        }
        text.iter().position(|byte| self.begins[usize::from(*byte)])
    }

    fn match_at(&self, text: &[u8], at_end: bool) -> MatchResult {
        for (rank, pair) in self.pairs.iter().enumerate() {
            let common = text.len().min(pair.pattern.len());
            if !text[..common].eq_ignore_ascii_case(&pair.pattern[..common]) {
                continue;
            }
            if common == pair.pattern.len() {
                return MatchResult::Match(rank);
            }
            if !at_end {
                return MatchResult::Maybe;
            }
        }
        MatchResult::Nothing
    }

    fn index(&mut self) {
        self.begins.fill(false);
        for pair in &self.pairs {
            let first = pair.pattern.first().copied().unwrap_or_default();
            self.begins[usize::from(first.to_ascii_lowercase())] = true;
            self.begins[usize::from(first.to_ascii_uppercase())] = true;
        }
    }
}
