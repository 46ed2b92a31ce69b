//! The end of a block of Lua: braces in strings and comments do not count (Lua 5.1, section 2.1).

/// Returns the length of the text up to and with the `}` that closes a block whose `{` was read; `None` when
/// there is none.
pub(super) fn block_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut depth = 1_usize;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'{' => {
                depth += 1;
                1
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
                1
            }
            b'"' | b'\'' => string_length(&text[at..], *byte),
            b'-' if text[at..].starts_with(b"--") => 2 + comment_length(&text[at + 2..]),
            b'[' => long_length(&text[at..]).unwrap_or(1),
            _ => 1,
        };
    }
    None
}

/// Returns the length of a string in quotes; it ends with its line unless a backslash is before the line
/// feed.
fn string_length(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            _ if *byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Returns the length of a comment behind `--`: long brackets, or the rest of the line.
fn comment_length(text: &[u8]) -> usize {
    let rest_of_line = || text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    long_length(text).unwrap_or_else(rest_of_line)
}

/// Returns the length of `[[ ... ]]`, `[=[ ... ]=]` and so on, to the end of the text if they are not closed;
/// `None` for other text.
fn long_length(text: &[u8]) -> Option<usize> {
    let level = text.iter().skip(1).take_while(|byte| **byte == b'=').count();
    if text.first() != Some(&b'[') || text.get(level + 1) != Some(&b'[') {
        return None;
    }
    let mut at = level + 2;
    while let Some(found) = text.get(at..)?.iter().position(|byte| *byte == b']') {
        at += found + 1;
        let equals = text[at..].iter().take_while(|byte| **byte == b'=').count();
        if equals == level && text.get(at + equals) == Some(&b']') {
            return Some(at + equals + 1);
        }
        at += equals;
    }
    Some(text.len())
}

#[cfg(test)]
mod tests;
