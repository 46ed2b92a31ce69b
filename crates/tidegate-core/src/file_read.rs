//! Reading pieces of files that cannot be sent by `sendfile`.

use std::fs::File;
use std::io;
use std::sync::Arc;

use tidegate_os::{Nowait, file};

/// Reads up to `want` bytes at `offset`; empty at the end of the file. Bytes that are in the page cache
/// are taken at once; others are read on a pool thread, so that a slow disk holds no loop.
pub async fn read(file: &Arc<File>, offset: u64, want: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; want];
    match file::pread_nowait(file, &mut buffer, offset)? {
        Nowait::Read(count) => {
            buffer.truncate(count);
            Ok(buffer)
        }
        Nowait::WouldBlock => {
            let file = file.clone();
            crate::blocking::run(move || {
                let count = file::pread(&file, &mut buffer, offset)?;
                buffer.truncate(count);
                Ok(buffer)
            })
            .await
        }
    }
}
