//! PUT: a body is written to a temporary file as it arrives, which is renamed to its target when it is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate_codec::{Known, date};
use tidegate_core::request_body::{RequestBodyError, StoredBody};
use tidegate_core::{Exchange, Level, Step, blocking, temp_file};

use super::tree::{self, Failure, MappedPath};
use super::{LinkRule, Options, check_parent_links, done, failed, run};

/// Bytes that are collected for one write job, so that a client that sends small pieces wakes few threads.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes of one read of a buffered body.
const READ_BYTES: usize = 64 << 10;

/// Refuses a target that names a directory.
pub(super) fn refuse_directory(x: &Exchange) -> Step<'static> {
    x.log(Level::Error, format_args!("cannot PUT to a collection"));
    Step::Status(409)
}

/// Writes the request's body to a file.
///
/// | step | on | dropped there |
/// |---|---|---|
/// | begin: links, temporary file | pool | the temporary file is removed |
/// | body, in batches of [`BATCH_BYTES`] | event loop and pool | the same |
/// | finish: mode, time, directories, rename | pool | completes if it has begun |
///
/// Invariant: the target is unchanged until the rename, and complete after it; its missing directories are made just
/// before. The upload moves into each job and
/// back, so that it has one owner at any time; the owner that drops it removes the temporary file. A client that
/// closes early gets no response (logged as 400). Sources: `dav_methods PUT`, `create_full_put_path`, `dav_access`,
/// RFC 9110 section 9.3.4 (no ranges), RFC 4918 section 9.7.
pub(super) async fn put(
    x: &mut Exchange,
    place: MappedPath,
    rule: LinkRule,
    options: Options,
) -> Step<'static> {
    if place.is_directory {
        return refuse_directory(x);
    }
    if x.request.header(Known::ContentRange).is_some() {
        x.log(Level::Error, format_args!("PUT with range is unsupported"));
        return Step::Status(501);
    }
    let modified = x.request.header(Known::Date).and_then(date::parse_http);
    let store = &x.settings().body_store;
    let (directory, levels) = (store.temp_path.clone(), store.levels.clone());
    let target = place.path;
    let begun = run(move || {
        check_parent_links(&target, rule)?;
        Upload::begin(target, options, &directory, &levels)
    });
    let upload = match begun.await {
        Ok(upload) => upload,
        Err(failure) => return failed(x, &failure),
    };
    // A body that was received before (by `mirror` or `client_body_early_read`) is copied, not read from the client again.
    let written = match x.request.body.stored().cloned() {
        Some(stored) => {
            run(move || upload.write_stored(&stored)).await.map_err(ReceiveError::Writing)
        }
        None => receive(x, upload).await,
    };
    let upload = match written {
        Ok(upload) => upload,
        Err(ReceiveError::Writing(failure)) => return failed(x, &failure),
        Err(ReceiveError::Receiving(RequestBodyError::Closed)) => {
            x.disposition.end_without_response(400);
            return Step::Close;
        }
        Err(ReceiveError::Receiving(error)) => return Step::Status(error.status()),
    };
    match run(move || upload.finish(modified)).await {
        Ok(created) => done(x, if created { 201 } else { 204 }),
        Err(failure) => failed(x, &failure),
    }
}

/// Why a body could not be written to its file.
enum ReceiveError {
    Receiving(RequestBodyError),
    Writing(Failure),
}

/// Writes a body as it arrives. Memory holds at most one batch, as the next one is not read before it is written; a
/// batch that is being written when the request is dropped is removed with its file.
async fn receive(x: &mut Exchange, mut upload: Upload) -> Result<Upload, ReceiveError> {
    loop {
        let (mut batch, mut length, mut at_end) = (Vec::new(), 0, false);
        while length < BATCH_BYTES && !at_end {
            match x.request.body.next().await.map_err(ReceiveError::Receiving)? {
                Some(bytes) => {
                    length += bytes.len();
                    batch.push(bytes);
                }
                None => at_end = true,
            }
        }
        if !batch.is_empty() {
            upload = run(move || upload.write(&batch)).await.map_err(ReceiveError::Writing)?;
        }
        if at_end {
            return Ok(upload);
        }
    }
}

