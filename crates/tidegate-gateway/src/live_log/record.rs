//! What the live log says of a request.

use tidegate_codec::json::write_string;
use tidegate_core::Exchange;
use tidegate_core::timeline::write_seconds;
use tidegate_rt::clock;

/// A field that is a number.
pub(super) struct NumberField {
    pub name: &'static str,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Number,
    Bytes,
    /// A time.
    Micros,
}

impl Unit {
    /// Returns what a value is called in errors.
    pub(super) fn called(self) -> &'static str {
        match self {
            Unit::Number => "number",
            Unit::Bytes => "size",
            Unit::Micros => "time",
        }
    }
}

const fn number(name: &'static str, unit: Unit) -> NumberField {
    NumberField { name, unit }
}

/// Numbers of a record, in its order.
pub(super) const NUMBERS: [NumberField; 4] = [
    number("status", Unit::Number),
    number("time", Unit::Micros),
    number("sent", Unit::Bytes),
    number("received", Unit::Bytes),
];

/// A field that is a text: a variable.
pub(super) struct TextField {
    pub name: &'static str,
    variable: &'static [u8],
}

const fn text(name: &'static str, variable: &'static [u8]) -> TextField {
    TextField { name, variable }
}

/// Texts of a record, in its order.
pub(super) const TEXTS: [TextField; 14] = [
    text("client", b"remote_addr"),
    text("user", b"remote_user"),
    text("server", b"server_name"),
    text("host", b"host"),
    text("request", b"request"),
    text("method", b"request_method"),
    text("uri", b"request_uri"),
    text("protocol", b"server_protocol"),
    text("upstream", b"upstream_addr"),
    text("cache", b"upstream_cache_status"),
    text("verdict", b"request_verdict"),
    text("agent", b"http_user_agent"),
    text("referer", b"http_referer"),
    text("id", b"request_id"),
];

/// Bytes of a text that are kept: clients send as much as their heads may have.
const TEXT_BYTES_MAX: usize = 2048;

/// A request that has ended.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// When it ended, as in `$time_iso8601`.
    at: Vec<u8>,
    /// By the places of [`NUMBERS`].
    pub(super) numbers: [u64; NUMBERS.len()],
    /// By the places of [`TEXTS`]; empty for a variable without a value.
    pub(super) texts: [Vec<u8>; TEXTS.len()],
    /// Whether a text was cut.
    is_cut: bool,
}

impl Record {
    pub(super) fn of(x: &mut Exchange) -> Record {
        let mut record = Record::default();
        clock::log_time_iso8601(|time| record.at.extend_from_slice(time));
        let passed = clock::exact_now().saturating_duration_since(x.progress.started);
        record.numbers = [
            x.disposition.logged_status().into(),
            u64::try_from(passed.as_micros()).unwrap_or(u64::MAX),
            x.outcome.bytes_sent,
            x.outcome.request_length,
        ];
        for (text, field) in record.texts.iter_mut().zip(&TEXTS) {
            if !x.variable_named(field.variable, text) {
                text.clear();
            }
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(TEXT_BYTES_MAX);
                record.is_cut = true;
            }
        }
        record
    }

    /// Returns it as a line: a JSON object with a line feed. Texts without a value are left out.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut out = b"{\"at\":".to_vec();
        write_string(&self.at, &mut out);
        for (value, field) in self.numbers.iter().zip(&NUMBERS) {
            out.extend_from_slice(format!(",\"{}\":", field.name).as_bytes());
            match field.unit {
                Unit::Micros => {
                    let mut seconds = String::new();
                    write_seconds(u32::try_from(*value).unwrap_or(u32::MAX), &mut seconds);
                    out.extend_from_slice(seconds.as_bytes());
                }
                Unit::Number | Unit::Bytes => out.extend_from_slice(value.to_string().as_bytes()),
            }
        }
        for (text, field) in self.texts.iter().zip(&TEXTS).filter(|(text, _)| !text.is_empty()) {
            out.extend_from_slice(format!(",\"{}\":", field.name).as_bytes());
            write_string(text, &mut out);
        }
        if self.is_cut {
            out.extend_from_slice(b",\"truncated\":true");
        }
        out.extend_from_slice(b"}\n");
        out
    }
}
