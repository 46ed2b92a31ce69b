//! What `nginx -T` prints.

use crate::source::SourceMap;

/// All files, each once and in order of reading, under a line that names it.
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
