//! What a subject must contain to match an expression: a set of texts, at least one of which is in every match.
//!
//! The reader knows the common part of PCRE2's syntax and is unsure of all else, which costs time but no match: such an
//! expression is always tried. Letters count as equal in both cases, so that options for it need not be followed.
//!
//! Invariant: a text that it returns stands in the expression as literal characters in a row, each of which is matched
//! exactly where the ones beside it are. Characters that are left out only make the texts shorter. Source: pcre2pattern.

/// Nested groups that are read.
const DEPTH_MAX: usize = 32;
/// Alternatives beside each other, of all groups together.
const TEXTS_MAX: usize = 64;

/// Syntax that this reader does not know.
struct Unsure;

/// Texts of which a match contains one.
type Needs = Vec<Vec<u8>>;

/// Returns texts of which every match of the expression contains at least one, apart from the case of ASCII letters.
/// `None`: there are none, or the expression is beyond this reader.
fn needs(expression: &str) -> Option<Vec<Vec<u8>>> {
    let mut reader = Reader { rest: expression.as_bytes() };
    let needs = reader.alternatives(0).ok()??;
    // A parenthesis too many.
    reader.rest.is_empty().then_some(needs)
}

/// Shorter texts are in too many subjects.
const TEXT_MIN: usize = 3;

/// As [`needs`], where these texts are in few subjects.
pub(super) fn needed_texts(expression: &str) -> Option<Vec<Vec<u8>>> {
    let is_rare = |text: &Vec<u8>| text.len() >= TEXT_MIN;
    needs(expression).filter(|texts| !texts.is_empty() && texts.iter().all(is_rare))
}

struct Reader<'e> {
    rest: &'e [u8],
}

/// The texts of a sequence so far.
#[derive(Default)]
struct Best {
    /// Literal characters up to here.
    run: Vec<u8>,
    needs: Option<Needs>,
}

impl Best {
    /// Ends the run of literal characters.
    fn end_run(&mut self) {
        if !self.run.is_empty() {
            let run = std::mem::take(&mut self.run);
            self.offer(vec![run]);
        }
    }

    /// Keeps the texts whose shortest is longest.
    fn offer(&mut self, needs: Needs) {
        let shortest = |needs: &Needs| needs.iter().map(Vec::len).min().unwrap_or(0);
        if self.needs.as_ref().is_none_or(|before| shortest(before) < shortest(&needs)) {
            self.needs = Some(needs);
        }
    }
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip(&mut self, text: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(text);
        rest.map(|rest| self.rest = rest).is_some()
    }

    /// Reads up to the end or a closing parenthesis, which is left.
    fn alternatives(&mut self, depth: usize) -> Result<Option<Needs>, Unsure> {
        if depth > DEPTH_MAX {
            return Err(Unsure);
        }
        let mut all = Some(Needs::new());
        loop {
            let one = self.sequence(depth)?;
            all = all.zip(one).map(|(all, one)| [all, one].concat());
            all = all.filter(|all| all.len() <= TEXTS_MAX);
            if !self.skip(b"|") {
                return Ok(all);
            }
        }
    }

    /// Reads up to the end, a bar or a closing parenthesis, which is left.
    fn sequence(&mut self, depth: usize) -> Result<Option<Needs>, Unsure> {
        let mut best = Best::default();
        while let Some(byte) = self.rest.first().copied().filter(|byte| !b"|)".contains(byte)) {
            self.rest = &self.rest[1..];
            match byte {
                b'(' => {
                    best.end_run();
                    let needs = self.group(depth)?;
                    let may_miss = self.rest.first().is_some_and(|next| b"?*{".contains(next));
                    if let Some(needs) = needs.filter(|_| !may_miss) {
                        best.offer(needs);
                    }
                }
                b'[' => {
                    best.end_run();
                    self.class()?;
                }
                b'\\' => match self.next().ok_or(Unsure)? {
                    escaped if !escaped.is_ascii_alphanumeric() => best.run.push(escaped),
                    // Classes, positions and single characters, without operands.
                    escaped if b"dDwWsShHvVRbBAzZGnrtfe".contains(&escaped) => best.end_run(),
                    _ => return Err(Unsure),
                },
                // What is before it may be missing.
                b'*' | b'?' => {
                    best.run.pop();
                    best.end_run();
                }
                b'{' => {
                    best.run.pop();
                    best.end_run();
                    let counts = self.rest.iter().position(|byte| *byte == b'}');
                    if let Some((count, rest)) =
                        counts.and_then(|at| self.rest.split_at_checked(at))
                        && count.iter().all(|byte| byte.is_ascii_digit() || b", ".contains(byte))
                    {
                        self.rest = &rest[1..];
                    }
                }
                b'.' | b'^' | b'$' | b'+' | b'}' | b']' => best.end_run(),
                literal => best.run.push(literal),
            }
        }
        best.end_run();
        Ok(best.needs)
    }

    /// Reads a group behind its opening parenthesis.
    fn group(&mut self, depth: usize) -> Result<Option<Needs>, Unsure> {
        if self.rest.starts_with(b"*") {
            return Err(Unsure);
        }
        let mut counts = true;
        if self.skip(b"?") {
            match self.next().ok_or(Unsure)? {
                b':' | b'>' | b'|' => {}
                b'=' | b'!' => counts = false,
                b'<' if self.skip(b"=") || self.skip(b"!") => counts = false,
                b'<' => self.name(b'>')?,
                b'\'' => self.name(b'\'')?,
                b'P' if self.skip(b"<") => self.name(b'>')?,
                option if b"imsU-".contains(&option) => loop {
                    match self.next().ok_or(Unsure)? {
                        b')' => return Ok(None),
                        b':' => break,
                        option if b"imsU-".contains(&option) => {}
                        _ => return Err(Unsure),
                    }
                },
                _ => return Err(Unsure),
            }
        }
        let needs = self.alternatives(depth + 1)?;
        match self.skip(b")") {
            true => Ok(needs.filter(|_| counts)),
            false => Err(Unsure),
        }
    }

