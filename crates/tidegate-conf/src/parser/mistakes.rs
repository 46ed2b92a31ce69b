//! Advice for mistakes that are reported far from their place: a missing or superfluous brace, and braces
//! within a regular expression.

use crate::diagnostic::Diagnostic;
use crate::known;
use crate::registry::Kind;
use crate::source::Span;
use crate::tree::Word;

/// Longest line, in bytes, that is repeated in the advice.
const LINE_BYTES_MAX: usize = 160;

/// Longest line, in bytes, whose indentation says something. A text may be one line, and each block asks for its line.
const INDENTED_BYTES_MAX: usize = 4096;

/// A block in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Braces {
    /// The directive's name.
    pub name: Span,
    /// The `{`.
    pub open: Span,
    /// The `}`.
    pub close: Span,
}

/// The indentation of the blocks of one text.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The first block whose `}` is indented less than its first line.
    shallow: Option<Braces>,
    /// The first block whose `}` is indented more than its first line.
    deep: Option<Braces>,
    /// The block that was closed last.
    last: Option<Braces>,
}

impl Layout {
    /// Notes a block that was closed.
    pub(super) fn note(&mut self, text: &[u8], block: Braces) {
        self.last = Some(block);
        let Some(close_indent) = alone_behind(text, block.close.start) else { return };
        let Some(first_line) = near_line_start(text, block.name.start) else { return };
        let indent = indentation(text.get(first_line..).unwrap_or(&[]));
        if close_indent.len() < indent.len() && indent.starts_with(close_indent) {
            self.shallow.get_or_insert(block);
        }
        if close_indent.len() > indent.len() && close_indent.starts_with(indent) {
            self.deep.get_or_insert(block);
        }
    }

    /// Makes the error for the end of a text in the block that `open` began.
    pub(super) fn unclosed(&self, text: &[u8], open: Span, name: Option<Span>) -> Diagnostic {
        let block = self.shallow.map(|block| (block.name, block.open));
        let suspect = block.or(name.map(|name| (name, open)));
        if let Some((name, open)) = suspect.filter(|(name, _)| takes_no_block(bytes(text, *name))) {
            let name = shown(text, name);
            let message = format!("directive \"{name}\" is not terminated by \";\"");
            return Diagnostic::emerg(message).at(open).line_at(open).label("expected `;`").help(
                format!(
                    "`{name}` takes no block; an argument with a brace in it must stand in quotes"
                ),
            );
        }
        let error = Diagnostic::emerg("unexpected end of file, expecting \"}\"")
            .at(open)
            .label("this block is not closed");
        let Some(block) = self.shallow else { return error };
        error.help(format!(
            "judging by the indentation, the unclosed block is `{}`, opened at line {}: the next `}}`, at line {}, \
             belongs to an outer block",
            shown(text, block.name),
            line_number(text, block.open),
            line_number(text, block.close),
        ))
    }

    /// Adds which `}` is probably the superfluous one.
    pub(super) fn superfluous(&self, text: &[u8], error: Diagnostic) -> Diagnostic {
        let error = error.label("no block is open here");
        if let Some(block) = self.deep {
            return error.help(format!(
                "judging by the indentation, the `}}` at line {} is superfluous: it closes `{}`, opened at line {}",
                line_number(text, block.close),
                shown(text, block.name),
                line_number(text, block.open),
            ));
        }
        let Some(block) = self.last else { return error };
        error.help(format!(
            "the last block before it is `{}`, opened at line {} and closed at line {}",
            shown(text, block.name),
            line_number(text, block.open),
            line_number(text, block.close),
        ))
    }
}

/// Makes the error for a word that contains a `{`, at `brace`. Its first line is nginx's message for a word
/// that ends there.
pub(super) fn unquoted_expression(
    text: &[u8],
    first: Option<&Word>,
    word: &Word,
    brace: Span,
) -> Diagnostic {
    let rest = Span { start: brace.end, ..word.span };
    let before = Span { end: brace.start, ..word.span };
    let message = match first.map(|first| (first, first.bytes.as_slice())) {
        None => "unexpected \"{\"".to_owned(),
        Some((_, b"location")) => format!("unknown directive \"{}\"", shown(text, rest)),
        Some((_, b"if")) => format!("invalid condition \"{}\"", shown(text, before)),
        Some((first, _)) => format!("directive \"{}\" is not terminated by \";\"", first.display()),
    };
    let is_if = first.is_some_and(|first| first.bytes == b"if");
    Diagnostic::emerg(message)
        .at(word.span)
        .line_at(brace)
        .label("the `{` begins a block for nginx")
        .help(format!(
            "a regular expression with braces must stand in quotes: `{}`",
            quoted(text, word.span, is_if)
        ))
}

