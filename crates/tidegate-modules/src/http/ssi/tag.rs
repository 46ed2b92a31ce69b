//! Splits a page into text and commands (`<!--#name parameter="value" -->`), however its bytes are divided.

use bytes::{Bytes, BytesMut};
use memchr::memmem;

/// Limits that nginx has, too.
const NAME_BYTES_MAX: usize = 32;
const PARAMETERS_MAX: usize = 16;

const OPEN: &[u8] = b"<!--#";
const CLOSE: &[u8] = b"-->";

/// One token of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Text(Bytes),
    Command(Command),
    /// A malformed command, and why.
    Broken(String),
}

/// A command as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub name: Vec<u8>,
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    /// All its bytes, for blocks.
    pub raw: Bytes,
}

/// No command that is shorter is too long.
const COMMAND_BYTES_MIN: usize = 16 * 1024;

/// The part of a page that has been received and not yet been split.
pub(super) struct Tokenizer {
    pending: Bytes,
    value_bytes_max: usize,
    /// Whether the rest of a malformed command is being skipped.
    skipping: bool,
}

impl Tokenizer {
    /// Makes a tokenizer; `value_bytes_max` is `ssi_value_length`.
    pub(super) fn new(value_bytes_max: usize) -> Tokenizer {
        Tokenizer { pending: Bytes::new(), value_bytes_max, skipping: false }
    }

    /// Appends the next bytes of the page.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if self.pending.is_empty() {
            self.pending = bytes;
            return;
        }
        let mut joined = BytesMut::with_capacity(self.pending.len() + bytes.len());
        joined.extend_from_slice(&self.pending);
        joined.extend_from_slice(&bytes);
        self.pending = joined.freeze();
    }

    /// Returns the next token; `None` when more bytes are needed.
    ///
    /// | pending begins with | returns |
    /// |---|---|
    /// | text | the text up to `<!--#`, or up to what may be the beginning of one |
    /// | a complete command | the command |
    /// | a command without its end | nothing: more is needed |
    /// | a malformed command | why; then all is skipped to the next `-->` |
    ///
    /// Invariant: what is returned and what is pending are the page in its order; of skipped bytes only what may be
    /// a part of `-->` is kept. The number and lengths of a command's parameters are bounded, and so is the
    /// command.
    pub(super) fn next(&mut self) -> Option<Token> {
        if self.skipping {
            let Some(end) = memmem::find(&self.pending, CLOSE) else {
                let kept = self.pending.len().min(CLOSE.len() - 1);
                self.pending = self.pending.split_off(self.pending.len() - kept);
                return None;
            };
            self.pending = self.pending.split_off(end + CLOSE.len());
            self.skipping = false;
        }
        match memmem::find(&self.pending, OPEN) {
            Some(0) => self.command(),
            Some(at) => Some(Token::Text(self.pending.split_to(at))),
            None => {
                let text = self.pending.len() - open_suffix(&self.pending);
                (text > 0).then(|| Token::Text(self.pending.split_to(text)))
            }
        }
    }

    /// Returns the most bytes of a command: those of its parameters, with room around them.
    fn command_bytes_max(&self) -> usize {
        COMMAND_BYTES_MIN.max(2 * PARAMETERS_MAX * self.value_bytes_max)
    }

    /// Returns the rest at the page's end; a command without an end is dropped, as in nginx.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        let left = std::mem::take(&mut self.pending);
        (!self.skipping && !left.is_empty() && !left.starts_with(OPEN)).then_some(left)
    }

    fn command(&mut self) -> Option<Token> {
        let mut reader = Reader { text: &self.pending, at: OPEN.len() };
        match reader.command(self.value_bytes_max) {
            Ok(mut command) => {
                let length = reader.at;
                command.raw = self.pending.split_to(length);
                Some(Token::Command(command))
            }
            Err(TagError::Incomplete) if self.pending.len() <= self.command_bytes_max() => None,
            Err(error) => {
                let (length, message) = match error {
                    TagError::Broken(message) => (reader.at, message),
                    // White space has no other bound.
                    TagError::Incomplete => (OPEN.len(), "too long SSI command".to_owned()),
                };
                self.pending = self.pending.split_off(length);
                self.skipping = true;
                Some(Token::Broken(message))
            }
        }
    }
}