    /// Reads the name of a group and its end.
    fn name(&mut self, end: u8) -> Result<(), Unsure> {
        loop {
            match self.next().ok_or(Unsure)? {
                byte if byte == end => return Ok(()),
                byte if byte.is_ascii_alphanumeric() || byte == b'_' => {}
                _ => return Err(Unsure),
            }
        }
    }

    /// Reads a class of characters behind its opening bracket.
    fn class(&mut self) -> Result<(), Unsure> {
        self.skip(b"^");
        // The first one is a member.
        self.skip(b"]");
        loop {
            match self.next().ok_or(Unsure)? {
                b']' => return Ok(()),
                b'\\' => match self.next().ok_or(Unsure)? {
                    b'c' | b'Q' | b'E' => return Err(Unsure),
                    _ => {}
                },
                b'[' if self.skip(b":") => {
                    self.skip(b"^");
                    while self.rest.first().is_some_and(u8::is_ascii_alphabetic) {
                        self.rest = &self.rest[1..];
                    }
                    if !self.skip(b":]") {
                        return Err(Unsure);
                    }
                }
                b'[' if self.rest.first().is_some_and(|next| b".=".contains(next)) => {
                    return Err(Unsure);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Regex;
    use super::*;

    fn shown(expression: &str) -> Option<String> {
        let texts =
            needs(expression)?.into_iter().map(|text| String::from_utf8(text).expect("text"));
        Some(texts.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn the_longest_texts_that_every_match_has() {
        for (expression, texts) in [
            ("^/shop/item$", "/shop/item"),
            (r"\.php$", ".php"),
            (r"\.(gif|jpe?g|png)$", "gif,jp,png"),
            (r"(?:\b)AhrefsBot(?:\b)", "AhrefsBot"),
            ("^/a/(?<name>[a-z]+)/edit", "/edit"),
            ("ab+cd", "ab"),
            ("abc?de", "ab"),
            ("abc*", "ab"),
            ("abc{0,2}def", "def"),
            ("ab{x", "a"),
            ("(abc)?d", "d"),
            ("(abc)+d", "abc"),
            ("one|two", "one,two"),
            ("(?i)bot", "bot"),
            ("(?=abcdef)ab", "ab"),
            ("(?!abcdef)ab", "ab"),
            ("[]abc]def", "def"),
            ("[^]abc][[:alpha:]x]def", "def"),
            (r"[\]abc]de", "de"),
            ("(?P<x>abc)(?'y'd)", "abc"),
        ] {
            assert_eq!(shown(expression).as_deref(), Some(texts), "{expression}");
        }
    }

    #[test]
    fn what_it_does_not_know_needs_nothing() {
        for expression in [
            "",
            "a*",
            ".*",
            "a|",
            "a|.",
            "(a|b*)",
            "(?x)abc # d",
            "(*UTF)abc",
            r"\Qa|b\E",
            r"\x41bc",
            r"(a)\1bc",
            "(?(1)abc|d)",
            "(?#abc)d",
            "(?R)abc",
            "(?x:abc)",
            r"[\Q]abc",
            "[[:abc]d",
            "[[.a.]]abc",
            "abc)",
            "(abc",
            "[abc",
            r"abc\",
        ] {
            assert_eq!(shown(expression), None, "{expression}");
        }
        assert_eq!(shown(&format!("{}a{}", "(".repeat(40), ")".repeat(40))), None);
        assert_eq!(shown(&vec!["abc"; 65].join("|")), None);
    }

    /// Pieces of expressions that meet in all ways.
    fn piece() -> impl Strategy<Value = String> {
        let pieces = [
            "a",
            "b",
            "ab",
            "ba",
            "A",
            ".",
            "^",
            "$",
            "|",
            "(",
            ")",
            "(?:",
            "(?i)",
            "(?=",
            "(?!",
            "(?<=",
            "(?<n>",
            "(?>",
            "(?|",
            "(?-i:",
            "[ab]",
            "[^a]",
            "[]a]",
            "[[:alpha:]b]",
            r"[\]b]",
            "[",
            "]",
            "*",
            "?",
            "+",
            "{2}",
            "{0,1}",
            "{,2}",
            "{",
            "}",
            "*?",
            "++",
            r"\.",
            r"\b",
            r"\w",
            r"\a",
            r"\1",
            r"\Q",
            r"\E",
            r"\x61",
            "(?x)",
            " ",
            "#",
            r"\\",
            "-",
            ",",
            "1",
        ];
        prop::sample::select(pieces.to_vec()).prop_map(str::to_owned)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn every_match_contains_one(
            pieces in prop::collection::vec(piece(), 1..9),
            subjects in prop::collection::vec("[abAB.1 #\\\\-]{0,6}", 12),
        ) {
            let expression = pieces.concat();
            let (Ok(regex), Some(texts)) = (Regex::compile_late(&expression), needs(&expression)) else {
                return Ok(());
            };
            for subject in subjects {
                let lower = subject.to_ascii_lowercase();
                let has = |text: &Vec<u8>| {
                    let text = text.to_ascii_lowercase();
                    memchr::memmem::find(lower.as_bytes(), &text).is_some()
                };
                if regex.is_match(subject.as_bytes()) == Ok(true) {
                    prop_assert!(texts.iter().any(has), "{expression} {subject} {texts:?}");
                }
            }
        }
    }
}
