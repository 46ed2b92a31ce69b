//! Lines that are JSON objects: `error_log FILE LEVEL json` (the names of nginx Plus, flat) and `format=json` (the names of Angie,
//! with an object of the request or session).

use tidegate_codec::json::write_string;

use super::fields::{Kind, LogFields};
use super::{LINE_BYTES_MAX, Level};

/// Room for what says that a line was cut, and for its end.
const END_BYTES: usize = ",\"truncated\":true}\n".len();

/// Formats a line with its line end. The longest values of one that is too long are cut; `truncated` says so.
pub(super) fn line(level: Level, connection: u64, fields: &LogFields, is_nested: bool) -> Vec<u8> {
    let (message, error) = split_error(&fields.message);
    let mut values = Values::of(message, error.map(|(_, text)| text), fields);
    let mut is_cut = false;
    loop {
        let mut out = Vec::with_capacity(512);
        let head = Head { level, connection, error: error.map(|(number, _)| number) };
        match is_nested {
            true => write_nested(&head, &values, fields, &mut out),
            false => write_flat(&head, &values, fields, &mut out),
        }
        let excess = (out.len() + END_BYTES).saturating_sub(LINE_BYTES_MAX);
        // Each byte of a value has at least a byte in the line, so each round takes the whole excess, or a whole value.
        if excess > 0 && values.cut_longest(excess) {
            is_cut = true;
            continue;
        }
        if is_cut {
            out.extend_from_slice(if is_nested {
                b",\"truncated\":true"
            } else {
                b",\"truncated\":1"
            });
        }
        out.extend_from_slice(b"}\n");
        return out;
    }
}

struct Head {
    level: Level,
    connection: u64,
    error: Option<u32>,
}

/// All texts that may have to be cut.
struct Values<'a> {
    message: &'a [u8],
    error: Option<&'a [u8]>,
    members: Vec<&'a [u8]>,
    words: Vec<&'a [u8]>,
    pairs: Vec<&'a [u8]>,
}