/// Returns the line of a word with the word in quotes; the word alone when the line is long.
fn quoted(text: &[u8], word: Span, is_if: bool) -> String {
    let start = line_start(text, word.start);
    let tail = text.get(word.end as usize..).unwrap_or(&[]);
    let tail = tail.split(|byte| *byte == b'\n').next().unwrap_or(&[]).trim_ascii_end();
    let head = text.get(start..word.start as usize).unwrap_or(&[]).trim_ascii_start();
    let whole = bytes(text, word);
    // The parenthesis of a condition is not part of its expression.
    let inner = whole.strip_suffix(b")").filter(|_| is_if).unwrap_or(whole);
    let after = &whole[inner.len()..];
    let quote: &[u8] = if inner.contains(&b'"') { b"'" } else { b"\"" };
    let parts: &[&[u8]] = if head.len() + whole.len() + tail.len() > LINE_BYTES_MAX {
        &[quote, inner, quote, after]
    } else {
        &[head, quote, inner, quote, after, tail]
    };
    String::from_utf8_lossy(&parts.concat()).into_owned()
}

/// Returns the number of words before the first directive in a statement that should have been a block. The
/// words before it are on lines of their own.
pub(super) fn missing_open(text: &[u8], words: &[Word]) -> Option<usize> {
    // First, as it holds for few statements.
    let on_new_line = |pair: &[Word]| {
        let gap = text.get(pair[0].span.end as usize..pair[1].span.start as usize);
        gap.is_some_and(|gap| gap.contains(&b'\n'))
    };
    let index = words.windows(2).position(on_new_line)? + 1;
    let first = words.first()?;
    let known = known::find(&first.bytes);
    if !known.iter().any(|known| known.kind == Kind::Block) {
        return None;
    }
    // `server` in `upstream` takes a name, which may be that of a directive, and parameters.
    let is_plain = |word: &Word| !word.bytes.contains(&b'=');
    if known.iter().any(|known| known.kind != Kind::Block) && !words.get(2).is_some_and(is_plain) {
        return None;
    }
    let next = words.get(index).filter(|word| !word.quoted)?;
    (!known::find(&next.bytes).is_empty()).then_some(index)
}

/// Makes the error for [`missing_open`]: `head` are the words before the block, `end` is the `;`.
pub(super) fn no_opening(head: &[Word], end: Span) -> Diagnostic {
    let name = head.first().map(Word::display).unwrap_or_default();
    let place = head.last().map_or(end, |word| word.span);
    Diagnostic::emerg(format!("directive \"{name}\" has no opening \"{{\""))
        .at(place)
        .line_at(end)
        .label("expected `{` after this")
}

/// Returns whether it is a directive of nginx that never has a block.
fn takes_no_block(name: &[u8]) -> bool {
    let known = known::find(name);
    !known.is_empty() && known.iter().all(|known| known.kind == Kind::Simple)
}

fn bytes(text: &[u8], span: Span) -> &[u8] {
    text.get(span.start as usize..span.end as usize).unwrap_or(&[])
}

/// Returns the text of a span for messages, cut when it is long.
fn shown(text: &[u8], span: Span) -> String {
    let bytes = bytes(text, span);
    String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned()
}

/// Returns the white space in front of the first other byte of a line; `None` for another byte.
fn alone_behind(text: &[u8], at: u32) -> Option<&[u8]> {
    let before = text.get(..at as usize)?;
    let other = before.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
    match other {
        None => Some(before),
        Some(other) => (before[other] == b'\n').then(|| &before[other + 1..]),
    }
}

/// As [`line_start`]; `None` where the line begins more than [`INDENTED_BYTES_MAX`] before the byte.
fn near_line_start(text: &[u8], at: u32) -> Option<usize> {
    let begin = (at as usize).saturating_sub(INDENTED_BYTES_MAX);
    let near = text.get(begin..at as usize)?;
    match near.iter().rposition(|byte| *byte == b'\n') {
        Some(found) => Some(begin + found + 1),
        None => (begin == 0).then_some(0),
    }
}

/// Returns the offset of the line of a byte.
fn line_start(text: &[u8], at: u32) -> usize {
    let before = text.get(..at as usize).unwrap_or(text);
    before.iter().rposition(|byte| *byte == b'\n').map_or(0, |found| found + 1)
}

/// Returns the number of the line, from 1.
fn line_number(text: &[u8], span: Span) -> usize {
    let before = text.get(..span.start as usize).unwrap_or(text);
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn indentation(line: &[u8]) -> &[u8] {
    let length = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &line[..length]
}
