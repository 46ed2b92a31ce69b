//! Prints a tree as configuration text.

use crate::tree::{Statement, Word};

/// Spaces for each level of blocks.
const INDENT: usize = 4;

/// Returns statements as text that parses to the same words: one a line, blocks indented by four spaces.
pub fn print_statements(statements: &[Statement]) -> Vec<u8> {
    let mut out = Vec::new();
    print_level(statements, 0, &mut out);
    out
}

/// Appends a word so that it is read as these bytes: in quotes if it was quoted, and where quotes are
/// necessary.
pub fn print_word(word: &Word, out: &mut Vec<u8>) {
    let quotes = word.quoted || needs_quotes(&word.bytes);
    if quotes {
        out.push(b'"');
    }
    let mut bytes = word.bytes.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if quotes => out.extend(b"\\\""),
            b'\t' => out.extend(b"\\t"),
            b'\r' => out.extend(b"\\r"),
            b'\n' => out.extend(b"\\n"),
            // A backslash that the parser keeps protects the next byte, whatever it is: `\$` stays unchanged,
            // and so does `\ ` within quotes.
            b'\\' => match bytes.peek() {
                Some(b'"' | b'\'' | b'\\' | b't' | b'r' | b'n' | b'\t' | b'\r' | b'\n') | None => {
                    out.extend(b"\\\\");
                }
                Some(next) => {
                    out.extend([b'\\', *next]);
                    bytes.next();
                }
            },
            _ => out.push(byte),
        }
    }
    if quotes {
        out.push(b'"');
    }
}

fn print_level(statements: &[Statement], depth: usize, out: &mut Vec<u8>) {
    for statement in statements {
        out.resize(out.len() + depth * INDENT, b' ');
        print_word(&statement.name, out);
        for word in &statement.args {
            out.push(b' ');
            print_word(word, out);
        }
        match &statement.block {
            None => out.extend(b";\n"),
            Some(block) => {
                out.extend(b" {\n");
                print_level(&block.statements, depth + 1, out);
                out.resize(out.len() + depth * INDENT, b' ');
                out.extend(b"}\n");
            }
        }
    }
}

/// Returns whether the bytes, written without quotes, would be read as something else.
fn needs_quotes(bytes: &[u8]) -> bool {
    let first = matches!(bytes.first(), None | Some(b'"' | b'\'' | b'#' | b'}'));
    first || bytes.iter().any(|byte| matches!(byte, b' ' | b';' | b'{' | b'\t' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests;