impl<'a> Values<'a> {
    fn of(message: &'a str, error: Option<&'a str>, fields: &'a LogFields) -> Values<'a> {
        let pairs = fields.tags.iter().flat_map(|tags| &tags.pairs);
        Values {
            message: message.as_bytes(),
            error: error.map(str::as_bytes),
            members: fields.members.iter().map(|(_, value)| value.as_slice()).collect(),
            words: fields.words().collect(),
            pairs: pairs.map(|(_, value)| value.as_slice()).collect(),
        }
    }

    /// Takes bytes from the longest value; no character is cut. Returns whether there was something to take.
    fn cut_longest(&mut self, bytes: usize) -> bool {
        let texts = [&mut self.message].into_iter().chain(&mut self.error);
        let lists = self.members.iter_mut().chain(&mut self.words).chain(&mut self.pairs);
        let Some(longest) = texts.chain(lists).max_by_key(|value| value.len()) else {
            return false;
        };
        if longest.is_empty() {
            return false;
        }
        let whole: &'a [u8] = longest;
        let mut end = whole.len().saturating_sub(bytes);
        // Bytes that are no character count alone.
        let least = end.saturating_sub(3);
        while end > least && whole[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        *longest = &whole[..end];
        true
    }
}

fn write_flat(head: &Head, values: &Values<'_>, fields: &LogFields, out: &mut Vec<u8>) {
    let millis = tidegate_rt::clock::unix_millis() % 1000;
    out.push(b'{');
    text("level", head.level.name().as_bytes(), out);
    tidegate_rt::clock::log_time_iso8601(|time| {
        let time = with_millis(time, millis, &time[SECONDS_BYTES..]);
        text("timestamp", &time, out);
    });
    write_process(out);
    if head.connection > 0 {
        count("cnum", head.connection, out);
    }
    text("msg", values.message, out);
    for ((name, _), value) in fields.members.iter().zip(&values.members) {
        text(name, value, out);
    }
    fields.counts.iter().for_each(|(name, bytes)| count(name, *bytes, out));
    write_pairs(values, fields, out);
    // Those that only say what the other members say are left out.
    let own = fields.tags.as_ref().map_or(0, |tags| tags.words.len());
    write_words(&values.words[values.words.len() - own..], out);
    if let (Some(number), Some(reason)) = (head.error, values.error) {
        count("errno", u64::from(number), out);
        text("errtext", reason, out);
    }
}

fn write_nested(head: &Head, values: &Values<'_>, fields: &LogFields, out: &mut Vec<u8>) {
    let now = tidegate_rt::clock::unix_millis();
    let time = tidegate_codec::date::format_iso8601((now / 1000) as i64, 0);
    out.push(b'{');
    text("time", &with_millis(&time, now % 1000, b"Z"), out);
    text("level", head.level.name().as_bytes(), out);
    write_process(out);
    if head.connection > 0 {
        count("connection", head.connection, out);
    }
    text("message", values.message, out);
    if let (Some(number), Some(reason)) = (head.error, values.error) {
        open("error", out);
        count("code", u64::from(number), out);
        text("message", reason, out);
        out.push(b'}');
    }
    if let Some(kind) = fields.kind {
        write_subject(kind, values, fields, out);
    }
    write_pairs(values, fields, out);
    write_words(&values.words, out);
}

/// Writes the object of a request or session: client and action, and in an object of its own the rest.
fn write_subject(kind: Kind, values: &Values<'_>, fields: &LogFields, out: &mut Vec<u8>) {
    let (name, inner, outer_names): (_, _, &[&str]) = match kind {
        Kind::Request => ("http", "request", &["action", "client"]),
        Kind::Session => ("stream", "session", &["action", "client", "server", "protocol"]),
    };
    let members = || fields.members.iter().map(|(name, _)| *name).zip(&values.members);
    let is_outer = |name: &str| outer_names.contains(&name);
    open(name, out);
    members().filter(|(name, _)| is_outer(name)).for_each(|(name, value)| text(name, value, out));
    if members().any(|(name, _)| !is_outer(name)) {
        open(inner, out);
        for (name, value) in members().filter(|(name, _)| !is_outer(name)) {
            text(if name == "request" { "request_line" } else { name }, value, out);
        }
        fields.counts.iter().for_each(|(name, bytes)| count(name, *bytes, out));
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_process(out: &mut Vec<u8>) {
    count("pid", u64::from(std::process::id()), out);
    count("tid", super::thread_number(), out);
}

fn write_pairs(values: &Values<'_>, fields: &LogFields, out: &mut Vec<u8>) {
    let pairs = fields.tags.iter().flat_map(|tags| &tags.pairs);
    pairs.zip(&values.pairs).for_each(|((name, _), value)| text(name, value, out));
}

fn write_words(words: &[&[u8]], out: &mut Vec<u8>) {
    if words.is_empty() {
        return;
    }
    key("tags", out);
    for (place, word) in words.iter().enumerate() {
        out.push(if place == 0 { b'[' } else { b',' });
        write_string(word, out);
    }
    out.push(b']');
}

/// Begins an object in an object.
fn open(name: &str, out: &mut Vec<u8>) {
    key(name, out);
    out.push(b'{');
}

fn text(name: &str, value: &[u8], out: &mut Vec<u8>) {
    key(name, out);
    write_string(value, out);
}

fn count(name: &str, number: u64, out: &mut Vec<u8>) {
    key(name, out);
    out.extend_from_slice(number.to_string().as_bytes());
}

/// Writes the name of a member. Names are ours, or letters and digits of the configuration.
fn key(name: &str, out: &mut Vec<u8>) {
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Bytes of a time without its zone, as in `2026-01-31T23:59:59+00:00`.
const SECONDS_BYTES: usize = 19;

fn with_millis(time: &[u8; 25], millis: u64, zone: &[u8]) -> Vec<u8> {
    let mut all = time[..SECONDS_BYTES].to_vec();
    all.extend_from_slice(format!(".{millis:03}").as_bytes());
    all.extend_from_slice(zone);
    all
}

/// Parts a message and the system's error at its end, as in `open() "x" failed (2: No such file or directory)`.
fn split_error(message: &str) -> (&str, Option<(u32, &str)>) {
    let parts = || {
        let (before, reason) = message.strip_suffix(')')?.rsplit_once(" (")?;
        let (number, text) = reason.split_once(": ")?;
        Some((before, (number.parse().ok()?, text)))
    };
    parts().map_or((message, None), |(before, error)| (before, Some(error)))
}
