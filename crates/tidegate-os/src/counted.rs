//! The allocator of the system, with the number of allocations of each thread: for tests and measurements.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator for `#[global_allocator]`.
pub struct Counted;

/// Returns how often the calling thread has allocated memory or made a block larger or smaller, since it began.
pub fn allocations() -> u64 {
    COUNT.try_with(Cell::get).unwrap_or(0)
}

thread_local! {
    // Needs neither memory nor a destructor.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = COUNT.try_with(|count| count.set(count.get().wrapping_add(1)));
}

// SAFETY: each call is passed to the system's allocator as it is, and counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the conditions of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is the system's, since all allocations are; the caller gives it up.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `dealloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}
