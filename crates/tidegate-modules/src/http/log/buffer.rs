//! Buffered logs: each thread has a buffer of its own for each file.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_core::log_file::LogFile;
use tidegate_core::plan::Service;
use tidegate_rt::clock;

use super::conf::BufferConf;

/// A buffered log file.
pub(super) struct Buffer {
    file: Arc<LogFile>,
    conf: BufferConf,
    /// One for each thread; with more threads than shards some share one.
    shards: [Mutex<Shard>; SHARD_COUNT],
}

/// Shows the file and its limits.
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.file, &self.conf).fmt(f)
    }
}

#[derive(Default)]
struct Shard {
    lines: Vec<u8>,
    /// Time of the first buffered line.
    since: Option<Instant>,
}

/// Enough that the worker threads of common machines do not share one.
const SHARD_COUNT: usize = 32;

/// All buffers of the process.
static BUFFERS: Mutex<Vec<Weak<Buffer>>> = Mutex::new(Vec::new());

/// Writes out every buffer of the process: before logs are reopened, and at the end.
pub fn flush_logs() {
    let buffers: Vec<_> = {
        let buffers = lock(&BUFFERS);
        buffers.iter().filter_map(Weak::upgrade).collect()
    };
    buffers.iter().for_each(|buffer| buffer.flush(|_| true));
}

impl Buffer {
    pub(super) fn new(file: Arc<LogFile>, conf: BufferConf) -> Arc<Buffer> {
        let shards = [const { Mutex::new(Shard { lines: Vec::new(), since: None }) }; SHARD_COUNT];
        let buffer = Arc::new(Buffer { file, conf, shards });
        let mut buffers = lock(&BUFFERS);
        buffers.retain(|buffer| buffer.strong_count() > 0);
        buffers.push(Arc::downgrade(&buffer));
        buffer
    }

    pub(super) fn conf(&self) -> &BufferConf {
        &self.conf
    }

    /// Adds a line with its line feed; writes the buffer out first when the line does not fit.
    pub(super) fn write(&self, line: &[u8], now: Instant) {
        let mut shard = lock(&self.shards[thread_number() % SHARD_COUNT]);
        if shard.lines.len() + line.len() > self.conf.bytes {
            self.flush_shard(&mut shard);
        }
        if line.len() > self.conf.bytes {
            self.write_out(line);
            return;
        }
        shard.since.get_or_insert(now);
        shard.lines.extend_from_slice(line);
    }

    /// Writes out the shards for which `due` returns true, given the time of their first line.
    fn flush(&self, due: impl Fn(Instant) -> bool) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            if shard.since.is_some_and(&due) {
                self.flush_shard(&mut shard);
            }
        }
    }

    fn flush_shard(&self, shard: &mut Shard) {
        if !shard.lines.is_empty() {
            self.write_out(&shard.lines);
            shard.lines.clear();
        }
        shard.since = None;
    }

    fn write_out(&self, lines: &[u8]) {
        let Some(level) = self.conf.gzip else { return self.file.write(lines) };
        let level = flate2::Compression::new(level);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        // cannot fail: a vector takes everything
        if encoder.write_all(lines).is_ok()
            && let Ok(member) = encoder.finish()
        {
            self.file.write(&member);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.flush(|_| true);
    }
}

/// Writes out buffers whose `flush` time has passed.
#[derive(Default)]
pub(super) struct FlushService {
    buffers: Mutex<Vec<Arc<Buffer>>>,
}

impl FlushService {
    pub(super) fn add(&self, buffer: Arc<Buffer>) {
        lock(&self.buffers).push(buffer);
    }
}

impl Service for FlushService {
    fn name(&self) -> String {
        "access log flush".to_owned()
    }

    fn step(&self) -> Duration {
        let now = clock::now();
        let mut next = STEP_MAX;
        for buffer in lock(&self.buffers).iter() {
            let Some(flush) = buffer.conf.flush else { continue };
            buffer.flush(|since| now.saturating_duration_since(since) >= flush);
            next = next.min(flush / 4);
        }
        next.max(STEP_MIN)
    }
}

/// Least interval between two checks of the buffers.
const STEP_MIN: Duration = Duration::from_millis(10);
const STEP_MAX: Duration = Duration::from_secs(1);

fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Locks a mutex; also after a panic, as a shard only ever holds whole lines.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
