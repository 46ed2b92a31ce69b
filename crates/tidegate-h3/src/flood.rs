//! Budgets: work that a peer can cause without paying for it. What HTTP/2 has as well is in [`FloodBudgets`].

use std::time::Duration;

use tidegate_fields::{Budget, FloodBudgets};

use crate::config::Config;
use crate::error::{Fault, Flood};

/// What a head is worth in instructions of the encoder stream: the fields of a common request.
const INSTRUCTIONS_PER_HEAD: u32 = 32;

/// All budgets of a connection.
#[derive(Debug)]
pub(crate) struct Budgets {
    common: FloodBudgets,
    /// Instructions of the encoder stream.
    pub(crate) instructions: Budget,
}

impl Budgets {
    pub(crate) fn new(config: &Config) -> Budgets {
        let Config { control_frames_max, resets_max, streams_max, flood_window, .. } = *config;
        Budgets {
            common: FloodBudgets::new(control_frames_max, resets_max, streams_max, flood_window),
            instructions: Budget::new(config.instructions_max),
        }
    }

    /// Time has passed: refills once per window.
    pub(crate) fn now(&mut self, now: Duration) {
        if self.common.now(now) {
            self.instructions.earn(u32::MAX);
        }
    }

    /// A frame or a stream without content was received.
    pub(crate) fn control_frame(&mut self) -> Result<(), Fault> {
        self.common.control_frame().ok_or(Fault::Flood(Flood::ControlFrames))
    }

    /// A stream was reset by the peer, or refused.
    pub(crate) fn reset(&mut self) -> Result<(), Fault> {
        self.common.reset().ok_or(Fault::Flood(Flood::Resets))
    }

    pub(crate) fn head(&mut self) {
        self.common.head();
        self.instructions.earn(INSTRUCTIONS_PER_HEAD);
    }

    /// A message was sent to its end.
    pub(crate) fn message_sent(&mut self) {
        self.common.message_sent();
    }

    /// Bytes of a body, received or sent.
    pub(crate) fn body(&mut self, bytes: u64) {
        self.common.body(bytes);
    }
}
