//! Rewrites a text of the configuration in one style: a statement a line, blocks indented by four spaces. Words and comments
//! stay as they are written, byte by byte, and so do line breaks within a statement and single empty lines.

#[cfg(test)]
mod tests;

use crate::foreign::has_lua_block;
use crate::lexer::{Lexer, Token};
use crate::source::{SourceMap, Span};
use crate::tree::Word;

/// Spaces for each level of blocks.
const INDENT: usize = 4;

/// Returns a text in that style.
///
/// # Errors
/// The text is not a configuration: what is wrong, and in which line.
pub fn format_text(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut sources = SourceMap::new();
    let file = sources.add_fragment("text", text.to_vec()).ok_or("too large file")?;
    let mut writer = Writer { text, out: Vec::new(), depth: 0, line: Line::First, words: 0 };
    let mut lexer = Lexer::new(text, file, usize::MAX);
    let (mut before, mut name): (usize, Option<Word>) = (0, None);
    let wrong = |what: &str, span: Span| {
        let (line, _) = sources.line_column(span);
        format!("{what} in line {line}")
    };
    loop {
        let token = lexer.next();
        if let Some(found) = lexer.diagnostics.first() {
            return Err(wrong(&found.message, found.span.unwrap_or(Span::NONE)));
        }
        let span = place(&token);
        writer.gap(before, span.start as usize, &token);
        before = span.end as usize;
        match token {
            Token::Word(word) => {
                writer.word(span);
                name.get_or_insert(word);
            }
            Token::Semicolon(_) if name.is_none() => return Err(wrong("unexpected \";\"", span)),
            Token::Semicolon(_) => {
                writer.out.push(b';');
                (writer.words, writer.line, name) = (0, Line::Full, None);
            }
            Token::Open(_) => {
                let Some(name) = name.take() else { return Err(wrong("unexpected \"{\"", span)) };
                writer.open();
                if has_lua_block(&name.bytes) {
                    let close =
                        lexer.skip_lua_block().ok_or_else(|| wrong("unclosed block", span))?;
                    writer.verbatim(before, close.end as usize);
                    before = close.end as usize;
                }
            }
            Token::Close(_) if name.is_some() || writer.depth == 0 => {
                return Err(wrong("unexpected \"}\"", span));
            }
            Token::Close(_) => writer.close(),
            Token::End(_) if name.is_none() && writer.depth == 0 => break,
            Token::End(_) | Token::EndInWord(_) => {
                return Err(wrong("unexpected end of file", span));
            }
        }
    }
    writer.end_line();
    Ok(writer.out)
}

fn place(token: &Token) -> Span {
    match token {
        Token::Word(word) => word.span,
        Token::Semicolon(span)
        | Token::Open(span)
        | Token::Close(span)
        | Token::End(span)
        | Token::EndInWord(span) => *span,
    }
}

/// Where the writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// At the beginning of the text.
    First,
    /// Behind the `{` of a block that is empty so far.
    Opened,
    /// Behind a statement, a block or a comment, in its line.
    Full,
    /// Within a statement.
    Statement,
    /// Behind a comment within a statement.
    Commented,
}

struct Writer<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    depth: usize,
    line: Line,
    /// Words of the statement so far.
    words: usize,
}

impl Writer<'_> {
    /// Writes the comments between two tokens, and what goes in front of the second one.
    fn gap(&mut self, start: usize, end: usize, token: &Token) {
        let mut gap = self.text.get(start..end).unwrap_or_default();
        let mut lines = 0;
        loop {
            let comment = gap.iter().position(|byte| *byte == b'#').unwrap_or(gap.len());
            lines += gap[..comment].iter().filter(|byte| **byte == b'\n').count();
            if comment == gap.len() {
                break;
            }
            let length = gap[comment..].iter().position(|byte| *byte == b'\n');
            let length = length.unwrap_or(gap.len() - comment);
            self.comment(&gap[comment..comment + length], lines);
            gap = &gap[comment + length..];
            lines = 0;
        }
        let is_statement = matches!(self.line, Line::Statement | Line::Commented);
        match token {
            Token::Word(_) if !is_statement => self.begin_line(lines > 1),
            Token::Word(_) if lines > 0 || self.line == Line::Commented => self.continue_line(),
            Token::Word(_) if end > start => self.out.push(b' '),
            Token::Word(_) => {}
            _ if self.line == Line::Commented => self.continue_line(),
            _ => {}
        }
    }

    /// Writes a comment, in the line of what is in front of it if it was there.
    fn comment(&mut self, comment: &[u8], lines: usize) {
        let is_behind = lines == 0 && self.line != Line::First;
        match self.line {
            Line::Commented => self.continue_line(),
            Line::Statement if !is_behind => self.continue_line(),
            _ if is_behind => self.out.push(b' '),
            _ => self.begin_line(lines > 1),
        }
        self.out.extend_from_slice(comment.trim_ascii_end());
        self.line = match self.line {
            Line::Statement | Line::Commented => Line::Commented,
            _ => Line::Full,
        };
    }

    fn word(&mut self, span: Span) {
        let word = self.text.get(span.start as usize..span.end as usize);
        self.out.extend_from_slice(word.unwrap_or_default());
        self.words += 1;
        self.line = Line::Statement;
    }

    fn open(&mut self) {
        if !self.out.ends_with(b" ") {
            self.out.push(b' ');
        }
        self.out.push(b'{');
        self.depth += 1;
        (self.words, self.line) = (0, Line::Opened);
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        match self.line {
            Line::Opened => self.out.push(b' '),
            _ => self.begin_line(false),
        }
        self.out.push(b'}');
        self.line = Line::Full;
    }

    /// Copies a block whose content is not of this language.
    fn verbatim(&mut self, start: usize, end: usize) {
        self.out.extend_from_slice(self.text.get(start..end).unwrap_or_default());
        self.depth = self.depth.saturating_sub(1);
        self.line = Line::Full;
    }

    fn begin_line(&mut self, with_empty: bool) {
        self.end_line();
        if with_empty && !matches!(self.line, Line::First | Line::Opened) {
            self.out.push(b'\n');
        }
        self.out.resize(self.out.len() + self.depth * INDENT, b' ');
    }

    /// Begins a further line of a statement.
    fn continue_line(&mut self) {
        self.end_line();
        self.out.resize(self.out.len() + (self.depth + 1) * INDENT, b' ');
        self.line = Line::Statement;
    }

    fn end_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }
}
