//! Numbers in decimal, without the formatting machinery and without allocation.

/// Digits of the largest `u64`.
pub(crate) const DIGITS_MAX: usize = 20;

/// Writes the digits of `number` at the end of `room` and returns them.
pub(crate) fn digits(number: u64, room: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = room.len();
    let mut left = number;
    loop {
        at -= 1;
        room[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    &room[at..]
}
