//! A streamed response on its way to the client (`*_buffering`): while the client keeps up, its own polling reads the
//! origin directly. A task that wakes at intervals notices a client that does not keep up, and reads the origin in
//! its place: into memory up to `*_buffers`, then into a temporary file up to `*_max_temp_file_size`, then not at
//! all, which is backpressure.

use std::cell::RefCell;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::body::{Body, BodyError, BodyStream, Chunk, FileRange};
use tidegate_core::body_buffer::BodyBuffer;
use tidegate_core::{LocalFuture, blocking, temp_file};
use tidegate_os::file;
use tidegate_rt::blocking::ThreadPool;
use tidegate_rt::timer;

use super::settings::SpoolSettings;

/// The place for bytes that a client has not taken yet.
pub(crate) struct Spool {
    pub settings: Arc<SpoolSettings>,
    /// The pool whose threads create and write the file.
    pub pool: Option<Arc<ThreadPool>>,
    /// Called when a file was made, and with the error when the disk fails.
    pub log: SpillLog,
}

/// Logs that a response goes through a file, or why it does not.
pub(crate) type SpillLog = Box<dyn Fn(Result<&Path, &io::Error>)>;

/// Returns the body for the client; with `spool` the origin is read whatever the client's speed.
pub(crate) fn body<S: BodyStream + 'static>(
    source: Box<S>,
    spool: Option<Spool>,
    trailers: Rc<RefCell<Headers>>,
) -> Body {
    let state = BufferState {
        source,
        is_announced: false,
        file_bytes_max: spool.as_ref().map_or(0, |spool| spool.settings.file_bytes_max),
        spool,
        memory: BodyBuffer::default(),
        file: None,
        writing: None,
        unwritten: None,
        ended: None,
        polls: 0,
        client_waits: false,
        client_gone: false,
    };
    let state = Rc::new(RefCell::new(state));
    Body::Stream(Box::new(BufferedBody { state, trailers, watched: false }))
}

/// The client's side of the body.
struct BufferedBody<S> {
    state: Rc<RefCell<BufferState<S>>>,
    trailers: Rc<RefCell<Headers>>,
    /// The task that notices a slow client is running.
    watched: bool,
}

/// A response between origin and client.
///
/// ```text
///   origin ──► (client polls) ─────────────────────────────► client
///      └─────► (task, in its place) ► memory ► file ► unwritten ┘      oldest first
/// ```
/// Invariant: bytes leave in the order in which they arrived: memory is older than the file, the file older than the
/// bytes being written, those older than the bytes that the disk refused. One side polls the source at a time: the
/// client's while it waits, else the task. The source is read only when there is room for a piece (`*_buffers`, then
/// `*_max_temp_file_size`); without room the origin waits, which is backpressure. A failed disk is treated as full.
///
/// Cancelling: dropping the client's side marks it gone, and the task drops the source when it next runs. The file
/// has no name, so it is removed with its last handle; a write in progress ends on its pool thread. Bytes that were passed on
/// as a range of the file are never overwritten (sendfile(2)): further ones get another file.
struct BufferState<S> {
    source: Box<S>,
    /// `None`: unbuffered.
    spool: Option<Spool>,
    /// Bytes of the response that the file may hold; 0 once the disk has failed: then the client's pace limits the
    /// origin.
    file_bytes_max: u64,
    /// Bytes older than those in the file.
    memory: BodyBuffer,
    file: Option<SpillFile>,
    /// A file was announced to the log.
    is_announced: bool,
    /// Bytes being written into the file, behind all others.
    writing: Option<PendingWrite>,
    /// Bytes that the disk has refused, behind all others.
    unwritten: Option<Bytes>,
    /// The source has ended, with or without an error.
    ended: Option<Result<(), BodyError>>,
    /// Number of the client's polls.
    polls: u64,
    /// The client's task waits for the source: nothing else may poll it.
    client_waits: bool,
    client_gone: bool,
}

/// The part of the response in a temporary file that has no name any more.
struct SpillFile {
    file: Arc<File>,
    read: u64,
    written: u64,
}

/// Bytes that a pool thread writes.
struct PendingWrite {
    bytes: Bytes,
    written: LocalFuture<'static, io::Result<WriteResult>>,
}

/// The file, and its former name if it was just made.
type WriteResult = (Arc<File>, Option<PathBuf>);

/// Delay from a client's second piece to the first check; later checks come half as often each time.
const WATCH_FIRST: Duration = Duration::from_millis(10);
/// Longest time between checks: a stalled client blocks its origin no longer than this.
const WATCH_LAST: Duration = Duration::from_millis(640);

impl<S: BodyStream + 'static> BodyStream for BufferedBody<S> {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut state = self.state.borrow_mut();
        state.polls += 1;
        state.client_waits = false;
        if state.is_drained() && state.poll_write(context).is_pending() {
            state.client_waits = true;
            return Poll::Pending;
        }
        let piece = match state.take() {
            Some(piece) => Poll::Ready(piece),
            None => state.source.poll_chunk(context),
        };
        state.client_waits = piece.is_pending();
        // Behind the last piece no task is needed to read in the client's place.
        let watch =
            !self.watched && state.polls > 1 && state.spool.is_some() && !state.source.is_over();
        if watch && matches!(piece, Poll::Ready(Some(Ok(_)))) && state.ended.is_none() {
            self.watched = true;
            tidegate_rt::spawn_local(watch_client(self.state.clone()));
        }
        piece
    }

    fn trailers(&mut self) -> Option<Headers> {
        let trailers = self.state.borrow_mut().source.trailers()?;
        self.trailers.borrow_mut().clone_from(&trailers);
        Some(trailers)
    }
}

