//! The request's body: pulled from the driver, or stored in memory and in a temporary file according to the
//! `client_body_*` directives.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::Headers;

use crate::blocking;
use crate::body::{Chunk, FileRange};
use crate::body_buffer::BodyBuffer;
use crate::timeline::{Cause, waits_for};

/// The source of a body: a protocol driver.
pub trait BodySource {
    /// Returns the next bytes, or `None` at the regular end. Enforces the read timeout itself.
    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>>;

    /// Returns the next bytes if they have been received already (`Some(None)` is the end), else `None`. Neither reads
    /// nor waits.
    fn take_received(&mut self) -> Result<Option<Option<Bytes>>, RequestBodyError> {
        Ok(None)
    }

    /// Sets the longest time between two reads (`client_body_timeout`).
    fn set_timeout(&mut self, timeout: Duration);

    /// Returns whether all bytes have been returned and the regular end is known to follow: a forwarder then sends both
    /// together. `false` where that is not known yet.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Returns trailer fields, known at the end.
    fn trailers(&mut self) -> Option<Headers> {
        None
    }
}

/// Why a body could not be read; each reason has one status.
#[derive(Debug)]
pub enum RequestBodyError {
    /// `client_body_timeout` elapsed between two reads: 408.
    Timeout,
    /// More than `client_max_body_size`: 413.
    TooLarge,
    /// Invalid chunk framing: 400.
    Malformed(&'static str),
    /// The client closed the connection: there is no response; 400 or 499 in logs.
    Closed,
    /// The temporary file failed: 500.
    Io(io::Error),
}

impl RequestBodyError {
    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        match self {
            RequestBodyError::Timeout => 408,
            RequestBodyError::TooLarge => 413,
            RequestBodyError::Malformed(_) | RequestBodyError::Closed => 400,
            RequestBodyError::Io(_) => 500,
        }
    }
}

/// A body read to its end.
#[derive(Clone, Debug, Default)]
pub struct StoredBody {
    /// The body where there is no file.
    pub memory: Vec<Bytes>,
    /// The file with the whole body.
    pub file: Option<Arc<File>>,
    /// `$request_body_file`; on disk only under `client_body_in_file_only`.
    pub path: Option<Arc<BodyPath>>,
    /// Bytes of the body.
    pub length: u64,
}

/// The path of a body's file, which may be deleted already.
#[derive(Debug)]
pub struct BodyPath {
    path: PathBuf,
    /// Whether the file is deleted with the request (`client_body_in_file_only clean`).
    clean: bool,
}

impl Deref for BodyPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for BodyPath {
    fn drop(&mut self) {
        if self.clean {
            let path = std::mem::take(&mut self.path);
            blocking::detach(move || drop(std::fs::remove_file(path)));
        }
    }
}

impl StoredBody {
    /// Returns the chunks of the body from its start.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        let file =
            self.file.iter().map(|file| Chunk::File(FileRange::new(file.clone(), 0, self.length)));
        let memory =
            self.memory.iter().filter(|_| self.file.is_none()).map(|b| Chunk::Bytes(b.clone()));
        file.chain(memory)
    }
}

/// How a whole body is stored.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// `client_body_buffer_size`: a longer body goes to a file.
    pub memory_bytes_max: usize,
    /// `client_body_temp_path` without its levels.
    pub temp_path: PathBuf,
    /// Digits of each level of directories in `client_body_temp_path`.
    pub levels: Vec<usize>,
    /// `client_body_in_file_only on` or `clean`: every body goes to a file with a name.
    pub in_file_only: bool,
    /// `client_body_in_file_only clean`: the file is deleted with the request; `in_file_only` is set as well.
    pub clean: bool,
}

/// What shows the end of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyEnd {
    /// The announced length, or the source where there is none.
    #[default]
    Length,
    /// The source in any case: more bytes than announced are a mistake of the client.
    Source,
}

