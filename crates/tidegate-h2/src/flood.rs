//! Budgets: work that a peer can cause without paying for it. What HTTP/3 has as well is in [`FloodBudgets`].

use std::time::Duration;

use tidegate_fields::FloodBudgets;

use crate::config::Config;
use crate::error::{Fault, Flood};

/// The largest frame that only replies: PING.
const REPLY_BYTES_MAX: usize = 17;

/// All budgets of a connection.
#[derive(Debug)]
pub(crate) struct Budgets {
    common: FloodBudgets,
    /// Replies in the output that the peer has not read.
    replies: u32,
    replies_max: u32,
    /// Bytes of the output that were sent and are less than a reply.
    sent_bytes: usize,
}

impl Budgets {
    pub(crate) fn new(config: &Config) -> Budgets {
        let Config { control_frames_max, resets_max, streams_max, flood_window, .. } = *config;
        Budgets {
            common: FloodBudgets::new(control_frames_max, resets_max, streams_max, flood_window),
            replies: 0,
            replies_max: config.replies_max,
            sent_bytes: 0,
        }
    }

    /// Time has passed: refills once per window.
    pub(crate) fn now(&mut self, now: Duration) {
        self.common.now(now);
    }

    /// Whether the peer has spent more than half of a budget.
    pub(crate) fn are_low(&self) -> bool {
        self.common.are_low()
    }

    /// A frame without content was received.
    pub(crate) fn control_frame(&mut self) -> Result<(), Fault> {
        self.common.control_frame().ok_or(Fault::Flood(Flood::ControlFrames))
    }

    /// A stream ended by an error, with RST_STREAM of either side.
    pub(crate) fn reset(&mut self) -> Result<(), Fault> {
        self.common.reset().ok_or(Fault::Flood(Flood::Resets))
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
        self.common.head();
    }

    /// A message was sent to its end.
    pub(crate) fn message_sent(&mut self) {
        self.common.message_sent();
    }

    /// Bytes of a body, received or sent.
    pub(crate) fn body(&mut self, bytes: u32) {
        self.common.body(bytes.into());
    }
}

#[cfg(test)]
mod tests {
    use super::Budgets;
    use crate::config::Config;

    #[test]
    fn replies_count_until_they_are_sent() {
        let config = Config { replies_max: 3, ..Config::default() };
        let mut budgets = Budgets::new(&config);
        assert_eq!((0..100).take_while(|_| budgets.reply().is_ok()).count(), 3);
        budgets.replies_sent();
        assert_eq!((0..100).take_while(|_| budgets.reply().is_ok()).count(), 3);
        // One more was refused, and counts until it is sent.
        (0..34).for_each(|_| budgets.output_sent(1));
        assert_eq!((budgets.reply(), budgets.reply().is_err()), (Ok(()), true));
    }
}
