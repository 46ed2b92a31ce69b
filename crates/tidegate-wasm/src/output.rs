//! Standard output and error of an instance: the last bytes are kept for the error log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Most bytes that are kept.
const KEPT_BYTES: usize = 4 << 10;
/// Longest single write, in bytes.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Standard output and error together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    /// Takes the kept output as one line.
    pub(crate) fn take_line(&self) -> String {
        let bytes = std::mem::take(&mut *self.kept());
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
        lines.join(" | ")
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.extend_from_slice(bytes);
        let too_many = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..too_many);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // For later versions of the interface, which are not offered.
        Box::new(tokio::io::sink())
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.keep(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}
