//! Finds the needed boxes of a file without reading the others.

use std::fmt;
use std::io;

use tidegate_os::file;

use super::boxes::{Header, Mp4Error};
use super::cut::Movie;
use crate::http::static_files::Content;

/// Why no part can be sent.
#[derive(Debug)]
pub(super) enum PartError {
    Movie(Mp4Error),
    Read(io::Error),
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartError::Movie(fault) => fault.fmt(f),
            PartError::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PartError {}

/// The boxes that were found.
#[derive(Default)]
pub(super) struct MovieBoxes {
    ftyp: Vec<u8>,
    moov: Vec<u8>,
    mdat: (u64, u64),
    /// Whether the index comes before the media: the whole file can be played as it is.
    pub is_streamable: bool,
}

impl MovieBoxes {
    pub(super) fn movie(&self) -> Movie<'_> {
        Movie { ftyp: &self.ftyp, moov: &self.moov, mdat: self.mdat }
    }
}

/// Finds the first `moov` of at most `index_max` bytes, without its header, and the first `mdat` of a file.
///
/// # Errors
/// The file cannot be read, does not have these boxes, or does not consist of boxes.
///
/// Invariant: `at` grows by the size of a box, which is never smaller than its header, so the loop ends; boxes are
/// at most [`BOXES_MAX`], and only `ftyp` and `moov` are read, each within its limit. Where `moov` comes first the
/// media is not read.
pub(super) fn find(content: &Content, size: u64, index_max: u64) -> Result<MovieBoxes, PartError> {
    let mut found = MovieBoxes::default();
    let (mut moov, mut mdat) = (false, false);
    let mut at = 0_u64;
    let mut boxes = 0;
    while at < size && !(moov && mdat) {
        boxes += 1;
        if boxes > BOXES_MAX {
            return Err(PartError::Movie(Mp4Error::Boxes));
        }
        // The longest header has 16 bytes.
        let bytes = read(content, at, (size - at).min(16))?;
        let header = Header::parse(&bytes, size - at).map_err(PartError::Movie)?;
        let end = at.saturating_add(header.size);
        match &header.kind {
            b"ftyp" if found.ftyp.is_empty() => {
                if header.size > FTYP_MAX {
                    return Err(PartError::Movie(Mp4Error::TooLarge(header.kind)));
                }
                found.ftyp = read(content, at, header.size)?;
            }
            b"moov" if !moov => {
                let size = header.size - header.length;
                if size > index_max {
                    return Err(PartError::Movie(Mp4Error::Index(size)));
                }
                found.moov = read(content, at + header.length, size)?;
                moov = true;
                // Without an earlier `mdat` the index comes first.
                found.is_streamable = !mdat;
            }
            b"mdat" if !mdat => {
                found.mdat = (at + header.length, end);
                mdat = true;
            }
            _ => {}
        }
        at = end;
    }
    match (moov, mdat) {
        (false, _) => Err(PartError::Movie(Mp4Error::Missing(*b"moov"))),
        (_, false) => Err(PartError::Movie(Mp4Error::Missing(*b"mdat"))),
        _ => Ok(found),
    }
}

/// Reads `length` bytes, which are known to be in the file.
fn read(content: &Content, at: u64, length: u64) -> Result<Vec<u8>, PartError> {
    let short = || PartError::Read(io::ErrorKind::UnexpectedEof.into());
    let length = usize::try_from(length).map_err(|_| short())?;
    match content {
        Content::Memory(bytes) => {
            let start = usize::try_from(at).map_err(|_| short())?;
            let end = start.checked_add(length).ok_or_else(short)?;
            bytes.get(start..end).map(<[u8]>::to_vec).ok_or_else(short)
        }
        Content::File(open, _) => {
            let mut bytes = vec![0; length];
            let mut filled = 0;
            while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match file::pread(open, rest, at + filled as u64).map_err(PartError::Read)? {
                    0 => return Err(short()),
                    count => filled += count,
                }
            }
            Ok(bytes)
        }
    }
}

/// Bytes of the largest `ftyp` box: real ones list a few brands of four letters.
const FTYP_MAX: u64 = 1024;
/// Boxes before both are found. Fragmented videos have thousands, but their index is first.
const BOXES_MAX: u32 = 10_000;
