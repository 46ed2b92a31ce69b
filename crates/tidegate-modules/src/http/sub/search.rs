//! Finding and replacing several strings in a text that comes in pieces.

/// One string and what comes in its place.
pub(super) struct Pair {
    /// In lower case, never empty.
    pub pattern: Vec<u8>,
    pub replacement: Vec<u8>,
}

/// The state of one text's replacements.
pub(super) struct Replacer {
    /// Those that are still looked for, in the order of their rank.
    pairs: Vec<Pair>,
    once: bool,
    /// Which bytes begin a pattern, whatever their case.
    begins: Box<[bool; 256]>,
    /// The end of what has come, which may be the beginning of a match.
    held: Vec<u8>,
}

/// What stands at a place of the text.
enum Found {
    /// The pair of this rank.
    Match(usize),
    /// The beginning of a pattern that more bytes will decide about.
    Maybe,
    Nothing,
}

impl Replacer {
    /// Pairs whose pattern is empty are never found.
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

    /// True if nothing is looked for any more.
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

    /// Appends what was held back: the text has ended.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        self.scan(&held, true, out);
    }

    fn scan(&mut self, text: &[u8], at_end: bool, out: &mut Vec<u8>) {
        let (mut copied, mut at) = (0, 0);
        while let Some(ahead) = self.next_candidate(&text[at..]) {
            at += ahead;
            match self.look(&text[at..], at_end) {
                Found::Nothing => at += 1,
                Found::Maybe => {
                    out.extend_from_slice(&text[copied..at]);
                    self.held.extend_from_slice(&text[at..]);
                    return;
                }
                Found::Match(rank) => {
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

    /// Distance to the next byte that begins a pattern.
    fn next_candidate(&self, text: &[u8]) -> Option<usize> {
        if self.pairs.is_empty() {
            return None;
        }
        text.iter().position(|byte| self.begins[usize::from(*byte)])
    }

    fn look(&self, text: &[u8], at_end: bool) -> Found {
        for (rank, pair) in self.pairs.iter().enumerate() {
            let common = text.len().min(pair.pattern.len());
            if !text[..common].eq_ignore_ascii_case(&pair.pattern[..common]) {
                continue;
            }
            if common == pair.pattern.len() {
                return Found::Match(rank);
            }
            if !at_end {
                return Found::Maybe;
            }
        }
        Found::Nothing
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