/// The request's body, in any state of reading.
#[derive(Default)]
pub struct RequestBody {
    /// `Content-Length`, if the client sent one.
    pub length: Option<u64>,
    /// Whether the body is sent in chunks, without an announced length.
    pub chunked: bool,
    source: Option<Box<dyn BodySource>>,
    end: BodyEnd,
    stored: Option<Arc<StoredBody>>,
    received: u64,
    max: Option<u64>,
    trailers: Option<Headers>,
    broken: bool,
}

impl RequestBody {
    /// Creates a body that is pulled from `source`.
    pub fn new(length: Option<u64>, chunked: bool, source: Box<dyn BodySource>) -> RequestBody {
        RequestBody { length, chunked, source: Some(source), ..RequestBody::default() }
    }

    /// Makes it end where its source does, and not already with the announced length (HTTP/2).
    #[must_use]
    pub fn until_end(mut self) -> RequestBody {
        self.end = BodyEnd::Source;
        self
    }

    /// Returns whether the request has a body, even an empty chunked one.
    pub fn is_present(&self) -> bool {
        self.chunked || self.length.is_some_and(|length| length > 0)
    }

    /// Returns whether nothing is left to be read from the client.
    pub fn is_finished(&self) -> bool {
        self.source.is_none()
    }

    /// Returns whether a part of the body has been read, or all of it, and was not kept: it cannot be sent any more.
    pub fn is_spent(&self) -> bool {
        self.is_present() && self.received > 0 && self.stored.is_none()
    }

    /// Makes the request one without a body if that is spent; the rest is left to the driver. For requests that become others.
    pub fn forget_spent(&mut self) {
        if self.is_spent() {
            (self.length, self.chunked) = (None, false);
        }
    }

    /// Returns whether a body with an announced length of 0 has not been read to its end.
    pub(crate) fn is_unread_and_empty(&self) -> bool {
        self.length == Some(0) && self.source.is_some()
    }

    /// Returns whether reading failed: the start of the next request is unknown, so the connection cannot be kept.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sets `client_max_body_size` in bytes, which is checked while the body arrives; `None` for no limit.
    pub fn set_limit(&mut self, max: Option<u64>) {
        self.max = max;
    }

    /// Sets the longest time between two reads (`client_body_timeout`).
    pub fn set_timeout(&mut self, timeout: Duration) {
        if let Some(source) = &mut self.source {
            source.set_timeout(timeout);
        }
    }

    /// Lowers the limit to `max` bytes, if it is higher.
    pub fn lower_limit(&mut self, max: u64) {
        self.max = Some(self.max.map_or(max, |present| present.min(max)));
    }

    /// Returns the bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the trailer fields of a chunked body that has been read.
    pub fn trailers(&self) -> Option<&Headers> {
        self.trailers.as_ref()
    }

    /// Returns the body if it has been read by [`RequestBody::store`].
    pub fn stored(&self) -> Option<&Arc<StoredBody>> {
        self.stored.as_ref()
    }

    /// Returns the next bytes from the client, or `None` at the end.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, RequestBodyError>> {
        let Some(source) = self.source.as_mut() else { return Poll::Ready(Ok(None)) };
        let bytes = match source.poll_bytes(context) {
            Poll::Pending => {
                waits_for(Cause::ClientSlowUpload);
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => {
                self.fail();
                return Poll::Ready(Err(error));
            }
            Poll::Ready(Ok(bytes)) => bytes,
        };
        let Some(bytes) = bytes else {
            self.trailers = source.trailers();
            self.source = None;
            return Poll::Ready(Ok(None));
        };
        self.received += bytes.len() as u64;
        if self.max.is_some_and(|max| self.received > max) {
            self.fail();
            return Poll::Ready(Err(RequestBodyError::TooLarge));
        }
        match self.end {
            BodyEnd::Length if !self.chunked && self.length == Some(self.received) => {
                self.source = None;
            }
            BodyEnd::Source if source.is_at_end() => {
                self.trailers = source.trailers();
                self.source = None;
            }
            BodyEnd::Length | BodyEnd::Source => {}
        }
        Poll::Ready(Ok(Some(bytes)))
    }

