//! Numbers as lines have them: written without the formatting machinery, since there may be hundreds of thousands of lines.

use std::io::Write as _;

use tidegate_codec::range::write_number;

use super::Format;

/// A number of a line.
pub trait Number {
    /// Appends it in decimal.
    fn write(&self, text: &mut Vec<u8>);
}

impl Number for u64 {
    fn write(&self, text: &mut Vec<u8>) {
        write_number(*self, text);
    }
}

impl Number for usize {
    fn write(&self, text: &mut Vec<u8>) {
        write_number(*self as u64, text);
    }
}

impl Number for u32 {
    fn write(&self, text: &mut Vec<u8>) {
        write_number(u64::from(*self), text);
    }
}

impl Number for i32 {
    fn write(&self, text: &mut Vec<u8>) {
        i64::from(*self).write(text);
    }
}

impl Number for i64 {
    fn write(&self, text: &mut Vec<u8>) {
        if *self < 0 {
            text.push(b'-');
        }
        write_number(self.unsigned_abs(), text);
    }
}

impl Number for f64 {
    fn write(&self, text: &mut Vec<u8>) {
        // cannot fail: memory takes all bytes
        let _ = write!(text, "{self}");
    }
}

impl<N: Number> Number for &N {
    fn write(&self, text: &mut Vec<u8>) {
        (**self).write(text);
    }
}

/// A time that is written in seconds, without zeros at its end.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    micros: u64,
}

impl Number for Seconds {
    fn write(&self, text: &mut Vec<u8>) {
        let (whole, mut rest) = (self.micros / 1_000_000, self.micros % 1_000_000);
        write_number(whole, text);
        if rest == 0 {
            return;
        }
        text.push(b'.');
        let mut unit = 100_000;
        while rest > 0 {
            // a digit
            text.push(b'0' + (rest / unit) as u8);
            (rest, unit) = (rest % unit, unit / 10);
        }
    }
}

/// Returns microseconds to be written as seconds.
pub fn seconds(micros: u64) -> Seconds {
    Seconds { micros }
}

/// Returns the average of a sum in microseconds, in seconds.
pub fn average(micros: u64, count: u64) -> Seconds {
    seconds(micros.checked_div(count).unwrap_or(0))
}

/// The texts of a histogram's bounds, the last of which is `+Inf`.
pub(super) fn bounds(micros: impl IntoIterator<Item = u64>, format: Format) -> Vec<Vec<u8>> {
    let texts = micros.into_iter().map(|micros| {
        let mut text = Vec::new();
        write_bound(micros, format, &mut text);
        text
    });
    texts.chain([b"+Inf".to_vec()]).collect()
}

/// Writes the bound of a bucket. OpenMetrics has one text for each number: that of Go (section 4.6.1).
fn write_bound(micros: u64, format: Format, text: &mut Vec<u8>) {
    match format {
        Format::OpenMetrics if micros < 100 => {
            let digits = micros.to_string();
            let (first, rest) = digits.split_at(1);
            let rest = rest.trim_end_matches('0');
            let point = if rest.is_empty() { "" } else { "." };
            // cannot fail: memory takes all bytes
            let _ = write!(text, "{first}{point}{rest}e-0{}", 7 - digits.len());
        }
        Format::OpenMetrics if micros.is_multiple_of(1_000_000) => {
            seconds(micros).write(text);
            text.extend_from_slice(b".0");
        }
        _ => seconds(micros).write(text),
    }
}
