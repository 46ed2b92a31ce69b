//! Lines that are JSON objects: `error_log FILE LEVEL json`.

use tidegate_codec::json::write_string;

use super::Level;

/// Longest value: a line is short, so that no client floods the log.
const VALUE_BYTES_MAX: usize = 512;
/// Longest message.
const MESSAGE_BYTES_MAX: usize = 1748;

/// What a line is about, besides its message.
#[derive(Debug, Default)]
pub struct LogFields {
    pub(super) message: String,
    members: Vec<(&'static str, Vec<u8>)>,
}

impl LogFields {
    /// Makes the fields of a line that has a message alone.
    pub fn new(message: String) -> LogFields {
        LogFields { message, members: Vec::new() }
    }

    /// Adds a value; an empty one is left out.
    pub fn add(&mut self, name: &'static str, value: &[u8]) {
        if !value.is_empty() {
            self.members.push((name, value[..value.len().min(VALUE_BYTES_MAX + 1)].to_vec()));
        }
    }
}

/// Formats a line with its line end. Values that are too long are cut; `truncated` says so.
pub(super) fn line(level: Level, connection: u64, fields: &LogFields) -> Vec<u8> {
    let mut out = b"{\"timestamp\":\"".to_vec();
    tidegate_rt::clock::log_time_iso8601(|time| out.extend_from_slice(time));
    let (pid, tid) = (std::process::id(), super::thread_number());
    let head = format!("\",\"level\":\"{}\",\"pid\":{pid},\"tid\":{tid}", level.name());
    out.extend_from_slice(head.as_bytes());
    if connection > 0 {
        out.extend_from_slice(format!(",\"cnum\":{connection}").as_bytes());
    }
    let mut is_cut = false;
    let mut member = |name: &str, value: &[u8], most: usize, out: &mut Vec<u8>| {
        let mut end = value.len();
        if end > most {
            // No character is cut; bytes that are none count alone.
            end = most;
            while end > most - 3 && value[end] & 0xc0 == 0x80 {
                end -= 1;
            }
            is_cut = true;
        }
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        write_string(&value[..end], out);
    };
    member("msg", fields.message.as_bytes(), MESSAGE_BYTES_MAX, &mut out);
    if let Some(number) = error_number(&fields.message) {
        out.extend_from_slice(format!(",\"errno\":{number}").as_bytes());
    }
    for (name, value) in &fields.members {
        member(name, value, VALUE_BYTES_MAX, &mut out);
    }
    if is_cut {
        out.extend_from_slice(b",\"truncated\":1");
    }
    out.extend_from_slice(b"}\n");
    out
}

/// Returns the number of the system's error in a message, as in `open() "x" failed (2: No such file or directory)`.
fn error_number(message: &str) -> Option<u32> {
    let (_, reason) = message.rsplit_once(" (")?;
    let (number, _) = reason.split_once(": ")?;
    number.parse().ok()
}