/// A file that is being uploaded.
struct Upload {
    target: PathBuf,
    file: File,
    temporary: Temporary,
    options: Options,
}

impl Upload {
    /// Checks whether the file can be created, and opens its temporary file. Refusals are sent before the body is
    /// read.
    fn begin(
        target: PathBuf,
        options: Options,
        directory: &Path,
        levels: &[usize],
    ) -> Result<Upload, Failure> {
        if target.is_dir() {
            return Err(Failure::rule(409, "could not be created: it is a directory", &target));
        }
        let parent = target.parent().unwrap_or(Path::new("/"));
        match fs::metadata(parent) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(Failure::rule(409, "is not a directory", parent)),
            // They are made when the body is complete.
            Err(error) if error.kind() == io::ErrorKind::NotFound && options.full_path => {
                if parent
                    .ancestors()
                    .find_map(|it| fs::metadata(it).ok())
                    .is_some_and(|it| !it.is_dir())
                {
                    return Err(Failure::rule(409, "is not a directory", parent));
                }
            }
            Err(error) => return Err(missing(parent, error)),
        }
        let (file, path) = temp_file::create(directory, levels)
            .map_err(|error| Failure::of("creating a file in", directory, error).of_server())?;
        Ok(Upload { target, file, temporary: Temporary(path), options })
    }

    fn write(mut self, batch: &[Bytes]) -> Result<Upload, Failure> {
        for bytes in batch {
            let written = self.file.write_all(bytes);
            written
                .map_err(|error| Failure::of("write()", &self.temporary.0, error).of_server())?;
        }
        Ok(self)
    }

    fn write_stored(mut self, stored: &StoredBody) -> Result<Upload, Failure> {
        let copied = match &stored.file {
            Some(source) => copy(source, &mut self.file),
            None => stored.memory.iter().try_for_each(|bytes| self.file.write_all(bytes)),
        };
        match copied {
            Ok(()) => Ok(self),
            Err(error) => Err(Failure::of("write()", &self.temporary.0, error).of_server()),
        }
    }

    /// Renames the file to its target; returns whether the target is new.
    fn finish(self, modified: Option<i64>) -> Result<bool, Failure> {
        let Upload { target, file, mut temporary, options } = self;
        let path = &*temporary.0;
        tidegate_os::file::set_mode(&file, options.file_mode)
            .map_err(|error| Failure::of("fchmod()", path, error).of_server())?;
        if let Some(seconds) = modified.and_then(|seconds| u64::try_from(seconds).ok()) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(time)
                .map_err(|error| Failure::of("utimes()", path, error).of_server())?;
        }
        drop(file);
        if let Some(parent) = target.parent().filter(|parent| options.full_path && !parent.exists())
        {
            tree::make_directories(parent, options.directory_mode())
                .map_err(|error| missing(parent, error))?;
        }
        let existed = target.exists();
        let placed = match fs::rename(path, &target) {
            // Temporary files are on another file system.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                tree::replace_by_copy(path, &target)
            }
            Ok(()) => {
                temporary.0.clear();
                Ok(())
            }
            Err(error) => Err(error),
        };
        placed.map_err(|error| missing(&target, error))?;
        Ok(!existed)
    }
}

/// Returns the error of an open: a missing parent, or one that is not a directory, is a conflict (RFC 4918 section
/// 9.7.1).
fn missing(path: &Path, error: io::Error) -> Failure {
    let mut failure = Failure::of("open()", path, error);
    if failure.status == 404 {
        failure.status = 409;
    }
    failure
}

fn copy(source: &File, target: &mut File) -> io::Result<()> {
    let (mut buffer, mut offset) = (vec![0; READ_BYTES], 0);
    loop {
        let count = tidegate_os::file::pread(source, &mut buffer, offset)?;
        if count == 0 {
            return Ok(());
        }
        target.write_all(buffer.get(..count).unwrap_or_default())?;
        offset += count as u64;
    }
}

/// A temporary file, removed on drop: it does not outlive an upload that breaks off.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        if path.as_os_str().is_empty() {
            return;
        }
        // The drop may be on the event loop, and removing a large file takes time.
        blocking::detach(move || {
            let _ = fs::remove_file(path);
        });
    }
}
