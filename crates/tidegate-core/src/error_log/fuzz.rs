//! Any filter, and lines of any values.

use std::rc::Rc;

use super::fields::{FIELD_NAMES, Kind, LogFields};
use super::{LINE_BYTES_MAX, Level, LogFilter, LogTags, json};

/// Parses a filter, applies it, and returns the lines of JSON of what the rest of `data` says. Parts are separated by NUL.
///
/// # Panics
/// A line is too long, or has no line end or several.
pub fn fuzz_lines(data: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = data.split(|byte| *byte == 0);
    let filter = str::from_utf8(parts.next().unwrap_or_default()).ok().map(LogFilter::parse);
    let message = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let words = parts.next().unwrap_or_default().split(|byte| *byte == b' ');
    let tags = LogTags {
        words: words.take(8).map(<[u8]>::to_vec).collect(),
        pairs: vec![("id".into(), parts.next().unwrap_or_default().to_vec())],
    };
    let kind = if data.len().is_multiple_of(2) { Kind::Request } else { Kind::Session };
    let mut fields = LogFields::about(kind, message, Some(Rc::new(tags)));
    FIELD_NAMES.iter().zip(parts).for_each(|(name, value)| fields.add(name, value));
    if let Some(Ok(filter)) = filter {
        let _ = (filter.holds_for(&fields), filter.holds_for_text(&fields.message));
    }
    let lines = [false, true].map(|is_nested| json::line(Level::Error, 1, &fields, is_nested));
    for line in &lines {
        assert!(line.len() <= LINE_BYTES_MAX, "{} bytes", line.len());
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
    }
    lines.into()
}
