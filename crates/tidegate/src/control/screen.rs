//! The output of subcommands. What is printed may come from clients of the server (names, paths, fields), who may want
//! to write to the administrator's terminal: no character that a terminal obeys is printed, nor one that changes the
//! order of the others.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use super::failure::Failure;

/// Standard output.
pub(super) struct Screen {
    pub is_terminal: bool,
}

impl Screen {
    pub(super) fn new() -> Screen {
        Screen { is_terminal: io::stdout().is_terminal() }
    }

    /// Prints a line, escaped.
    ///
    /// # Errors
    /// The output is closed, as for all functions here.
    pub(super) fn line(&self, text: &str) -> Result<(), Failure> {
        self.write(&format!("{}\n", escaped(text)))
    }

    /// Prints a text of several lines, each escaped.
    pub(super) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = String::with_capacity(text.len() + 1);
        for line in text.lines() {
            // A tab moves the cursor and does no harm.
            let parts: Vec<String> = line.split('\t').map(escaped).collect();
            out.push_str(&parts.join("\t"));
            out.push('\n');
        }
        self.write(&out)
    }

    /// Prints a value as one line of JSON.
    pub(super) fn json(&self, value: &Value) -> Result<(), Failure> {
        self.write(&format!("{}\n", escaped_json(&value.to_string())))
    }

    /// Prints a table; all columns but the first are aligned to the right.
    pub(super) fn table(&self, title: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        self.write(&table(title, rows))
    }

    /// Puts the cursor to the top and clears the terminal.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        match self.is_terminal {
            true => self.write("\x1b[H\x1b[2J"),
            false => Ok(()),
        }
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|_| Failure::Closed)
    }
}

/// Whether a terminal might obey a character, or show others in another order or not at all.
fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns a text without harmful characters: `\x1b` or `\u{2028}` in their place.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match u32::from(letter) {
            code if is_harmful(letter) && code < 0x100 => out.push_str(&format!("\\x{code:02x}")),
            code if is_harmful(letter) => out.push_str(&format!("\\u{{{code:x}}}")),
            _ => out.push(letter),
        }
    }
    out
}

/// Does the same in JSON, of which the value stays the same: such characters are in its strings alone.
pub(super) fn escaped_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmful(letter) {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// Formats a table with an empty line in front.
fn table(title: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let mut widths: Vec<usize> = title.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::from("\n");
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (place, (cell, width)) in cells.zip(&widths).enumerate() {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            match place {
                0 => line.push_str(&format!("{cell}{gap}")),
                _ => line.push_str(&format!("  {gap}{cell}")),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    };
    line(&mut title.iter().copied());
    for row in &rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

/// Returns a number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// Returns a number below `path` in a value; 0 where there is none.
pub(super) fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns a text below `path`; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("")
}

/// Returns the members of an object below a key with slashes, as `snapshot` has them.
pub(super) fn members<'a>(
    value: &'a Value,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flatten()
}
