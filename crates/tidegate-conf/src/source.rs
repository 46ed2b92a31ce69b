//! The texts of a configuration, and places in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The text of a [`SourceMap`] that a [`Span`] is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    /// Returns the position in [`SourceMap::files`], which is the order of reading.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A range of bytes in one text: `start..end`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A place in no text, for statements that the program itself makes. It renders as no place.
    pub const NONE: Span = Span { file: FileId(u32::MAX), start: 0, end: 0 };

    /// Returns the span from the beginning of `self` to the end of `other`, both of one text.
    pub fn to(self, other: Span) -> Span {
        Span { file: self.file, start: self.start, end: other.end.max(self.start) }
    }
}

/// One text: a file, or a text of the command line.
#[derive(Clone, Debug)]
pub struct SourceFile {
    name: String,
    path: Option<PathBuf>,
    bytes: Arc<[u8]>,
    line_starts: OnceLock<Vec<u32>>,
    /// The first `include` of the file.
    included_at: Option<Span>,
}

impl SourceFile {
    /// Returns the name as nginx prints it: the full path, or a name such as `command line`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path on disk; `None` for a fragment that is no file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the whole text.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a handle to the text that does not borrow the map.
    pub fn shared_bytes(&self) -> Arc<[u8]> {
        Arc::clone(&self.bytes)
    }

    /// Returns the first `include` of the file; `None` for a file that nothing includes.
    pub fn included_at(&self) -> Option<Span> {
        self.included_at
    }

    /// Returns the offsets at which lines begin; the first is 0.
    pub(crate) fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let mut starts = vec![0];
            for (position, byte) in self.bytes.iter().enumerate() {
                if *byte == b'\n' {
                    starts.push(position as u32 + 1);
                }
            }
            starts
        })
    }

    /// Returns the index (from 0) of the line that contains the byte at `offset`.
    pub(crate) fn line_index(&self, offset: u32) -> usize {
        self.line_starts().partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

/// All texts of one configuration, in the order in which they were read, each path once.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    by_path: HashMap<PathBuf, FileId>,
}

impl SourceMap {
    /// Makes an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. Returns `None` when it is larger than 4 GiB, since spans are 32 bits wide, or when there
    /// are too many files. A path that is in the map already keeps its text and its identity.
    pub fn add_file(&mut self, path: &Path, bytes: Arc<[u8]>) -> Option<FileId> {
        if let Some(known) = self.find(path) {
            return Some(known);
        }
        let name = path.to_string_lossy().into_owned();
        let file = self.push(name, Some(path.to_owned()), bytes)?;
        self.by_path.insert(path.to_owned(), file);
        Some(file)
    }

    /// Adds a text that is no file, under a name for messages (`command line`). Limits as
    /// [`SourceMap::add_file`].
    pub fn add_fragment(&mut self, name: &str, bytes: Vec<u8>) -> Option<FileId> {
        self.push(name.to_owned(), None, bytes.into())
    }

    /// Returns the file read from `path`, if it was read.
    pub fn find(&self, path: &Path) -> Option<FileId> {
        self.by_path.get(path).copied()
    }

    /// Returns a text; `None` for the file of [`Span::NONE`] and for one of another map.
    pub fn file(&self, file: FileId) -> Option<&SourceFile> {
        self.files.get(file.index())
    }

    /// Returns all texts in order of reading.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(index, file)| (FileId(index as u32), file))
    }

    /// Returns line and column (in bytes) of the beginning of `span`, both counted from 1; `(0, 0)` for a
    /// place in no text.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let Some(file) = self.file(span.file) else { return (0, 0) };
        let line = file.line_index(span.start);
        let line_start = file.line_starts().get(line).copied().unwrap_or(0);
        (line + 1, (span.start - line_start) as usize + 1)
    }

    /// Returns the bytes of a span; empty for a place in no text.
    pub fn text(&self, span: Span) -> &[u8] {
        self.file(span.file)
            .and_then(|file| file.bytes.get(span.start as usize..span.end as usize))
            .unwrap_or(&[])
    }

    /// Notes the `include` of a file.
    pub(crate) fn note_include(&mut self, file: FileId, place: Span) {
        let known = self.file(place.file).is_some() && place.file < file;
        if let Some(file) = self.files.get_mut(file.index()).filter(|_| known) {
            file.included_at = Some(place);
        }
    }

    /// Returns a key that orders places as they are read: an included file at the place of its `include`. The
    /// key is the outermost file, then an offset for each level of includes.
    pub(crate) fn reading_key(&self, span: Span) -> (FileId, Vec<u32>) {
        let mut offsets = vec![span.start];
        let mut file = span.file;
        // A file is always included by one that was read before it, hence this ends.
        while let Some(place) = self.file(file).and_then(SourceFile::included_at) {
            offsets.push(place.start);
            file = place.file;
        }
        offsets.reverse();
        (file, offsets)
    }

    fn push(&mut self, name: String, path: Option<PathBuf>, bytes: Arc<[u8]>) -> Option<FileId> {
        // One less than the maximum: the end of file is a place, too.
        if bytes.len() >= u32::MAX as usize {
            return None;
        }
        let file = FileId(u32::try_from(self.files.len()).ok().filter(|id| *id != u32::MAX)?);
        self.files.push(SourceFile {
            name,
            path,
            bytes,
            line_starts: OnceLock::new(),
            included_at: None,
        });
        Some(file)
    }
}
