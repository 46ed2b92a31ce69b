//! Words of a script line: bare words, quoted bytes, matchers, `|` and `->`.
//!
//! `"a\r\n"` is bytes with the escapes `\r \n \t \0 \\ \" \xHH`; `"x"*1000` repeats it and
//! `"a" + "b"` joins. `*"text"` matches what contains the text, `~"regex"` what the pattern
//! finds (escapes belong to the pattern, only `\"` is taken away).

use crate::bell::Failure;

/// Repetitions make at most this many bytes: a slip of the finger must not eat the machine.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// The expectation that a value is compared with.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// The same bytes.
    Exact(Vec<u8>),
    /// Holds these bytes somewhere.
    Contains(Vec<u8>),
    /// The pattern is found in it.
    Pattern(Box<pcre2::bytes::Regex>),
}

impl Matcher {
    /// Whether `value` fits the expectation.
    pub fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text == value,
            Self::Contains(text) => contains(value, text),
            Self::Pattern(pattern) => pattern.is_match(value).unwrap_or(false),
        }
    }
}

impl std::fmt::Display for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(text) => write!(f, "{}", shown(text)),
            Self::Contains(text) => write!(f, "something that contains {}", shown(text)),
            Self::Pattern(pattern) => write!(f, "something that matches {:?}", pattern.as_str()),
        }
    }
}

/// One word of a line.
#[derive(Debug, Clone)]
pub(crate) enum Word {
    /// An unquoted word.
    Bare(String),
    /// Quoted bytes.
    Text(Vec<u8>),
    /// `*"…"` or `~"…"`.
    Match(Matcher),
    /// `|`
    Bar,
    /// `->`
    Arrow,
}

/// Whether `text` occurs in `value`.
pub(crate) fn contains(value: &[u8], text: &[u8]) -> bool {
    text.is_empty() || value.windows(text.len()).any(|part| part == text)
}

/// Bytes for a message: quoted, escaped, cut in the middle when long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SIDE: usize = 600;
    if bytes.len() <= 2 * SIDE {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    format!(
        "\"{}\" … {} bytes … \"{}\"",
        bytes[..SIDE].escape_ascii(),
        bytes.len() - 2 * SIDE,
        bytes[bytes.len() - SIDE..].escape_ascii()
    )
}

/// Splits a line into words.
pub(crate) fn split(line: &str) -> Result<Vec<Word>, Failure> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = one_word(rest)?;
        words.push(word);
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(Failure::new(format!("a space is missing before `{after}`")));
        }
        rest = after.trim_start();
    }
    Ok(words)
}

/// Where the words of a line are; none for a line that [`split`] refuses.
pub(crate) fn spans(line: &str) -> Vec<std::ops::Range<usize>> {
    let (mut spans, mut at) = (Vec::new(), line.len() - line.trim_start().len());
    while at < line.len() {
        let Ok((_, after)) = one_word(&line[at..]) else { return Vec::new() };
        let end = line.len() - after.len();
        // The white space in front of a `+` that joins nothing belongs to no word.
        spans.push(at..at + line[at..end].trim_end().len());
        at = line.len() - after.trim_start().len();
    }
    spans
}

fn one_word(rest: &str) -> Result<(Word, &str), Failure> {
    if rest.starts_with('"') {
        let (text, after) = joined_text(rest)?;
        return Ok((Word::Text(text), after));
    }
    if let Some(quoted) = rest.strip_prefix('*').filter(|after| after.starts_with('"')) {
        let (text, after) = joined_text(quoted)?;
        return Ok((Word::Match(Matcher::Contains(text)), after));
    }
    if let Some(quoted) = rest.strip_prefix('~').filter(|after| after.starts_with('"')) {
        let (source, after) = joined_pattern(quoted)?;
        let pattern = pcre2::bytes::Regex::new(&source)
            .map_err(|error| Failure::new(format!("bad pattern {source:?}: {error}")))?;
        return Ok((Word::Match(Matcher::Pattern(Box::new(pattern))), after));
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = match &rest[..end] {
        "|" => Word::Bar,
        "->" => Word::Arrow,
        bare => Word::Bare(bare.to_owned()),
    };
    Ok((word, &rest[end..]))
}

/// `"a"*3 + "b"`
fn joined_text(mut rest: &str) -> Result<(Vec<u8>, &str), Failure> {
    let mut text = Vec::new();
    loop {
        let body = &rest[1..];
        let end = closing_quote(body)?;
        let mut part = unescaped(&body[..end])?;
        rest = &body[end + 1..];
        if let Some(after) = rest.strip_prefix('*') {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let times: usize = after[..digits]
                .parse()
                .map_err(|_| Failure::new("a number is missing after `\"…\"*`"))?;
            if part.len().saturating_mul(times) > TEXT_BYTES_MAX {
                return Err(Failure::new("the repeated text is too long"));
            }
            part = part.repeat(times);
            rest = &after[digits..];
        }
        text.extend_from_slice(&part);
        match rest.trim_start().strip_prefix('+').map(str::trim_start) {
            Some(next) if next.starts_with('"') => rest = next,
            _ => return Ok((text, rest)),
        }
    }
}

/// `"a" + "b"` of a pattern.
fn joined_pattern(mut rest: &str) -> Result<(String, &str), Failure> {
    let mut source = String::new();
    loop {
        let body = &rest[1..];
        let end = closing_quote(body)?;
        source.push_str(&body[..end].replace("\\\"", "\""));
        rest = &body[end + 1..];
        match rest.trim_start().strip_prefix('+').map(str::trim_start) {
            Some(next) if next.starts_with('"') => rest = next,
            _ => return Ok((source, rest)),
        }
    }
}

fn closing_quote(body: &str) -> Result<usize, Failure> {
    let mut escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Ok(at),
            _ => {}
        }
    }
    Err(Failure::new("a closing quote is missing"))
}

