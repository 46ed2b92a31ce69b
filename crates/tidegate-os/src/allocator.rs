//! The allocator of the whole program: mimalloc, called the short way.
//!
//! mimalloc aligns every block to 16 bytes, and one of at most 8 bytes to 8 (its `MI_MAX_ALIGN_SIZE`). Nearly all
//! memory of a Rust program asks for no more, so its plain calls do. Those that take an alignment look at the address
//! of the next free block, and leave the short way when there is none: more than a hundred instructions for the only
//! block of its size.

#[cfg(test)]
mod tests;

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mimalloc;

/// Memory by mimalloc, for `#[global_allocator]`.
pub struct Allocator;

/// The alignment that mimalloc gives without being asked, bytes.
const ALIGNMENT: usize = 16;

/// Whether blocks of this layout are aligned by themselves: one that is no larger than its alignment may be given a
/// smaller block.
#[inline]
const fn is_plain(layout: Layout) -> bool {
    layout.align() <= ALIGNMENT && layout.align() <= layout.size()
}

// SAFETY: each call hands the layout's size, and its alignment where mimalloc does not keep that by itself, to the
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
