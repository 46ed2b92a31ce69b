//! The request's body for a handler: it has been received completely, in memory or in a temporary file, so that no
//! thread waits for a slow client.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};

/// A body that can be read once. Its length is within `client_max_body_size` and `max_body=`.
#[derive(Debug, Default)]
pub struct RequestBody {
    memory: VecDeque<Bytes>,
    file: Option<Arc<File>>,
    /// Bytes that have been read.
    offset: u64,
    left: u64,
}

impl RequestBody {
    pub(crate) fn in_memory(pieces: impl IntoIterator<Item = Bytes>) -> RequestBody {
        let memory: VecDeque<Bytes> =
            pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let left = memory.iter().map(|piece| piece.len() as u64).sum();
        RequestBody { memory, left, ..RequestBody::default() }
    }

    pub(crate) fn in_file(file: Arc<File>, length: u64) -> RequestBody {
        RequestBody { file: Some(file), left: length, ..RequestBody::default() }
    }

    /// Returns the bytes that have not been read.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// Returns whether nothing is left to be read.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// The temporary file cannot be read; `FileTooLarge` for a body of more than `bytes_max` bytes, of
    /// which nothing is read then.
    pub fn read_all(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.left).ok().filter(|length| *length <= bytes_max);
        let Some(length) = length else { return Err(io::ErrorKind::FileTooLarge.into()) };
        let mut bytes = Vec::with_capacity(length);
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

impl Read for RequestBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = match (&self.file, self.memory.front_mut()) {
            // Others read the same file at the same time (`mirror`): its own position is not used.
            (Some(file), _) => match read_at(file, &mut buffer[..most], self.offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => count,
            },
            (None, Some(piece)) => {
                let count = most.min(piece.len());
                piece.copy_to_slice(&mut buffer[..count]);
                if piece.is_empty() {
                    self.memory.pop_front();
                }
                count
            }
            (None, None) => 0,
        };
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}
