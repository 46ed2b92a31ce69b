//! What a configuration adds to the lines of a location: `error_log_tag` and `error_log_user_tag`.

use std::fmt::Write as _;
use std::sync::Arc;

/// The tags of a request or session.
#[derive(Debug, Default)]
pub struct LogTags {
    /// Words of `error_log_user_tag`.
    pub words: Vec<Vec<u8>>,
    /// Names and values of `error_log_tag`.
    pub pairs: Vec<(Arc<str>, Vec<u8>)>,
}

impl LogTags {
    /// Appends the named values as lines of text have them.
    pub fn write_text(&self, text: &mut String) {
        for (name, value) in &self.pairs {
            let _ = write!(text, ", {name}: \"{}\"", String::from_utf8_lossy(value));
        }
    }
}
