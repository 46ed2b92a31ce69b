//! A streamed answer on its way to the client (`*_buffering`): as long as the client keeps up, its own
//! polling reads the origin and nothing is in between. A client that does not keep up is noticed by a task
//! that wakes now and then; the task then reads the origin in its place, into memory up to `*_buffers`, then
//! into a temporary file up to `*_max_temp_file_size`, then not at all: back-pressure.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::body::{Body, BodyError, BodyStream, Chunk, FileRange};
use tidegate_core::{LocalFuture, blocking, temp_file};
use tidegate_http::Headers;
use tidegate_os::file;
use tidegate_rt::timer;

use super::settings::SpoolSettings;

/// The body for the client; with `spool` the origin is read whatever the client's speed.
pub fn body<S: BodyStream + 'static>(
    source: Box<S>,
    spool: Option<&SpoolSettings>,
    trailers: Rc<RefCell<Headers>>,
    told: SpillLog,
) -> Body {
    let state = State {
        source,
        spool: spool.cloned(),
        memory: VecDeque::new(),
        memory_bytes: 0,
        file: None,
        writing: None,
        ended: None,
        polls: 0,
        client_waits: false,
        client_gone: false,
        told,
    };
    let state = Rc::new(RefCell::new(state));
    Body::Stream(Box::new(Buffered { state, trailers, watched: false }))
}

/// The client's end.
struct Buffered<S> {
    state: Rc<RefCell<State<S>>>,
    trailers: Rc<RefCell<Headers>>,
    /// The task that notices a slow client runs.
    watched: bool,
}

struct State<S> {
    source: Box<S>,
    /// `None`: unbuffered.
    spool: Option<SpoolSettings>,
    /// Older than what is in the file.
    memory: VecDeque<Bytes>,
    memory_bytes: u64,
    file: Option<Spilled>,
    /// Bytes on their way into the file, behind all others (`aio_write`).
    writing: Option<Writing>,
    /// The source is over, and how.
    ended: Option<Result<(), BodyError>>,
    /// How often the client asked.
    polls: u64,
    /// The client's task waits for the source: nobody else may poll it.
    client_waits: bool,
    client_gone: bool,
    /// Told when a file is made.
    told: SpillLog,
}

/// Says in the error log that an answer goes through a file.
pub type SpillLog = Box<dyn Fn(&Path)>;

/// The part of the answer in a temporary file, which has no name any more.
struct Spilled {
    file: Arc<File>,
    read: u64,
    written: u64,
}

/// Bytes that a pool thread writes.
struct Writing {
    bytes: Bytes,
    written: LocalFuture<'static, io::Result<()>>,
}

/// First look after a client's second piece; later looks come half as often each time.
const WATCH_FIRST: Duration = Duration::from_millis(10);
/// Longest time between looks: a stuck client holds its origin no longer than this.
const WATCH_LAST: Duration = Duration::from_millis(640);

impl<S: BodyStream + 'static> BodyStream for Buffered<S> {
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
        // With the last piece the source needs nobody who reads it in the client's place.
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

impl<S> Drop for Buffered<S> {
    fn drop(&mut self) {
        self.state.borrow_mut().client_gone = true;
    }
}

impl<S: BodyStream> State<S> {
    /// What was read in the client's place; `None` when the source is to be asked.
    fn take(&mut self) -> Option<Option<Result<Chunk, BodyError>>> {
        if let Some(bytes) = self.memory.pop_front() {
            self.memory_bytes -= bytes.len() as u64;
            return Some(Some(Ok(Chunk::Bytes(bytes))));
        }
        if let Some(spilled) = &mut self.file {
            if spilled.read < spilled.written {
                let length = spilled.written - spilled.read;
                let range = FileRange::new(spilled.file.clone(), spilled.read, length);
                spilled.read = spilled.written;
                return Some(Some(Ok(Chunk::File(range))));
            }
            // The client asks again, so all of the file has left: it can be written anew.
            (spilled.read, spilled.written) = (0, 0);
        }
        match self.ended.take()? {
            Ok(()) => {
                self.ended = Some(Ok(()));
                Some(None)
            }
            Err(error) => Some(Some(Err(error))),
        }
    }

