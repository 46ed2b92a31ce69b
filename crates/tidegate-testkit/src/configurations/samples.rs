//! Texts that a regular expression matches, made from the expression itself.
//!
//! ```ignore
//! assert_eq!(samples("^/a(b|c)$"), ["/ab", "/ac"]);
//! ```

/// Number of tried variants of one expression: each has other alternatives, with or without optional parts.
const VARIANTS: usize = 4;

/// Repetitions that are written out at most, whatever the expression asks for.
const REPEAT_MAX: usize = 64;

/// Texts that `pattern` matches, without regard to case where `any_case`; none where it is too unusual.
pub(super) fn samples(pattern: &str, any_case: bool) -> Vec<String> {
    let Some(regex) = compiled(pattern, any_case) else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    for variant in 0..VARIANTS {
        let mut maker = Maker { rest: pattern.chars().collect(), at: 0, variant, depth: 0 };
        let text = maker.alternatives();
        if !found.contains(&text) && regex.is_match(text.as_bytes()).unwrap_or(false) {
            found.push(text);
        }
    }
    found
}

/// Paths that `pattern` matches: a sample, with something before it where it does not begin with a slash.
pub(super) fn paths(pattern: &str, any_case: bool) -> Vec<String> {
    let Some(regex) = compiled(pattern, any_case) else { return Vec::new() };
    let matches = |path: &String| regex.is_match(path.as_bytes()).unwrap_or(false);
    let complete = |text: String| {
        let candidates =
            [text.clone(), format!("/{text}"), format!("/index{text}"), format!("/dir/{text}")];
        candidates.into_iter().find(|path| path.starts_with('/') && matches(path))
    };
    samples(pattern, any_case).into_iter().filter_map(complete).collect()
}

fn compiled(pattern: &str, any_case: bool) -> Option<pcre2::bytes::Regex> {
    pcre2::bytes::RegexBuilder::new().caseless(any_case).build(pattern).ok()
}

struct Maker {
    rest: Vec<char>,
    at: usize,
    variant: usize,
    depth: usize,
}

impl Maker {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    fn takes(&mut self, text: &str) -> bool {
        let here = self.rest[self.at..].iter().copied();
        let fits = text.chars().zip(here).filter(|(a, b)| a == b).count() == text.chars().count();
        self.at += if fits { text.chars().count() } else { 0 };
        fits
    }

    /// Alternatives up to a `)` or the end; one of them is chosen.
    fn alternatives(&mut self) -> String {
        let mut all = vec![String::new()];
        self.depth += 1;
        while let Some(next) = self.peek() {
            match next {
                ')' => break,
                '|' => {
                    self.at += 1;
                    all.push(String::new());
                }
                _ => {
                    let piece = self.piece();
                    if let Some(last) = all.last_mut() {
                        last.push_str(&piece);
                    }
                }
            }
        }
        self.depth -= 1;
        // Inner groups change more slowly than outer ones, so that variants combine.
        let choice = if self.depth == 0 { self.variant } else { self.variant / self.depth.min(2) };
        all.swap_remove(choice % all.len())
    }

    /// One atom with its quantifier.
    fn piece(&mut self) -> String {
        let atom = self.atom();
        let (least, most) = match self.peek() {
            Some('*') => (0, 1),
            Some('?') => (0, 1),
            Some('+') => (1, 1),
            Some('{') => match self.counted() {
                Some(counted) => return self.repeat(&atom, counted),
                None => return atom,
            },
            _ => return atom,
        };
        self.at += 1;
        self.repeat(&atom, (least, most))
    }

    fn repeat(&mut self, atom: &str, (least, most): (usize, usize)) -> String {
        if matches!(self.peek(), Some('?' | '+')) {
            self.at += 1;
        }
        let count = if self.variant.is_multiple_of(2) { most.min(least.max(1)) } else { least };
        atom.repeat(count.min(REPEAT_MAX))
    }

    /// `{m}`, `{m,}` or `{m,n}`.
    fn counted(&mut self) -> Option<(usize, usize)> {
        let end = self.rest[self.at..].iter().position(|next| *next == '}')? + self.at;
        let text: String = self.rest[self.at + 1..end].iter().collect();
        let (least, most) = text.split_once(',').unwrap_or((&text, &text));
        let least: usize = least.parse().ok()?;
        let most = most.parse().unwrap_or(least.max(1));
        self.at = end + 1;
        Some((least, most))
    }

    fn atom(&mut self) -> String {
        match self.take() {
            None | Some('^' | '$') => String::new(),
            Some('.') => "x".into(),
            Some('\\') => self.escape(),
            Some('[') => self.class(),
            Some('(') => self.group(),
            Some(literal) => literal.into(),
        }
    }

    fn group(&mut self) -> String {
        let looks = ["?=", "?!", "?<=", "?<!", "?#"].iter().any(|mark| self.takes(mark));
        if !looks && self.takes("?") {
            // Names and options end with `>`, `:` or, for options alone, before the `)`.
            while let Some(next) = self.peek() {
                if next == ')' {
                    break;
                }
                self.at += 1;
                if matches!(next, '>' | ':') {
                    break;
                }
            }
        }
        let inner = self.alternatives();
        self.takes(")");
        if looks { String::new() } else { inner }
    }

    fn escape(&mut self) -> String {
        match self.take() {
            None | Some('b' | 'B' | 'A' | 'z' | 'Z' | 'G' | 'K') => String::new(),
            Some('d') => "7".into(),
            Some('w') | Some('S') | Some('D') | Some('N') => "w".into(),
            Some('s') => " ".into(),
            Some('W') => "-".into(),
            Some('t') => "\t".into(),
            Some(literal) => literal.into(),
        }
    }

    fn class(&mut self) -> String {
        let negated = self.takes("^");
        let mut members: Vec<(char, char)> = Vec::new();
        let mut first = true;
        while let Some(next) = self.take() {
            match next {
                ']' if !first => break,
                '\\' => members.extend(self.escape().chars().map(|member| (member, member))),
                _ if next == '[' && self.takes(":") => {
                    while self.take().is_some_and(|inner| inner != ':') {}
                    self.takes("]");
                    members.push(('0', '9'));
                }
                _ if self.peek() == Some('-') && self.rest.get(self.at + 1) != Some(&']') => {
                    self.at += 1;
                    members.push((next, self.take().unwrap_or(next)));
                }
                _ => members.push((next, next)),
            }
            first = false;
        }
        if !negated {
            let choice = self.variant % members.len().max(1);
            return members.get(choice).map(|(low, _)| low.to_string()).unwrap_or_default();
        }
        let outside = |c: &char| !members.iter().any(|(low, high)| (low..=high).contains(&c));
        "xW7-_ ~".chars().find(outside).map(String::from).unwrap_or_default()
    }
}