/// Returns the number of bytes at the end of `text` with which a command may begin.
fn open_suffix(text: &[u8]) -> usize {
    (1..OPEN.len()).rev().find(|length| text.ends_with(&OPEN[..*length])).unwrap_or(0)
}

enum TagError {
    Incomplete,
    Broken(String),
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Result<u8, TagError> {
        self.text.get(self.at).copied().ok_or(TagError::Incomplete)
    }

    fn space(&mut self) -> Result<bool, TagError> {
        let start = self.at;
        while matches!(self.peek()?, b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        Ok(self.at > start)
    }

    fn command(&mut self, value_bytes_max: usize) -> Result<Command, TagError> {
        self.space()?;
        let name = self.name(|byte| byte == b'-')?;
        let shown = String::from_utf8_lossy(&name).into_owned();
        let mut command = Command { name, ..Command::default() };
        loop {
            let spaced = self.space()?;
            if self.peek()? == b'-' {
                self.close(&shown)?;
                return Ok(command);
            }
            if !spaced {
                return Err(self.unexpected(&format!("in \"{shown}\" SSI command")));
            }
            if command.parameters.len() == PARAMETERS_MAX {
                let message = format!("too many \"{shown}\" SSI command parameters");
                return Err(TagError::Broken(message));
            }
            let name = self.name(|byte| matches!(byte, b'=' | b'-' | b'"' | b'\''))?;
            self.space()?;
            let place = format!("\"{}\" parameter in \"{shown}\"", String::from_utf8_lossy(&name));
            if name.is_empty() {
                return Err(self.unexpected(&format!("in \"{shown}\" SSI command")));
            }
            if self.peek()? != b'=' {
                return Err(self.unexpected(&format!("after {place} SSI command")));
            }
            self.at += 1;
            self.space()?;
            let value = self.value(&place, value_bytes_max)?;
            command.parameters.push((name, value));
        }
    }

    /// Reads a name up to white space or a byte that `ends` it.
    fn name(&mut self, ends: impl Fn(u8) -> bool) -> Result<Vec<u8>, TagError> {
        let start = self.at;
        loop {
            let byte = self.peek()?;
            if byte.is_ascii_whitespace() || ends(byte) {
                return Ok(self.text[start..self.at].to_vec());
            }
            if self.at - start == NAME_BYTES_MAX {
                let name = String::from_utf8_lossy(&self.text[start..self.at]);
                return Err(TagError::Broken(format!("the \"{name}...\" SSI name is too long")));
            }
            self.at += 1;
        }
    }

    fn value(&mut self, place: &str, bytes_max: usize) -> Result<Vec<u8>, TagError> {
        let quote = self.peek()?;
        if !matches!(quote, b'"' | b'\'') {
            return Err(self.unexpected(&format!("before value of {place} SSI command")));
        }
        self.at += 1;
        let mut value = Vec::new();
        loop {
            let byte = self.peek()?;
            if byte == quote {
                self.at += 1;
                return Ok(value);
            }
            if value.len() >= bytes_max {
                let start = String::from_utf8_lossy(&value).into_owned();
                return Err(TagError::Broken(format!(
                    "too long \"{start}...\" value of {place} SSI command"
                )));
            }
            if byte == b'\\' {
                let escaped = self.text.get(self.at + 1).copied().ok_or(TagError::Incomplete)?;
                if matches!(escaped, b'"' | b'\'' | b'\\') {
                    self.at += 1;
                    value.push(escaped);
                } else {
                    value.push(byte);
                }
            } else {
                value.push(byte);
            }
            self.at += 1;
        }
    }

    fn close(&mut self, shown: &str) -> Result<(), TagError> {
        for expected in CLOSE {
            if self.peek()? != *expected {
                return Err(self.unexpected(&format!("in \"{shown}\" SSI command")));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn unexpected(&self, place: &str) -> TagError {
        let byte = self.text.get(self.at).copied().unwrap_or(b' ');
        let symbol = String::from_utf8_lossy(&[byte]).into_owned();
        TagError::Broken(format!("unexpected \"{symbol}\" symbol {place}"))
    }
}
