//! The inputs of a target: its seeds, and a dictionary of words to insert.

use std::path::Path;

/// One kept input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seed {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Returns the seeds of a directory in order of their names, so that a run repeats on any file system.
pub(super) fn read_seeds(directory: &Path) -> Result<Vec<Seed>, String> {
    let entries = std::fs::read_dir(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut seeds = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", directory.display()))?;
        let bytes = std::fs::read(entry.path())
            .map_err(|error| format!("{}: {error}", entry.path().display()))?;
        seeds.push(Seed { name: entry.file_name().to_string_lossy().into_owned(), bytes });
    }
    if seeds.is_empty() {
        return Err(format!("{}: no seeds", directory.display()));
    }
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seeds)
}

/// Words in libFuzzer's dictionary form: one `"word"` a line, with `\xNN`, `\\` and `\"`.
/// A missing file is an empty dictionary.
pub(super) fn read_dictionary(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => parse_dictionary(&text)
            .map_err(|line| format!("{}:{line}: a word is written as \"word\"", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// `Err` is the number of the line that cannot be read.
pub(super) fn parse_dictionary(text: &str) -> Result<Vec<Vec<u8>>, usize> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        words.push(parse_word(line).ok_or(index + 1)?);
    }
    Ok(words)
}

fn parse_word(line: &str) -> Option<Vec<u8>> {
    let mut rest = line.strip_prefix('"')?.strip_suffix('"')?.bytes();
    let mut word = Vec::new();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        match rest.next()? {
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                word.push(u8::from_str_radix(digits, 16).ok()?);
            }
            escaped @ (b'\\' | b'"') => word.push(escaped),
            _ => return None,
        }
    }
    Some(word)
}
