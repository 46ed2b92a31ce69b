//! Budgets: work that a peer can cause without paying for it.
//!
//! Each has a size. It is refilled by what useful peers do (heads, body bytes, responses that end), and to its size
//! after a window of time, so that only the rate above both counts.

use std::time::Duration;

use tidegate_fields::Budget;

use crate::config::Config;
use crate::error::{Fault, Flood};

/// What a head is worth in control frames.
const CONTROL_FRAMES_PER_HEAD: u32 = 16;
/// What a head is worth in instructions of the encoder stream: the fields of a common request.
const INSTRUCTIONS_PER_HEAD: u32 = 32;
/// Body bytes, received or sent, that are worth one control frame.
const BODY_BYTES_PER_CONTROL_FRAME: u64 = 256;
/// Resets that the limit on streams allows, each way.
const RESETS_PER_STREAM: u32 = 2;

/// All budgets of a connection.
#[derive(Debug)]
pub(crate) struct Budgets {
    control: Budget,
    resets: Budget,
    /// Instructions of the encoder stream.
    pub(crate) instructions: Budget,
    /// Body bytes not yet earned for.
    body_bytes: u64,
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
            instructions: Budget::new(config.instructions_max),
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
            self.instructions.earn(u32::MAX);
        }
    }

    /// A frame or a stream without content was received.
    pub(crate) fn control_frame(&mut self) -> Result<(), Fault> {
        self.control.spend().ok_or(Fault::Flood(Flood::ControlFrames))
    }

    /// A stream was reset by the peer, or refused.
    pub(crate) fn reset(&mut self) -> Result<(), Fault> {
        self.resets.spend().ok_or(Fault::Flood(Flood::Resets))
    }

    pub(crate) fn head(&mut self) {
        self.control.earn(CONTROL_FRAMES_PER_HEAD);
        self.instructions.earn(INSTRUCTIONS_PER_HEAD);
    }

    /// A message was sent to its end.
    pub(crate) fn message_sent(&mut self) {
        self.resets.earn(1);
    }

    /// Bytes of a body, received or sent.
    pub(crate) fn body(&mut self, bytes: u64) {
        let bytes = self.body_bytes.saturating_add(bytes);
        let earned = bytes / BODY_BYTES_PER_CONTROL_FRAME;
        self.control.earn(u32::try_from(earned).unwrap_or(u32::MAX));
        self.body_bytes = bytes % BODY_BYTES_PER_CONTROL_FRAME;
    }
}