impl<S> Drop for BufferedBody<S> {
    fn drop(&mut self) {
        self.state.borrow_mut().client_gone = true;
    }
}

impl<S: BodyStream> BufferState<S> {
    /// Returns the next buffered piece; `None` when the source is to be polled.
    fn take(&mut self) -> Option<Option<Result<Chunk, BodyError>>> {
        if let Some(bytes) = self.memory.pop() {
            return Some(Some(Ok(Chunk::Bytes(bytes))));
        }
        if let Some(spilled) = &mut self.file {
            if spilled.read < spilled.written {
                let length = spilled.written - spilled.read;
                let range = FileRange::new(spilled.file.clone(), spilled.read, length);
                spilled.read = spilled.written;
                return Some(Some(Ok(Chunk::File(range))));
            }
            // All of the file has been passed on. It is not used again: the kernel may send its pages still.
            self.file = None;
        }
        if let Some(bytes) = self.unwritten.take() {
            return Some(Some(Ok(Chunk::Bytes(bytes))));
        }
        match self.ended.take()? {
            Ok(()) => {
                self.ended = Some(Ok(()));
                Some(None)
            }
            Err(error) => Some(Some(Err(error))),
        }
    }

    /// Buffers a piece: in memory, or behind the bytes in the file. The caller has checked that there is room.
    fn keep(&mut self, chunk: Chunk) {
        let Chunk::Bytes(bytes) = chunk else { return };
        match &self.spool {
            Some(spool) if self.is_spilling() || !self.has_memory_room() => {
                let written = write(spool, self.file.as_ref(), bytes.clone());
                self.writing = Some(PendingWrite { bytes, written });
            }
            _ => self.memory.push(bytes),
        }
    }

    /// Returns whether the file holds, or is about to hold, bytes that the client has not taken.
    fn is_spilling(&self) -> bool {
        self.writing.is_some()
            || self.unwritten.is_some()
            || self.file.as_ref().is_some_and(|file| file.read < file.written)
    }

    /// Returns whether the client has taken all bytes but those being written.
    fn is_drained(&self) -> bool {
        self.memory.is_empty() && self.file.as_ref().is_none_or(|file| file.read == file.written)
    }

    /// Is ready when nothing is being written.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(()) };
        let written = ready!(writing.written.as_mut().poll(context));
        let bytes = self.writing.take().map(|writing| writing.bytes).unwrap_or_default();
        let log = |made| self.spool.iter().for_each(|spool| (spool.log)(made));
        match written {
            Ok((file, made)) => {
                if let Some(path) = made.filter(|_| !self.is_announced) {
                    log(Ok(&path));
                    self.is_announced = true;
                }
                let spilled = self.file.get_or_insert(SpillFile { file, read: 0, written: 0 });
                spilled.written += bytes.len() as u64;
            }
            Err(error) => {
                log(Err(&error));
                self.unwritten = Some(bytes);
                self.file_bytes_max = 0;
            }
        }
        Poll::Ready(())
    }

    fn has_room(&self) -> bool {
        self.has_file_room() || (!self.is_spilling() && self.has_memory_room())
    }

    fn has_memory_room(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| self.memory.len() < spool.settings.memory_bytes_max)
    }

    fn has_file_room(&self) -> bool {
        self.file.as_ref().map_or(0, |file| file.written) < self.file_bytes_max
    }

    /// Reads in the client's place. Is ready when there is no more to do for now.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Bounded by the room: each iteration buffers at least a byte or ends.
        loop {
            if self.client_waits || self.client_gone || self.ended.is_some() {
                return Poll::Ready(());
            }
            ready!(self.poll_write(context));
            if !self.has_room() {
                return Poll::Ready(());
            }
            match self.source.poll_chunk(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(chunk))) => self.keep(chunk),
                Poll::Ready(Some(Err(error))) => self.ended = Some(Err(error)),
                Poll::Ready(None) => self.ended = Some(Ok(())),
            }
        }
    }
}

/// Writes behind the bytes in the file; creates the file if there is none, and removes its name.
fn write(
    spool: &Spool,
    known: Option<&SpillFile>,
    bytes: Bytes,
) -> LocalFuture<'static, io::Result<WriteResult>> {
    let settings = spool.settings.clone();
    let (known, at) =
        (known.map(|known| known.file.clone()), known.map_or(0, |known| known.written));
    Box::pin(blocking::run_on(spool.pool.as_deref(), move || {
        let (file, made) = match known {
            Some(file) => (file, None),
            None => {
                let (file, path) = temp_file::create(&settings.path, &settings.levels)?;
                fs::remove_file(&path)?;
                (Arc::new(file), Some(path))
            }
        };
        file::pwrite_all(&file, &bytes, at)?;
        Ok((file, made))
    }))
}

/// Checks at intervals whether the client has polled since the last check, and reads in its place when it has not.
async fn watch_client<S: BodyStream>(state: Rc<RefCell<BufferState<S>>>) {
    let mut pause = WATCH_FIRST;
    let mut polls = state.borrow().polls;
    loop {
        timer::sleep(pause).await;
        let (now, waits, over) = {
            let state = state.borrow();
            (state.polls, state.client_waits, state.client_gone || state.ended.is_some())
        };
        if over {
            return;
        }
        if now == polls && !waits {
            // The time limit releases the source once the client polls it again.
            let fill = poll_fn(|context| state.borrow_mut().poll_fill(context));
            let _ = timer::timeout(WATCH_LAST, fill).await;
        }
        polls = now;
        pause = (pause * 2).min(WATCH_LAST);
    }
}
