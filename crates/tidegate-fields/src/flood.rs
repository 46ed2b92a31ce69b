//! Budgets against floods: work that a peer can cause without paying for it, in numbers of frames.
//!
//! Each has a size. It is refilled by what useful peers do (heads, body bytes, responses that end), and to its size
//! after a window of time, so that only the rate above both counts.

use std::time::Duration;

use crate::budget::Budget;

/// What a head is worth in control frames.
const CONTROL_FRAMES_PER_HEAD: u32 = 16;
/// Body bytes, received or sent, that are worth one control frame.
const BODY_BYTES_PER_CONTROL_FRAME: u64 = 256;
/// Resets that the limit on streams allows, each way.
const RESETS_PER_STREAM: u32 = 2;

/// The budgets that a connection has in both protocols.
#[derive(Debug)]
pub struct FloodBudgets {
    control: Budget,
    resets: Budget,
    /// Body bytes not yet earned for.
    body_bytes: u64,
    window: Duration,
    window_start: Duration,
}

impl FloodBudgets {
    /// Full budgets: of `control_frames_max` frames without content, and of `resets_max` resets, or twice `streams_max`.
    /// They are full again after each `window`.
    pub fn new(
        control_frames_max: u32,
        resets_max: Option<u32>,
        streams_max: u32,
        window: Duration,
    ) -> FloodBudgets {
        let of_streams = streams_max.max(1).saturating_mul(RESETS_PER_STREAM);
        FloodBudgets {
            control: Budget::new(control_frames_max),
            resets: Budget::new(resets_max.unwrap_or(of_streams)),
            body_bytes: 0,
            window,
            window_start: Duration::ZERO,
        }
    }

    /// Time has passed: refills once per window. Returns whether it did.
    #[inline]
    pub fn now(&mut self, now: Duration) -> bool {
        let is_over = now.saturating_sub(self.window_start) >= self.window;
        if is_over {
            self.window_start = now;
            self.control.earn(u32::MAX);
            self.resets.earn(u32::MAX);
        }
        is_over
    }

    /// Whether the peer has spent more than half of a budget.
    #[inline]
    pub fn are_low(&self) -> bool {
        self.control.is_low() || self.resets.is_low()
    }

    /// Spends for a frame without content; `None` where the budget is used up.
    #[inline]
    pub fn control_frame(&mut self) -> Option<()> {
        self.control.spend()
    }

    /// Spends for a stream that was reset; `None` where the budget is used up.
    #[inline]
    pub fn reset(&mut self) -> Option<()> {
        self.resets.spend()
    }

    /// Earns for a head.
    #[inline]
    pub fn head(&mut self) {
        self.control.earn(CONTROL_FRAMES_PER_HEAD);
    }

    /// Earns for a message that was sent to its end.
    #[inline]
    pub fn message_sent(&mut self) {
        self.resets.earn(1);
    }

    /// Earns for bytes of a body, received or sent.
    #[inline]
    pub fn body(&mut self, bytes: u64) {
        let bytes = self.body_bytes.saturating_add(bytes);
        let earned = bytes / BODY_BYTES_PER_CONTROL_FRAME;
        self.control.earn(u32::try_from(earned).unwrap_or(u32::MAX));
        self.body_bytes = bytes % BODY_BYTES_PER_CONTROL_FRAME;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_earned_back_and_refilled() {
        let mut budgets = FloodBudgets::new(20, None, 2, Duration::from_secs(10));
        let spend =
            |budgets: &mut FloodBudgets| (0..100).map_while(|_| budgets.control_frame()).count();
        let reset = |budgets: &mut FloodBudgets| (0..100).map_while(|_| budgets.reset()).count();
        assert!(!budgets.are_low());
        assert_eq!(spend(&mut budgets), 20);
        assert!(budgets.are_low());
        budgets.head();
        assert_eq!(spend(&mut budgets), 16);
        (0..10).for_each(|_| budgets.body(256));
        budgets.body(128);
        budgets.body(128);
        assert_eq!(spend(&mut budgets), 11);
        assert!(!budgets.now(Duration::from_secs(9)));
        assert_eq!(spend(&mut budgets), 0);
        assert!(budgets.now(Duration::from_secs(10)));
        budgets.body(u64::MAX);
        assert_eq!(spend(&mut budgets), 20);
        assert_eq!(reset(&mut budgets), 4);
        budgets.message_sent();
        assert_eq!(reset(&mut budgets), 1);
        assert_eq!(reset(&mut FloodBudgets::new(0, Some(7), 2, Duration::ZERO)), 7);
    }
}
