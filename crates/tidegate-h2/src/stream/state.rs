//! The states of a stream (RFC 9113 section 5.1). The reserved states are missing: nothing is pushed.
//!
//! ```text
//!                      idle
//!                       │ head
//!                      open ───────── RST_STREAM ────────┐
//!         END_STREAM   │  │   END_STREAM                 │
//!          received    │  │      sent                    │
//!   half-closed (remote)  half-closed (local) ── RST ────┤
//!     END_STREAM sent  │  │  END_STREAM received         │
//!                      closed ◄──────────────────────────┘
//! ```

/// What a stream's frames may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No frame yet.
    Idle,
    /// Both sides may send.
    Open,
    /// We have ended our side.
    HalfClosedLocal,
    /// The peer has ended its side.
    HalfClosedRemote,
    /// Neither sends any more.
    Closed(Closed),
}

/// How a stream was closed; it decides what late frames mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// Both sides ended.
    Ended,
    /// We sent RST_STREAM: frames that were on their way are ignored.
    ResetSent,
    /// The peer sent RST_STREAM.
    ResetReceived,
}

/// Why a frame does not fit the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateError {
    /// The stream has not begun: a connection error.
    Idle,
    /// The sender had ended it: a stream error STREAM_CLOSED.
    Closed,
    /// It was on its way when we reset the stream.
    Late,
}

impl State {
    /// The peer sent a head or a trailer section, with END_STREAM if `end` is set.
    ///
    /// # Errors
    /// The state does not allow it.
    pub fn receive_head(self, end: bool) -> Result<State, StateError> {
        match self {
            State::Idle if end => Ok(State::HalfClosedRemote),
            State::Idle => Ok(State::Open),
            open => open.receive_data(end),
        }
    }

    /// The peer sent DATA.
    ///
    /// # Errors
    /// The state does not allow it.
    pub fn receive_data(self, end: bool) -> Result<State, StateError> {
        match self {
            State::Open | State::HalfClosedLocal if !end => Ok(self),
            State::Open => Ok(State::HalfClosedRemote),
            State::HalfClosedLocal => Ok(State::Closed(Closed::Ended)),
            State::Idle => Err(StateError::Idle),
            State::Closed(Closed::ResetSent) => Err(StateError::Late),
            State::HalfClosedRemote | State::Closed(_) => Err(StateError::Closed),
        }
    }

    /// The peer sent RST_STREAM. On a closed stream nothing changes.
    ///
    /// # Errors
    /// The stream is idle.
    pub fn receive_reset(self) -> Result<State, StateError> {
        match self {
            State::Idle => Err(StateError::Idle),
            State::Closed(_) => Ok(self),
            _ => Ok(State::Closed(Closed::ResetReceived)),
        }
    }

    /// We send a head or a trailer section.
    ///
    /// # Errors
    /// Our side has ended.
    pub fn send_head(self, end: bool) -> Result<State, StateError> {
        match self {
            State::Idle if end => Ok(State::HalfClosedLocal),
            State::Idle => Ok(State::Open),
            open => open.send_data(end),
        }
    }

    /// We send DATA.
    ///
    /// # Errors
    /// Our side has ended, or has not begun.
    pub fn send_data(self, end: bool) -> Result<State, StateError> {
        match self {
            State::Open | State::HalfClosedRemote if !end => Ok(self),
            State::Open => Ok(State::HalfClosedLocal),
            State::HalfClosedRemote => Ok(State::Closed(Closed::Ended)),
            State::Idle => Err(StateError::Idle),
            State::HalfClosedLocal | State::Closed(_) => Err(StateError::Closed),
        }
    }

    /// We send RST_STREAM.
    ///
    /// # Errors
    /// The stream is idle or closed: nothing may be sent.
    pub fn send_reset(self) -> Result<State, StateError> {
        match self {
            State::Idle => Err(StateError::Idle),
            State::Closed(_) => Err(StateError::Closed),
            _ => Ok(State::Closed(Closed::ResetSent)),
        }
    }

    /// Whether neither side sends any more.
    pub fn is_closed(self) -> bool {
        matches!(self, State::Closed(_))
    }

    /// Whether we may still send.
    pub fn may_send(self) -> bool {
        matches!(self, State::Open | State::HalfClosedRemote)
    }

    /// Whether the peer may still send.
    pub fn may_receive(self) -> bool {
        matches!(self, State::Open | State::HalfClosedLocal)
    }
}

#[cfg(test)]
mod tests {
    use super::Closed::{Ended, ResetReceived, ResetSent};
    use super::State::{self, Closed, HalfClosedLocal, HalfClosedRemote, Idle, Open};
    use super::StateError;

    /// Every state with what each of the ten steps leads to.
    #[test]
    fn every_transition() {
        type Next = Result<State, StateError>;
        let (late, closed, idle) =
            (Err(StateError::Late), Err(StateError::Closed), Err(StateError::Idle));
        let (local, remote) = (Ok(HalfClosedLocal), Ok(HalfClosedRemote));
        let ended = Ok(Closed(Ended));
        let (sent, received) = (Ok(Closed(ResetSent)), Ok(Closed(ResetReceived)));
        // Received: head, head with the end, data, data with the end, reset. Then the same sent.
        let table: [(State, [Next; 10]); 7] = [
            (Idle, [Ok(Open), remote, idle, idle, idle, Ok(Open), local, idle, idle, idle]),
            (
                Open,
                [
                    Ok(Open),
                    remote,
                    Ok(Open),
                    remote,
                    received,
                    Ok(Open),
                    local,
                    Ok(Open),
                    local,
                    sent,
                ],
            ),
            (
                HalfClosedLocal,
                [local, ended, local, ended, received, closed, closed, closed, closed, sent],
            ),
            (
                HalfClosedRemote,
                [closed, closed, closed, closed, received, remote, ended, remote, ended, sent],
            ),
            (
                Closed(Ended),
                [closed, closed, closed, closed, ended, closed, closed, closed, closed, closed],
            ),
            (
                Closed(ResetSent),
                [late, late, late, late, sent, closed, closed, closed, closed, closed],
            ),
            (
                Closed(ResetReceived),
                [closed, closed, closed, closed, received, closed, closed, closed, closed, closed],
            ),
        ];
        for (state, expected) in table {
            let next = [
                state.receive_head(false),
                state.receive_head(true),
                state.receive_data(false),
                state.receive_data(true),
                state.receive_reset(),
                state.send_head(false),
                state.send_head(true),
                state.send_data(false),
                state.send_data(true),
                state.send_reset(),
            ];
            assert_eq!(next, expected, "{state:?}");
            // The questions agree with the steps.
            assert_eq!(state.may_send(), state.send_data(false).is_ok());
            assert_eq!(state.may_receive(), state.receive_data(false).is_ok());
        }
    }
}