fn unescaped(source: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::with_capacity(source.len());
    let mut bytes = source.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        text.push(match bytes.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'x') => {
                let digit = |byte: Option<u8>| byte.and_then(|b| (b as char).to_digit(16));
                match (digit(bytes.next()), digit(bytes.next())) {
                    (Some(high), Some(low)) => (high * 16 + low) as u8,
                    _ => return Err(Failure::new("`\\x` needs two hexadecimal digits")),
                }
            }
            Some(same @ (b'\\' | b'"')) => same,
            _ => {
                return Err(Failure::new(
                    "unknown escape; known are \\r \\n \\t \\0 \\\\ \\\" \\xHH",
                ));
            }
        });
    }
    Ok(text)
}

/// Reads words one after another.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    words: &'a [Word],
}

impl<'a> Cursor<'a> {
    /// A cursor at the first word.
    pub(crate) fn new(words: &'a [Word]) -> Self {
        Self { words }
    }

    /// The next word, taken.
    pub(crate) fn word(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// The next word if it is bare, not taken.
    pub(crate) fn peek(&self) -> Option<&'a str> {
        match self.words.first() {
            Some(Word::Bare(word)) => Some(word),
            _ => None,
        }
    }

    /// The next word of any kind, not taken.
    pub(crate) fn peek_word(&self) -> Option<&'a Word> {
        self.words.first()
    }

    /// Takes the next word if it is `expected`.
    pub(crate) fn accept(&mut self, expected: &str) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// A bare word; `what` names it in the mistake.
    pub(crate) fn bare(&mut self, what: &str) -> Result<&'a str, Failure> {
        match self.word() {
            Some(Word::Bare(word)) => Ok(word),
            other => Err(missing(what, other)),
        }
    }

    /// Bytes: quoted or a bare word.
    pub(crate) fn text(&mut self, what: &str) -> Result<Vec<u8>, Failure> {
        match self.word() {
            Some(Word::Text(text)) => Ok(text.clone()),
            Some(Word::Bare(word)) => Ok(word.clone().into_bytes()),
            other => Err(missing(what, other)),
        }
    }

    /// As [`Self::text`], as a string.
    pub(crate) fn string(&mut self, what: &str) -> Result<String, Failure> {
        String::from_utf8(self.text(what)?).map_err(|_| Failure::new(format!("{what} is no text")))
    }

    /// A number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, Failure> {
        let word = self.bare(what)?;
        word.parse().map_err(|_| Failure::new(format!("{what} is missing, found `{word}`")))
    }

    /// Bytes to compare with: a bare word, `"…"`, `*"…"` or `~"…"`.
    pub(crate) fn matcher(&mut self, what: &str) -> Result<Matcher, Failure> {
        match self.word() {
            Some(Word::Match(matcher)) => Ok(matcher.clone()),
            Some(Word::Text(text)) => Ok(Matcher::Exact(text.clone())),
            Some(Word::Bare(word)) => Ok(Matcher::Exact(word.clone().into_bytes())),
            other => Err(missing(what, other)),
        }
    }

    /// `Name:` taken off, if the next word is a field name.
    pub(crate) fn field_name(&mut self) -> Option<&'a str> {
        let name = self.peek()?.strip_suffix(':').filter(|name| !name.is_empty())?;
        self.words = &self.words[1..];
        Some(name)
    }

    /// Nothing may follow.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        match self.word() {
            None => Ok(()),
            Some(word) => Err(Failure::new(format!("what is this: {}", described(word)))),
        }
    }
}

fn missing(what: &str, found: Option<&Word>) -> Failure {
    let found = found.map_or_else(|| "the end of the line".to_owned(), described);
    Failure::new(format!("{what} is missing, found {found}"))
}

fn described(word: &Word) -> String {
    match word {
        Word::Bare(word) => format!("`{word}`"),
        Word::Text(text) => shown(text),
        Word::Match(matcher) => matcher.to_string(),
        Word::Bar => "`|`".to_owned(),
        Word::Arrow => "`->`".to_owned(),
    }
}
