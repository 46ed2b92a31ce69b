//! A tree as configuration text.

use crate::tree::{Statement, Word};

/// The word as it must be written to be read as these bytes; always in quotes where needed.
pub fn print_word(word: &Word, out: &mut Vec<u8>) {
    out.extend_from_slice(&word.bytes);
}

/// Statements, one a line, blocks indented by four spaces.
pub fn print_statements(statements: &[Statement]) -> Vec<u8> {
    let _ = statements;
    Vec::new()
}
