//! The output of `nginx -T`.

use crate::source::SourceMap;

/// Returns all files, each once and in order of reading, under a line with its name.
pub fn dump(sources: &SourceMap) -> Vec<u8> {
    let mut text = Vec::new();
    for (_, file) in sources.files() {
        if file.path().is_none() {
            continue;
        }
        text.extend_from_slice(format!("# configuration file {}:\n", file.name()).as_bytes());
        text.extend_from_slice(file.bytes());
        text.push(b'\n');
    }
    text
}
