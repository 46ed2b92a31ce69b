//! Budgets: work that a peer can cause without paying for it, in numbers of frames.
//!
//! Each has a size. It is refilled by what useful peers do (heads, body bytes, responses that end), and to its size
//! after a window of time, so that only the rate above both counts.

use std::time::Duration;

use tidegate_fields::Budget;

use crate::config::Config;
use crate::error::{Fault, Flood};

/// What a head is worth in control frames.
const CONTROL_FRAMES_PER_HEAD: u32 = 16;
/// Body bytes, received or sent, that are worth one control frame.
const BODY_BYTES_PER_CONTROL_FRAME: u32 = 256;
/// The largest frame that only replies: PING.
const REPLY_BYTES_MAX: usize = 17;
/// Resets that the limit on streams allows, each way.
const RESETS_PER_STREAM: u32 = 2;

/// All budgets of a connection.
#[derive(Debug)]
pub(crate) struct Budgets {
    control: Budget,
    resets: Budget,
    /// Replies in the output that the peer has not read.
    replies: u32,
    replies_max: u32,
    /// Bytes of the output that were sent and are less than a reply.
    sent_bytes: usize,
    /// Body bytes not yet earned for.
    body_bytes: u32,
    window: Duration,
    window_start: Duration,
}

impl Budgets {
    pub(crate) fn new(config: &Config) -> Budgets {
        let resets = config
            .resets_max
            .unwrap_or(config.streams_max.max(1).saturating_mul(RESETS_PER_STREAM));
        Budgets {
            control: Budget::new(config.control_frames_max),
            resets: Budget::new(resets),
            replies: 0,
            replies_max: config.replies_max,
            sent_bytes: 0,
            body_bytes: 0,
            window: config.flood_window,
            window_start: Duration::ZERO,
        }
    }

    /// Time has passed: refills once per window.
    pub(crate) fn now(&mut self, now: Duration) {
        if now.saturating_sub(self.window_start) >= self.window {
            self.window_start = now;
            self.control.earn(u32::MAX);
            self.resets.earn(u32::MAX);
        }
    }

    /// Whether the peer has spent more than half of a budget.
    pub(crate) fn are_low(&self) -> bool {
        self.control.is_low() || self.resets.is_low()
    }

    /// A frame without content was received.
    pub(crate) fn control_frame(&mut self) -> Result<(), Fault> {
        self.control.spend().ok_or(Fault::Flood(Flood::ControlFrames))
    }

    /// A stream ended by an error, with RST_STREAM of either side.
    pub(crate) fn reset(&mut self) -> Result<(), Fault> {
        self.resets.spend().ok_or(Fault::Flood(Flood::Resets))
    }

    /// A frame that only replies is added to the output.
    pub(crate) fn reply(&mut self) -> Result<(), Fault> {
        self.replies += 1;
        match self.replies > self.replies_max {
            true => Err(Fault::Flood(Flood::Replies)),
            false => Ok(()),
        }
    }

    /// A part of the output was sent. It makes room for as many bytes of replies, whatever it was, so that a client
    /// that reads slowly and without a break may go on, and the output does not grow.
    pub(crate) fn output_sent(&mut self, bytes: usize) {
        let bytes = self.sent_bytes.saturating_add(bytes);
        let replies = u32::try_from(bytes / REPLY_BYTES_MAX).unwrap_or(u32::MAX);
        self.replies = self.replies.saturating_sub(replies);
        self.sent_bytes = bytes % REPLY_BYTES_MAX;
    }

    /// All of the output was sent.
    pub(crate) fn replies_sent(&mut self) {
        self.replies = 0;
        self.sent_bytes = 0;
    }

    pub(crate) fn head(&mut self) {
        self.control.earn(CONTROL_FRAMES_PER_HEAD);
    }

    /// A message was sent to its end.
    pub(crate) fn message_sent(&mut self) {
        self.resets.earn(1);
    }

    /// Bytes of a body, received or sent.
    pub(crate) fn body(&mut self, bytes: u32) {
        let bytes = self.body_bytes.saturating_add(bytes);
        self.control.earn(bytes / BODY_BYTES_PER_CONTROL_FRAME);
        self.body_bytes = bytes % BODY_BYTES_PER_CONTROL_FRAME;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Budgets;
    use crate::config::Config;
    use crate::error::{Fault, Flood};

    #[test]
    fn budgets_are_earned_back_and_refilled() {
        let config = Config {
            control_frames_max: 20,
            streams_max: 2,
            replies_max: 3,
            flood_window: Duration::from_secs(10),
            ..Config::default()
        };
        let mut budgets = Budgets::new(&config);
        let spend = |budgets: &mut Budgets| {
            (0..100).take_while(|_| budgets.control_frame().is_ok()).count()
        };
        assert!(!budgets.are_low());
        assert_eq!(spend(&mut budgets), 20);
        assert!(budgets.are_low());
        assert_eq!(budgets.control_frame(), Err(Fault::Flood(Flood::ControlFrames)));
        budgets.head();
        assert_eq!(spend(&mut budgets), 16);
        (0..10).for_each(|_| budgets.body(256));
        budgets.body(128);
        budgets.body(128);
        assert_eq!(spend(&mut budgets), 11);
        budgets.now(Duration::from_secs(9));
        assert_eq!(spend(&mut budgets), 0);
        budgets.now(Duration::from_secs(10));
        budgets.body(u32::MAX);
        assert_eq!(spend(&mut budgets), 20);
        assert_eq!((0..100).take_while(|_| budgets.reset().is_ok()).count(), 4);
        budgets.message_sent();
        assert_eq!((0..100).take_while(|_| budgets.reset().is_ok()).count(), 1);
        assert_eq!((0..100).take_while(|_| budgets.reply().is_ok()).count(), 3);
        budgets.replies_sent();
        assert_eq!((0..100).take_while(|_| budgets.reply().is_ok()).count(), 3);
        // One more was refused, and counts until it is sent.
        (0..34).for_each(|_| budgets.output_sent(1));
        assert_eq!((budgets.reply(), budgets.reply().is_err()), (Ok(()), true));
    }
}
