//! Splits bytes into words, by nginx's rules.
//!
//! - Words are separated by spaces, tabs, carriage returns and line feeds, and end before `;` and
//!   `{`. A `}` ends nothing within a word; `{` after `$` is part of the word (`${name}`).
//! - `"` and `'` quote only at the beginning of a word; what follows the closing quote must be
//!   white space, `;`, `{` or `)`, and the `)` begins a new word.
//! - `#` at the beginning of a word is a comment up to the end of the line.
//! - A backslash protects the next byte. `\"`, `\'` and `\\` lose the backslash, `\t`, `\r` and
//!   `\n` become control characters, any other pair stays as it is. All of it in quotes, too.

use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};
use crate::tree::Word;

mod lua;
mod quantifier;

/// nginx reads files through a buffer of this size and refuses a word (or a comment) that, with
/// the byte after it, does not fit. A fragment has no such limit.
pub(crate) const WORD_BYTES_MAX: usize = 4096;

/// A token for the parser.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(Word),
    Semicolon(Span),
    Open(Span),
    Close(Span),
    /// End of the text, between words.
    End(Span),
    /// End of the text within the word or quotes that begin at this place.
    EndInWord(Span),
}

/// A lexer of one text. Errors are added to `diagnostics`, and the lexer continues as if the text were
/// correct.
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    file: FileId,
    at: usize,
    word_bytes_max: usize,
    /// The first brace of a regular expression in the last word, which should have been quoted.
    pub(crate) expression_brace: Option<Span>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'a> Lexer<'a> {
    /// Makes a lexer of a whole text of less than 4 GiB.
    pub(crate) fn new(text: &'a [u8], file: FileId, word_bytes_max: usize) -> Self {
        Lexer { text, file, at: 0, word_bytes_max, expression_brace: None, diagnostics: Vec::new() }
    }

    /// Returns the next token. After the end, it returns the end again.
    pub(crate) fn next(&mut self) -> Token {
        loop {
            let start = self.at;
            let Some(byte) = self.peek() else { return Token::End(self.span(start, start)) };
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'#' => self.comment(),
                b';' => return Token::Semicolon(self.punctuation()),
                b'{' => return Token::Open(self.punctuation()),
                b'}' => return Token::Close(self.punctuation()),
                b'"' | b'\'' => return self.quoted_word(byte),
                _ => return self.plain_word(),
            }
        }
    }

    fn punctuation(&mut self) -> Span {
        self.at += 1;
        self.span(self.at - 1, self.at)
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or(&[]);
        let length = rest.iter().position(|byte| *byte == b'\n');
        self.at += length.unwrap_or(rest.len());
        // The byte after the limit is read even when it is the line feed.
        if rest.len() > self.word_bytes_max && length.is_none_or(|at| at >= self.word_bytes_max) {
            self.too_long(start);
        }
    }

    fn plain_word(&mut self) -> Token {
        let start = self.at;
        if !self.scan_plain(start) {
            return Token::EndInWord(self.span(start, start));
        }
        let raw = self.text.get(start..self.at).unwrap_or(&[]);
        let span = self.span(start, self.at);
        Token::Word(Word { bytes: unescape(raw), span, quoted: false })
    }

    /// Advances to the end of a word without quotes; returns `false` when the text ends before the word does.
    fn scan_plain(&mut self, start: usize) -> bool {
        let mut after_dollar = false;
        while let Some(byte) = self.peek() {
            if self.at - start == self.word_bytes_max {
                self.too_long(start);
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => return true,
                b'{' if !after_dollar => {
                    let Some(length) = quantifier::length(self.text, start, self.at) else {
                        return true;
                    };
                    // The rest is read as if the word were quoted, so that there are no further errors.
                    let brace = self.span(self.at, self.at + 1);
                    self.expression_brace.get_or_insert(brace);
                    self.at += length - 1;
                }
                // The protected byte has no other meaning.
                b'\\' => self.at += 1,
                _ => {}
            }
            // nginx takes any number of braces after a dollar as part of the word.
            after_dollar = byte == b'$' || (after_dollar && byte == b'{');
            self.at += 1;
        }
        self.at = self.text.len();
        false
    }

    fn quoted_word(&mut self, quote: u8) -> Token {
        let open = self.at;
        let start = open + 1;
        self.at = start;
        loop {
            let Some(byte) = self.peek() else {
                self.at = self.text.len();
                return Token::EndInWord(self.span(open, open + 1));
            };
            if self.at - start >= self.word_bytes_max {
                return self.unterminated(open, quote);
            }
            match byte {
                b'\\' => self.at += 2,
                _ if byte == quote => break,
                _ => self.at += 1,
            }
        }
        let inner = self.text.get(start..self.at).unwrap_or(&[]);
        self.at += 1;
        let mut bytes = unescape(inner);
        if self.at - start == self.word_bytes_max && self.peek().is_some() {
            self.too_long(start);
        }
        self.after_quote(&mut bytes);
        Token::Word(Word { bytes, span: self.span(open, self.at), quoted: true })
    }

    /// Checks the byte right after a closing quote. A wrong text is taken into the word, so that the number
    /// of words is the intended one.
    fn after_quote(&mut self, bytes: &mut Vec<u8>) {
        let at = self.at;
        match self.peek() {
            // The parser has the same message for a brace before the `;`.
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')' | b'}') => return,
            Some(byte) => {
                let shown = String::from_utf8_lossy(&[byte]).into_owned();
                self.diagnostics.push(
                    Diagnostic::emerg(format!("unexpected \"{shown}\""))
                        .at(self.span(at, at + 1))
                        .label("expected a space or `;` after the closing quote")
                        .help("quotes must enclose the whole word; a quote within it is written with a backslash"),
                );
            }
        }
        let _ = self.scan_plain(at);
        bytes.extend_from_slice(&unescape(self.text.get(at..self.at).unwrap_or(&[])));
    }

    /// Reports a closing quote that is not found in time, and continues after the first line of the word,
    /// before its `;` if it ends with one.
    fn unterminated(&mut self, open: usize, quote: u8) -> Token {
        let character = char::from(quote);
        self.diagnostics.push(
            Diagnostic::emerg(format!(
                "too long parameter, probably missing terminating \"{character}\" character"
            ))
            .at(self.span(open, open + 1))
            .label("these quotes are not closed"),
        );
        let rest = self.text.get(open + 1..self.at).unwrap_or(&[]);
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest).trim_ascii_end();
        let line = line.strip_suffix(b";").unwrap_or(line);
        self.at = open + 1 + line.len();
        Token::Word(Word { bytes: unescape(line), span: self.span(open, self.at), quoted: true })
    }

    /// Reports a word that does not fit nginx's buffer.
    fn too_long(&mut self, start: usize) {
        let shown = self.text.get(start..).unwrap_or(&[]);
        let shown = String::from_utf8_lossy(&shown[..shown.len().min(10)]).into_owned();
        self.diagnostics.push(
            Diagnostic::emerg(format!("too long parameter \"{shown}...\" started"))
                .at(self.span(start, start + 1))
                .label(format!(
                    "the word that begins here has {} bytes or more",
                    self.word_bytes_max
                )),
        );
    }

    /// Advances behind the `}` of a block of Lua whose `{` was read, and returns the `}`. Returns `None` when
    /// it is missing; the rest of the text is skipped then.
    pub(crate) fn skip_lua_block(&mut self) -> Option<Span> {
        let length = lua::block_length(self.text.get(self.at..).unwrap_or(&[]));
        self.at = length.map_or(self.text.len(), |length| self.at + length);
        length.map(|_| self.span(self.at - 1, self.at))
    }

    /// Returns the whole text.
    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the end of the text.
    pub(crate) fn end(&self) -> Span {
        self.span(self.text.len(), self.text.len())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Makes a span; the text has less than 4 GiB, see [`crate::SourceMap`].
    fn span(&self, start: usize, end: usize) -> Span {
        let end = end.min(self.text.len());
        Span { file: self.file, start: start.min(end) as u32, end: end as u32 }
    }
}

/// Removes the backslashes of a word.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(next @ (b'"' | b'\'' | b'\\')) => bytes.push(next),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'n') => bytes.push(b'\n'),
            Some(next) => bytes.extend([b'\\', next]),
            None => bytes.push(b'\\'),
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
