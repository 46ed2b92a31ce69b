//! The allocator of the whole program: mimalloc, called by its shortest paths.
//!
//! mimalloc aligns every block to 16 bytes, and one of at most 8 bytes to 8 (its `MI_MAX_ALIGN_SIZE`). Nearly all
//! memory of a Rust program needs no more, so the plain calls are enough. The calls with an alignment check the address
//! of the next free block, and leave the short path when there is none: more than a hundred instructions for the only
//! block of its size.

#[cfg(test)]
mod tests;

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mimalloc;

/// The allocator for `#[global_allocator]`: mimalloc.
pub struct Allocator;

/// Returns memory that the calling thread has freed, and that others have freed for it, to the system. It takes some
/// milliseconds for each hundred megabytes.
pub(crate) fn return_free_memory() {
    // SAFETY: any thread may ask for it at any time.
    unsafe { mi_collect(true) };
}

unsafe extern "C" {
    /// Frees what is free; with `force`, the system gets it back at once. The crate declares it with all of mimalloc's
    /// further functions only.
    fn mi_collect(force: bool);
}

/// The alignment of mimalloc's plain calls, bytes.
const ALIGNMENT: usize = 16;

/// Whether the plain calls align blocks of this layout: a block that is smaller than its alignment may be placed less
/// aligned.
#[inline]
const fn is_plain(layout: Layout) -> bool {
    layout.align() <= ALIGNMENT && layout.align() <= layout.size()
}

// SAFETY: each call passes the layout's size, and its alignment where mimalloc does not keep that by itself, to the
// function of mimalloc for it. All blocks are mimalloc's, whichever call made them, and may be given to `mi_free` and
// `mi_realloc`. mimalloc returns null where there is no memory, and never unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two is a valid request.
        unsafe {
            match is_plain(layout) {
                true => mimalloc::mi_malloc(layout.size()).cast(),
                false => mimalloc::mi_malloc_aligned(layout.size(), layout.align()).cast(),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe {
            match is_plain(layout) {
                true => mimalloc::mi_zalloc(layout.size()).cast(),
                false => mimalloc::mi_zalloc_aligned(layout.size(), layout.align()).cast(),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block is one of `alloc`, `alloc_zeroed` or `realloc`, so mimalloc's; the caller gives it up.
        unsafe { mimalloc::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`. Alignment is that of the new size, which the caller has checked for overflow.
        unsafe {
            match layout.align() <= ALIGNMENT && layout.align() <= size {
                true => mimalloc::mi_realloc(block.cast(), size).cast(),
                false => mimalloc::mi_realloc_aligned(block.cast(), size, layout.align()).cast(),
            }
        }
    }
}
