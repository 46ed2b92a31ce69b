//! What an instance may take of the server's memory.

use wasmtime::ResourceLimiter;

/// What an element of a table costs.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// Counts the memories and tables of an instance together.
#[derive(Debug)]
pub(crate) struct Limits {
    left: usize,
    /// Something was refused. The program is told (`memory.grow` gives -1); most of them trap then.
    pub exceeded: bool,
}

impl Limits {
    pub(crate) fn new(bytes_max: usize) -> Limits {
        Limits { left: bytes_max, exceeded: false }
    }

    fn take(&mut self, current: usize, desired: usize, unit: usize) -> bool {
        let more = desired.saturating_sub(current).saturating_mul(unit);
        match self.left.checked_sub(more) {
            Some(left) => self.left = left,
            None => self.exceeded = true,
        }
        !self.exceeded
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.take(current, desired, 1))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.take(current, desired, ELEMENT_BYTES))
    }
}
