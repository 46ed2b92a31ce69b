//! The tree of a configuration, as written: statements with words and places, no meaning yet.

use crate::source::Span;

/// One word: a directive's name or an argument, after quotes and escapes were undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The value. nginx's words are bytes, in whatever encoding the file has.
    pub bytes: Vec<u8>,
    /// The word in the text, quotes included.
    pub span: Span,
    /// Was it written in quotes?
    pub quoted: bool,
}

impl Word {
    /// The word for people: bytes that are no UTF-8 are shown as U+FFFD.
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
    /// What stands in `{ }`; files included there are spliced in.
    pub block: Option<Block>,
    /// From the name to the `;` or `}`, both included.
    pub span: Span,
}

impl Statement {
    /// Where the words end: the `;` or the `{`. nginx names the line of this place in errors.
    pub fn terminator(&self) -> Span {
        match &self.block {
            Some(block) => block.open,
            None => Span { start: self.span.end.saturating_sub(1), ..self.span },
        }
    }

    /// The statements of the block; none for a statement that ends with `;`.
    pub fn children(&self) -> &[Statement] {
        self.block.as_ref().map_or(&[], |block| &block.statements)
    }
}

/// Statements between `{` and `}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// In order, included files in their place.
    pub statements: Vec<Statement>,
    /// The `{`.
    pub open: Span,
    /// The `}`; empty at the end of the file where it is missing.
    pub close: Span,
}