    /// Keeps a piece: in memory, or behind what is in the file.
    fn keep(&mut self, chunk: Chunk) {
        let Chunk::Bytes(bytes) = chunk else { return };
        let spilling = self.is_spilling();
        if (spilling || !self.has_memory_room()) && self.spill(&bytes).is_ok() {
            return;
        }
        if spilling {
            // What is in memory goes first, so the order would be lost.
            self.ended = Some(Err(BodyError::Incomplete));
            return;
        }
        self.memory_bytes += bytes.len() as u64;
        self.memory.push_back(bytes);
    }

    /// The file holds bytes that the client has not taken, or is about to.
    fn is_spilling(&self) -> bool {
        self.writing.is_some() || self.file.as_ref().is_some_and(|file| file.read < file.written)
    }

    /// The client has taken all but what is being written.
    fn is_drained(&self) -> bool {
        self.memory.is_empty() && self.file.as_ref().is_none_or(|file| file.read == file.written)
    }

    /// Ready when nothing is being written.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(()) };
        let written = ready!(writing.written.as_mut().poll(context));
        let length = writing.bytes.len() as u64;
        let bytes = self.writing.take().map(|writing| writing.bytes).unwrap_or_default();
        let drained = self.is_drained();
        match (written, &mut self.file) {
            (Ok(()), Some(spilled)) => spilled.written += length,
            _ if drained => {
                self.memory_bytes += length;
                self.memory.push_back(bytes);
            }
            // What the client has not taken goes first, so the order would be lost.
            _ => self.ended = Some(Err(BodyError::Incomplete)),
        }
        Poll::Ready(())
    }

    fn has_room(&self) -> bool {
        self.has_file_room() || (!self.is_spilling() && self.has_memory_room())
    }

    fn has_memory_room(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| self.memory_bytes < spool.memory_bytes_max)
    }

    fn has_file_room(&self) -> bool {
        let written = self.file.as_ref().map_or(0, |file| file.written);
        self.spool.as_ref().is_some_and(|spool| written < spool.file_bytes_max)
    }

    fn spill(&mut self, bytes: &Bytes) -> io::Result<()> {
        let Some(spool) = &self.spool else { return Err(io::ErrorKind::Unsupported.into()) };
        let (spool_in_pool, pool) = (spool.writes_in_pool, spool.pool.clone());
        if spool.file_bytes_max == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let spilled = match &mut self.file {
            Some(spilled) => spilled,
            None => {
                let created = temp_file::create(&spool.path, &spool.levels);
                let made = created.and_then(|(file, path)| {
                    (self.told)(&path);
                    std::fs::remove_file(&path).map(|()| file)
                });
                let file = match made {
                    Ok(file) => file,
                    Err(error) => {
                        // Without a file the client's pace holds the origin back, as with size 0.
                        if let Some(spool) = &mut self.spool {
                            spool.file_bytes_max = 0;
                        }
                        return Err(error);
                    }
                };
                self.file.insert(Spilled { file: Arc::new(file), read: 0, written: 0 })
            }
        };
        let at = spilled.written;
        if spool_in_pool {
            let (file, bytes) = (spilled.file.clone(), bytes.clone());
            let job = bytes.clone();
            let written = Box::pin(blocking::run_on(pool.as_deref(), move || {
                file::pwrite_all(&file, &job, at)
            }));
            self.writing = Some(Writing { bytes, written });
            return Ok(());
        }
        file::pwrite_all(&spilled.file, bytes, at)?;
        spilled.written += bytes.len() as u64;
        Ok(())
    }

    /// Reads in the client's place. Ready when there is no more to do for now.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Bounded by the room: each turn keeps at least a byte or ends.
        loop {
            if self.client_waits || self.client_gone || self.ended.is_some() {
                return Poll::Ready(());
            }
            ready!(self.poll_write(context));
            if self.ended.is_some() || !self.has_room() {
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

/// Looks whether the client has asked since the last look, and reads in its place when it has not.
async fn watch_client<S: BodyStream>(state: Rc<RefCell<State<S>>>) {
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
            // The time limit lets go of the source once the client polls it again.
            let fill = poll_fn(|context| state.borrow_mut().poll_fill(context));
            let _ = timer::timeout(WATCH_LAST, fill).await;
        }
        polls = now;
        pause = (pause * 2).min(WATCH_LAST);
    }
}