    /// Drops the received bytes of a body that no handler has read, so that malformed framing is still detected. The
    /// rest is left to the driver.
    pub fn discard_received(&mut self) -> Result<(), RequestBodyError> {
        while let Some(source) = self.source.as_mut() {
            match source.take_received() {
                Ok(None) => break,
                Ok(Some(Some(bytes))) => self.received += bytes.len() as u64,
                Ok(Some(None)) => self.source = None,
                Err(error) => {
                    self.fail();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Marks the body as broken: it is read elsewhere, was lost half read, or is refused.
    pub fn abandon(&mut self) {
        self.fail();
    }

    /// Removes the body, for the making of the error page as well.
    fn fail(&mut self) {
        self.source = None;
        self.length = None;
        self.chunked = false;
        self.broken = true;
    }

    /// [`RequestBody::poll_next`] as a future.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RequestBodyError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads and stores the whole body; returns the stored one if there is one already.
    pub async fn store(
        &mut self,
        options: &StoreOptions,
    ) -> Result<Arc<StoredBody>, RequestBodyError> {
        if let Some(stored) = &self.stored {
            return Ok(stored.clone());
        }
        let mut spool = Spool::new(options);
        while let Some(bytes) = self.next().await? {
            spool.push(bytes).await.map_err(RequestBodyError::Io)?;
        }
        let stored = spool.finish(self.is_present()).await.map_err(RequestBodyError::Io)?;
        let stored = Arc::new(stored);
        self.stored = Some(stored.clone());
        Ok(stored)
    }

    /// Replaces the body by a stored one (subrequests).
    pub fn set_stored(&mut self, stored: Arc<StoredBody>) {
        self.length = Some(stored.length);
        self.stored = Some(stored);
    }
}

/// Bytes that are collected for one write to the file, so that small pieces do not cost a call each.
const WRITTEN_BYTES: usize = 16 * 1024;

/// Collects bytes in memory, and in a file above the limit.
struct Spool<'a> {
    options: &'a StoreOptions,
    /// Bytes that are not in the file.
    memory: BodyBuffer,
    file: Option<(File, Arc<BodyPath>)>,
    length: u64,
}

impl<'a> Spool<'a> {
    fn new(options: &'a StoreOptions) -> Self {
        Spool { options, memory: BodyBuffer::default(), file: None, length: 0 }
    }

    async fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.memory.push(bytes);
        let most = match (&self.file, self.options.in_file_only) {
            (Some(_), _) => WRITTEN_BYTES,
            (None, true) => 0,
            (None, false) => self.options.memory_bytes_max,
        };
        if self.memory.len() <= most as u64 {
            return Ok(());
        }
        if self.file.is_none() {
            return self.spill().await;
        }
        self.append()
    }

    /// Appends the bytes in memory to the file.
    fn append(&mut self) -> io::Result<()> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        self.memory.take().iter().try_for_each(|bytes| file.write_all(bytes))
    }

    /// Creates the file and writes to it on a pool thread, as the disk may block. Later writes go to the page cache.
    async fn spill(&mut self) -> io::Result<()> {
        let StoreOptions { temp_path, levels, in_file_only, clean, .. } = self.options;
        let (directory, levels) = (temp_path.clone(), levels.clone());
        let (named, clean) = (*in_file_only, *clean);
        let memory = self.memory.take();
        let begin = move || {
            let (mut file, path) = crate::temp_file::create(&directory, &levels)?;
            let path = Arc::new(BodyPath { path, clean });
            if !named {
                std::fs::remove_file(&**path)?;
            }
            memory.iter().try_for_each(|bytes| file.write_all(bytes))?;
            Ok((file, path))
        };
        self.file = Some(blocking::run(begin).await?);
        Ok(())
    }

    async fn finish(mut self, present: bool) -> io::Result<StoredBody> {
        if self.options.in_file_only && present && self.file.is_none() {
            self.spill().await?;
        }
        self.append()?;
        let mut memory = Vec::from(self.memory.take());
        if memory.len() > 1 {
            memory = vec![memory.concat().into()];
        }
        let (file, path) = self.file.map(|(file, path)| (Arc::new(file), path)).unzip();
        Ok(StoredBody { memory, file, path, length: self.length })
    }
}
