//! A Rust source file for the rules: with comments and literals blanked, and test code marked.
//!
//! This is not a parser. It implements the lexical rules of Rust by which a brace in a string, a comment
//! or a character literal is never taken for a brace of the program.

/// The kind of a file; the rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Product,
    Test,
}

/// One Rust file, read once and passed to every rule.
pub(super) struct Source {
    /// Path from the repository's root, with `/` on every system.
    pub path: String,
    pub text: String,
    /// `text` with the inside of comments, strings and characters replaced by spaces.
    /// Same line numbers; quotation marks stay.
    pub masked: String,
    pub kind: Kind,
    /// For each line (counted from 0) whether it is test code.
    test_lines: Vec<bool>,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Source {
        let masked = mask(text);
        let kind = kind_of(path);
        let test_lines = match kind {
            Kind::Test => vec![true; text.lines().count()],
            Kind::Product => test_lines(&masked),
        };
        Source { path: path.to_owned(), text: text.to_owned(), masked, kind, test_lines }
    }

    /// The workspace member that the file belongs to: `tidegate-codec`, `xtask`, `fuzz`.
    pub(super) fn member(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or(""),
            Some(first) => first,
            None => "",
        }
    }

    /// `line` counts from 1.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        line.checked_sub(1).and_then(|index| self.test_lines.get(index)).copied().unwrap_or(false)
    }

    /// (line from 1, masked line, raw line)
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        self.masked
            .lines()
            .zip(self.text.lines())
            .enumerate()
            .map(|(index, (masked, raw))| (index + 1, masked, raw))
    }
}

/// A function with its place and length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    /// Line of the word `fn`, from 1.
    pub line: usize,
    /// Lines from the word `fn` to the closing brace, both counted.
    pub lines: usize,
}

/// Every function with a body, in order of its beginning; nested ones are listed too.
pub(super) fn functions(masked: &str) -> Vec<Function> {
    let bytes = masked.as_bytes();
    let mut found = Vec::new();
    for start in word_positions(masked, "fn") {
        let rest = &masked[start + 2..];
        let name: String =
            rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // `fn(u8) -> u8` is a type, not a function.
        if name.is_empty() {
            continue;
        }
        let Some(open) = body_start(bytes, start) else { continue };
        let Some(close) = matching_brace(bytes, open) else { continue };
        found.push(Function {
            name,
            line: line_of(masked, start),
            lines: masked[start..close].matches('\n').count() + 1,
        });
    }
    found
}

/// Returns the byte offsets of `word` as a whole word, not as a part of a longer name.
pub(super) fn word_positions<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_name = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    text.match_indices(word).map(|(position, _)| position).filter(move |&position| {
        let bytes = text.as_bytes();
        let before = position.checked_sub(1).and_then(|index| bytes.get(index));
        let after = bytes.get(position + word.len());
        let starts_name = word.as_bytes().first().is_some_and(|b| b.is_ascii_alphanumeric());
        let ends_name = word.as_bytes().last().is_some_and(|b| b.is_ascii_alphanumeric());
        let part_of_name = starts_name && is_name(before) || ends_name && is_name(after);
        !part_of_name
    })
}

/// The line (from 1) of a byte offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The brace that opens the function's body; `None` for a declaration that ends with `;`.
fn body_start(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (index, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(index),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching_brace(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

fn kind_of(path: &str) -> Kind {
    let file = path.rsplit('/').next().unwrap_or(path);
    let in_test_directory = path.split('/').any(|part| part == "tests" || part == "benches");
    let by_name = matches!(file, "tests.rs" | "testing.rs") || file.ends_with("_tests.rs");
    if by_name || in_test_directory { Kind::Test } else { Kind::Product }
}

/// Marks the lines of each item under `#[cfg(test)]` (or `#[test]`) that has a body.
fn test_lines(masked: &str) -> Vec<bool> {
    let mut marks = vec![false; masked.lines().count()];
    for attribute in ["#[cfg(test)]", "#[cfg(all(test", "#[test]"] {
        for (position, _) in masked.match_indices(attribute) {
            let Some(open) = body_start(masked.as_bytes(), position + attribute.len()) else {
                continue;
            };
            let close = matching_brace(masked.as_bytes(), open).unwrap_or(masked.len());
            let last = line_of(masked, close);
            for mark in marks.iter_mut().take(last).skip(line_of(masked, position) - 1) {
                *mark = true;
            }
        }
    }
    marks
}

/// Replaces the inside of comments and literals by spaces; newlines and delimiters stay.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            blank(&mut masked, at, line_comment_length(rest))
        } else if rest.starts_with(b"/*") {
            blank(&mut masked, at, block_comment_length(rest))
        } else if let Some(hashes) = raw_string_hashes(bytes, at) {
            let prefix = 1 + hashes + 1;
            let inside = raw_string_inside(&rest[prefix..], hashes);
            blank(&mut masked, at + prefix, inside);
            prefix + inside + 1 + hashes
        } else if rest[0] == b'"' {
            let inside = quoted_length(&rest[1..], b'"');
            blank(&mut masked, at + 1, inside);
            inside + 2
        } else if rest[0] == b'\'' {
            match character_length(rest) {
                Some(inside) => {
                    blank(&mut masked, at + 1, inside);
                    inside + 2
                }
                None => 1,
            }
        } else {
            1
        };
        at += length;
    }
    String::from_utf8_lossy(&masked).into_owned()
}

fn blank(masked: &mut [u8], from: usize, length: usize) -> usize {
    for byte in masked.iter_mut().skip(from).take(length) {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    length
}

fn line_comment_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The number of `#` when a raw string begins here (`r"`, `r#"`; the `b` or `c` before it is a
/// plain byte to us), `None` when none begins.
fn raw_string_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes[at] != b'r' {
        return None;
    }
    let before = at.checked_sub(1).map(|index| bytes[index]);
    let own_word = match before {
        Some(b'b' | b'c') => {
            at < 2 || !(bytes[at - 2].is_ascii_alphanumeric() || bytes[at - 2] == b'_')
        }
        Some(byte) => !(byte.is_ascii_alphanumeric() || byte == b'_'),
        None => true,
    };
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    (own_word && bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_string_inside(rest: &[u8], hashes: usize) -> usize {
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    rest.windows(end.len()).position(|window| window == end).unwrap_or(rest.len())
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length between the quotes of a character literal; `None` for a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(quoted_length(&rest[1..], b'\''));
    }
    // A character is one to four bytes in UTF-8; a lifetime has no closing quote there.
    let text = std::str::from_utf8(rest.get(1..rest.len().min(6))?);
    let character = match text {
        Ok(text) => text.chars().next()?,
        Err(error) => {
            std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).ok()?.chars().next()?
        }
    };
    (rest.get(1 + character.len_utf8()) == Some(&b'\'')).then_some(character.len_utf8())
}
