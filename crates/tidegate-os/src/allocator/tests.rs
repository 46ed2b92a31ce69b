//! Blocks of all kinds of layouts.

use super::*;

/// Blocks of every small size and alignment, many of each alive at once.
#[test]
fn blocks_are_aligned_and_keep_their_bytes() {
    for align in (0..=12).map(|power| 1usize << power) {
        for size in (1..=300).chain([1000, 4096, 70_000]) {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let more = Layout::from_size_align(size * 2 + 1, align).expect("a layout");
            let blocks: Vec<*mut u8> = (0..5).map(|turn| block(layout, turn)).collect();
            for (turn, block) in (0..5).zip(blocks) {
                // SAFETY: the block has this layout and is given up once, as it is after `realloc`.
                unsafe {
                    let grown = Allocator.realloc(block, layout, more.size());
                    assert!(!grown.is_null() && grown.addr() % align == 0, "{size} {align}");
                    let bytes = std::slice::from_raw_parts(grown, size);
                    assert!(bytes.iter().all(|byte| *byte == turn), "{size} {align}");
                    Allocator.dealloc(grown, more);
                }
            }
        }
    }
}

/// Makes one block filled with a number, zeroed in some rounds.
fn block(layout: Layout, turn: u8) -> *mut u8 {
    // SAFETY: the layout has a size, and the bytes written are the block's.
    unsafe {
        let block = match turn {
            0 => Allocator.alloc_zeroed(layout),
            _ => Allocator.alloc(layout),
        };
        assert!(!block.is_null() && block.addr() % layout.align() == 0, "{layout:?}");
        if turn > 0 {
            block.write_bytes(turn, layout.size());
        }
        block
    }
}
