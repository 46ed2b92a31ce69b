//! Flow control (RFC 9113 section 5.2 and 6.9): how much may be sent, and how much the peer may send.

/// The largest window, bytes.
pub const WINDOW_LIMIT: u32 = 0x7fff_ffff;

/// A window would be larger than [`WINDOW_LIMIT`], or more was sent than it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowError;

/// What may be sent. Below zero after the peer has made its initial window smaller (RFC 9113 section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWindow(i64);

impl SendWindow {
    /// A window of this size, bytes.
    pub fn new(bytes: u32) -> SendWindow {
        SendWindow(i64::from(bytes))
    }

    /// Returns the bytes that may be sent now.
    pub fn available(self) -> u32 {
        u32::try_from(self.0.max(0)).unwrap_or(WINDOW_LIMIT)
    }

    /// Takes bytes that are sent; the caller has compared them with [`SendWindow::available`].
    pub fn take(&mut self, bytes: u32) {
        self.0 -= i64::from(bytes);
    }

    /// Opens the window by a WINDOW_UPDATE.
    ///
    /// # Errors
    /// It would be larger than 2^31-1 bytes.
    pub fn open(&mut self, bytes: u32) -> Result<(), WindowError> {
        self.shift(i64::from(bytes))
    }

    /// Moves the window by the change of SETTINGS_INITIAL_WINDOW_SIZE.
    ///
    /// # Errors
    /// It would be larger than 2^31-1 bytes.
    pub fn shift(&mut self, change: i64) -> Result<(), WindowError> {
        let moved = self.0.saturating_add(change);
        if moved > i64::from(WINDOW_LIMIT) {
            return Err(WindowError);
        }
        self.0 = moved;
        Ok(())
    }
}

/// What the peer may send, and what of it has been used here.
///
/// Invariant: `left + unread + credit - debt` is the size that was announced, so that the peer never has more than that
/// unread here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// Bytes that the peer may still send.
    left: u32,
    /// Bytes that were received and not yet used.
    unread: u32,
    /// Bytes that were used and not yet given back.
    credit: u32,
    /// Bytes by which the peer's window is below zero: the first ones that are given back only fill it up.
    debt: u32,
    size: u32,
}

impl ReceiveWindow {
    /// A window of this size, bytes.
    pub fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow { left: size, unread: 0, credit: 0, debt: 0, size }
    }

    /// Takes bytes that were received.
    ///
    /// # Errors
    /// The peer was not allowed to send them.
    pub fn receive(&mut self, bytes: u32) -> Result<(), WindowError> {
        self.left = self.left.checked_sub(bytes).ok_or(WindowError)?;
        self.unread += bytes;
        Ok(())
    }

    /// Takes back bytes that were used; at most what is unread. Returns how many these are.
    pub fn use_up(&mut self, bytes: u32) -> u32 {
        let used = bytes.min(self.unread);
        self.unread -= used;
        self.credit += used;
        used
    }

    /// Returns the increment to announce once half of the window is due, so that small reads do not make a frame each.
    pub fn due_update(&mut self) -> Option<u32> {
        if self.credit == 0 || self.credit < self.size.div_ceil(2) {
            return None;
        }
        let increment = std::mem::take(&mut self.credit);
        let paid = self.debt.min(increment);
        self.debt -= paid;
        self.left += increment - paid;
        Some(increment)
    }

    /// Makes the window smaller, bytes: the peer has acknowledged a smaller SETTINGS_INITIAL_WINDOW_SIZE. What it had
    /// sent before stays allowed (RFC 9113 section 6.9.2).
    pub fn shrink(&mut self, bytes: u32) {
        let bytes = bytes.min(self.size);
        let taken = bytes.min(self.left);
        self.size -= bytes;
        self.left -= taken;
        self.debt += bytes - taken;
    }

    /// Makes the window larger by an announced increment, bytes; at most to [`WINDOW_LIMIT`].
    pub fn grow(&mut self, increment: u32) {
        let increment = increment.min(WINDOW_LIMIT - self.size);
        self.size += increment;
        self.left += increment;
    }

    /// Doubles the window, by at most `most` bytes, if all that was received has been used: then the window is what
    /// limits the peer. Returns the bytes to announce.
    pub fn double(&mut self, most: u32) -> u32 {
        if self.unread > 0 || self.debt > 0 {
            return 0;
        }
        let before = self.size;
        self.grow(self.size.min(most));
        self.size - before
    }

    /// Bytes that the peer may have unread here.
    pub fn size(self) -> u32 {
        self.size
    }

    /// Bytes that were received and not yet used.
    pub fn unread(self) -> u32 {
        self.unread
    }
}

