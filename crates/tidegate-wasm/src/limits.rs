//! The memory limit of an instance.

use wasmtime::ResourceLimiter;

/// Bytes of a table's element.
const ELEMENT_BYTES: usize = size_of::<usize>();

/// The limit of an instance's memories and tables together.
#[derive(Debug)]
pub(crate) struct Limits {
    left: usize,
    /// Whether a growth was refused. `memory.grow` returns -1 to the program then; most programs trap.
    pub exceeded: bool,
}

impl Limits {
    pub(crate) fn new(bytes_max: usize) -> Limits {
        Limits { left: bytes_max, exceeded: false }
    }

    fn take(&mut self, current: usize, desired: usize, unit: usize) -> bool {
        let more = desired.saturating_sub(current).saturating_mul(unit);
        let left = self.left.checked_sub(more);
        self.exceeded |= left.is_none();
        // A program may ask for less where much was refused.
        self.left = left.unwrap_or(self.left);
        left.is_some()
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
