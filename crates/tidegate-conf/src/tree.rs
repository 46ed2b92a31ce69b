//! The tree of a configuration, as written: statements with words and places, without meaning.

use std::sync::Arc;

use crate::source::Span;

/// One word: a directive's name or an argument, without quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The value. nginx's words are bytes, in whatever encoding the file has.
    pub bytes: Vec<u8>,
    /// The word in the text, quotes included.
    pub span: Span,
    /// Whether it was written in quotes.
    pub quoted: bool,
}

impl Word {
    /// Returns the word for messages: bytes that are no UTF-8 are shown as U+FFFD.
    pub fn display(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// A directive with its arguments, ended by `;` or by a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// First word.
    pub name: Word,
    /// Further words.
    pub args: Vec<Word>,
    /// The content of `{ }`; files included there are spliced in.
    pub block: Option<Block>,
    /// From the name to the `;` or `}`, both included.
    pub span: Span,
}

impl Statement {
    /// Returns the end of the words: the `;` or the `{`. nginx prints the line of this place in errors.
    pub fn terminator(&self) -> Span {
        match &self.block {
            Some(block) => block.open,
            None => Span { start: self.span.end.saturating_sub(1), ..self.span },
        }
    }

    /// Returns the statements of the block; none for a statement that ends with `;`.
    pub fn children(&self) -> &[Statement] {
        self.block.as_ref().map_or(&[], |block| &block.statements[..])
    }
}

/// Statements between `{` and `}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// In order, included files in their place. Shared, as some directives keep them (`map`).
    pub statements: Arc<Vec<Statement>>,
    /// The `{`.
    pub open: Span,
    /// The `}`; empty at the end of the file where it is missing.
    pub close: Span,
}