#[cfg(test)]
mod tests {
    use super::{ReceiveWindow, SendWindow, WINDOW_LIMIT, WindowError};
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_send_window_has_bounds() {
        let mut window = SendWindow::new(10);
        window.take(4);
        assert_eq!(window.available(), 6);
        assert_eq!(window.shift(-10), Ok(()));
        assert_eq!(window.available(), 0);
        assert_eq!(window.open(5), Ok(()));
        assert_eq!(window.available(), 1);
        assert_eq!(window.open(WINDOW_LIMIT), Err(WindowError));
        assert_eq!(window.open(WINDOW_LIMIT - 1), Ok(()));
        assert_eq!(window.available(), WINDOW_LIMIT);
    }

    #[test]
    fn a_receive_window_is_given_back_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.receive(60), Ok(()));
        assert_eq!(window.use_up(49), 49);
        assert_eq!(window.due_update(), None);
        assert_eq!(window.use_up(1), 1);
        assert_eq!(window.due_update(), Some(50));
        assert_eq!(window.receive(91), Err(WindowError));
        assert_eq!(window.receive(90), Ok(()));
        assert_eq!(window.unread(), 100);
        assert_eq!(window.use_up(1000), 100);
    }

    #[test]
    fn a_receive_window_doubles_while_all_is_used() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.receive(60), Ok(()));
        assert_eq!(window.use_up(59), 59);
        assert_eq!((window.double(1000), window.size()), (0, 100));
        assert_eq!(window.use_up(1), 1);
        assert_eq!((window.double(1000), window.size()), (100, 200));
        assert_eq!((window.double(50), window.size()), (50, 250));
        assert_eq!(window.receive(191), Err(WindowError));
        assert_eq!(window.receive(190), Ok(()));
        assert_eq!(window.use_up(190), 190);
        assert_eq!(window.due_update(), Some(250));
        assert_eq!((window.double(u32::MAX), window.double(u32::MAX)), (250, 500));
        window.grow(u32::MAX);
        assert_eq!((window.size(), window.double(u32::MAX)), (WINDOW_LIMIT, 0));
    }

    #[test]
    fn a_receive_window_that_shrinks_is_filled_up_first() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.receive(80), Ok(()));
        window.shrink(90);
        // The peer's window is at 20 - 90.
        assert_eq!(window.receive(1), Err(WindowError));
        assert_eq!(window.use_up(80), 80);
        assert_eq!(window.due_update(), Some(80));
        assert_eq!(window.receive(11), Err(WindowError));
        assert_eq!(window.receive(10), Ok(()));
        assert_eq!(window.use_up(10), 10);
        assert_eq!(window.due_update(), Some(10));
    }

    proptest! {
        #[test]
        fn no_more_is_unread_than_announced(
            size in 0u32..1000, steps in vec((any::<bool>(), 0u32..600), 0..80),
        ) {
            let mut window = ReceiveWindow::new(size);
            let (mut allowed, mut unread) = (size, 0);
            for (receive, bytes) in steps {
                if receive {
                    prop_assert_eq!(window.receive(bytes).is_ok(), bytes <= allowed);
                    if bytes <= allowed {
                        allowed -= bytes;
                        unread += bytes;
                    }
                } else {
                    let used = window.use_up(bytes);
                    prop_assert_eq!(used, bytes.min(unread));
                    unread -= used;
                    allowed += window.due_update().unwrap_or(0);
                }
                prop_assert_eq!(window.unread(), unread);
                prop_assert!(unread + allowed <= size);
            }
        }
    }
}
