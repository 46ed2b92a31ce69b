//! The text formats of metrics: that of Prometheus, version 0.0.4, and OpenMetrics 1.0.
//!
//! A text is a row of families ([`Exposition::family`]), each with its lines. Both formats have the same lines: names,
//! labels and values do not depend on what a client asks for, except that OpenMetrics writes bounds of histograms as
//! `1.0`, and has exemplars.

mod number;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::sync::Arc;

use tidegate_core::figures::{BOUNDS_MILLIS, BUCKETS, Exemplar};

pub use number::{Number, Seconds, average, seconds};

/// A text format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the value of `Content-Type`.
    pub fn content_type(self) -> &'static [u8] {
        match self {
            Format::Prometheus => b"text/plain; version=0.0.4",
            Format::OpenMetrics => b"application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A sum that only grows; its name ends with `_total`.
    Counter,
    /// A sum that only grows, under a name that another program has chosen. OpenMetrics prescribes how counters are named,
    /// so the type is unknown there.
    NamedCounter,
    /// A value that may fall.
    Gauge,
    /// Values by size.
    Histogram,
}

/// A text that is written.
#[derive(Debug)]
pub struct Exposition {
    text: Vec<u8>,
    format: Format,
    /// The bounds of times, as they are written.
    bounds_of_times: Arc<[Vec<u8>]>,
}

impl Exposition {
    /// Begins a text.
    pub fn new(format: Format) -> Exposition {
        Exposition::of_size(format, 0)
    }

    /// As [`Exposition::new`], with memory for about so many bytes.
    pub fn of_size(format: Format, bytes: usize) -> Exposition {
        let bounds_of_times = number::bounds(BOUNDS_MILLIS.map(|millis| millis * 1000), format);
        Exposition {
            text: Vec::with_capacity(bytes),
            format,
            bounds_of_times: bounds_of_times.into(),
        }
    }

    /// Begins a family, whose lines follow. A name occurs once in a text.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Type, help: &str) -> Family<'a> {
        let is_open = self.format == Format::OpenMetrics;
        let (family, word) = match kind {
            Type::Counter if is_open => (name.strip_suffix("_total").unwrap_or(name), "counter"),
            Type::NamedCounter if is_open => (name, "unknown"),
            Type::Counter | Type::NamedCounter => (name, "counter"),
            Type::Gauge => (name, "gauge"),
            Type::Histogram => (name, "histogram"),
        };
        let _ = writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {word}");
        let unit = UNITS
            .iter()
            .find(|unit| family.strip_suffix(**unit).is_some_and(|behind| behind.ends_with('_')));
        if let Some(unit) = unit.filter(|_| is_open) {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        Family { name, out: self }
    }

    /// Ends the text.
    pub fn finish(mut self) -> Vec<u8> {
        if self.format == Format::OpenMetrics {
            self.text.extend_from_slice(b"# EOF\n");
        }
        self.text
    }
}

/// A part of a text, collected on the connection's thread and written later.
pub struct Part {
    weight: usize,
    write: Box<dyn FnOnce(&mut Exposition) + Send>,
}

impl Part {
    /// Makes a part of `weight` objects.
    pub fn new(weight: usize, write: impl FnOnce(&mut Exposition) + Send + 'static) -> Part {
        Part { weight, write: Box::new(write) }
    }

    /// Returns the number of objects that have lines: many take longer than an event loop may be held.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Writes it.
    pub fn write(self, out: &mut Exposition) {
        (self.write)(out);
    }
}

/// Objects of parts that are written at once.
pub const WEIGHT_AT_ONCE: usize = 64;

/// Units that names end with.
const UNITS: [&str; 2] = ["seconds", "bytes"];

/// A family whose lines are written.
#[derive(Debug)]
pub struct Family<'a> {
    name: &'a str,
    out: &'a mut Exposition,
}

/// Names and values of labels. Values may have any characters.
pub type Labels<'a> = [(&'a str, &'a str)];

impl Family<'_> {
    /// Adds a line.
    pub fn line(&mut self, labels: &Labels<'_>, value: impl Number) {
        self.line_of(&labels_text(labels), value);
    }

    /// Adds a line whose labels are written already, by [`labels_text`] or [`label`].
    pub fn line_of(&mut self, labels: &str, value: impl Number) {
        self.write("", labels, value);
    }

    /// The same with one more label behind them: a name and a word, which has no characters that are escaped.
    pub fn line_and(&mut self, labels: &str, (name, word): (&str, &str), value: impl Number) {
        self.begin("", labels, true);
        self.end(name, word.as_bytes(), value);
        self.out.text.push(b'\n');
    }

    /// Adds a histogram of times by [`BOUNDS_MILLIS`], each bucket's count for itself, and their sum. OpenMetrics shows the
    /// latest traced request of each bucket.
    pub fn times(
        &mut self,
        labels: &Labels<'_>,
        counts: &[u64; BUCKETS],
        micros: u64,
        exemplars: Option<&[Option<Exemplar>; BUCKETS]>,
    ) {
        self.times_of(&labels_text(labels), counts, micros, exemplars);
    }

    /// The same with labels that are written already.
    pub fn times_of(
        &mut self,
        labels: &str,
        counts: &[u64; BUCKETS],
        micros: u64,
        exemplars: Option<&[Option<Exemplar>; BUCKETS]>,
    ) {
        let bounds = self.out.bounds_of_times.clone();
        let exemplars = exemplars.map_or(&[][..], |all| &all[..]);
        self.histogram(labels, &bounds, counts, micros, exemplars);
    }

    /// Adds a histogram of times: bounds in microseconds, the count of each bucket for itself, one more bucket for longer
    /// times, and the sum in microseconds.
    pub fn buckets(&mut self, labels: &Labels<'_>, bounds: &[u64], counts: &[u64], micros: u64) {
        let bounds = number::bounds(bounds.iter().copied(), self.out.format);
        self.histogram(&labels_text(labels), &bounds, counts, micros, &[]);
    }

    /// Adds a histogram of which only number and sum are known.
    pub fn sums(&mut self, labels: &Labels<'_>, count: u64, sum: u64) {
        let labels = labels_text(labels);
        self.bucket(&labels, b"+Inf", count);
        self.out.text.push(b'\n');
        self.write("_sum", &labels, sum);
        self.write("_count", &labels, count);
    }

    fn histogram(
        &mut self,
        labels: &str,
        bounds: &[Vec<u8>],
        counts: &[u64],
        micros: u64,
        exemplars: &[Option<Exemplar>],
    ) {
        let mut below = 0;
        for (place, (count, bound)) in counts.iter().zip(bounds).enumerate() {
            below += count;
            self.bucket(labels, bound, below);
            // A reset leaves examples of what is not counted any more.
            if let (Some(Some(exemplar)), 1..) = (exemplars.get(place), *count) {
                self.exemplar(exemplar);
            }
            self.out.text.push(b'\n');
        }
        self.write("_sum", labels, seconds(micros));
        self.write("_count", labels, below);
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        if self.out.format != Format::OpenMetrics {
            return;
        }
        let Exemplar { trace, micros, unix_millis } = exemplar;
        let text = &mut self.out.text;
        let trace = u128::from_be_bytes(*trace);
        // cannot fail: memory takes all bytes
        let _ = write!(text, " # {{trace_id=\"{trace:032x}\"}} ");
        seconds(*micros).write(text);
        let _ = write!(text, " {}.{:03}", unix_millis / 1000, unix_millis % 1000);
    }

    /// Writes a line.
    fn write(&mut self, end: &str, labels: &str, value: impl Number) {
        self.begin(end, labels, false);
        let text = &mut self.out.text;
        text.extend_from_slice(if labels.is_empty() { b" " } else { b"} " });
        value.write(text);
        text.push(b'\n');
    }

    /// Writes the line of a bucket but for its end.
    fn bucket(&mut self, labels: &str, bound: &[u8], count: u64) {
        self.begin("_bucket", labels, true);
        self.end("le", bound, count);
    }

    /// Begins a line, up to its labels, behind which there may be one more.
    fn begin(&mut self, end: &str, labels: &str, more: bool) {
        let text = &mut self.out.text;
        for part in [self.name, end, if labels.is_empty() && !more { "" } else { "{" }, labels] {
            text.extend_from_slice(part.as_bytes());
        }
        if !labels.is_empty() && more {
            text.push(b',');
        }
    }

    /// Writes the last label and the value.
    fn end(&mut self, name: &str, value_of: &[u8], value: impl Number) {
        let text = &mut self.out.text;
        for part in [name.as_bytes(), b"=\"", value_of, b"\"} "] {
            text.extend_from_slice(part);
        }
        value.write(text);
    }
}

/// Returns labels as lines have them. Values may have any characters.
pub fn labels_text(labels: &Labels<'_>) -> String {
    let mut text = String::new();
    for (place, (name, value)) in labels.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_label(name, value, &mut text);
    }
    text
}

/// Returns a label as lines have it. The value may have any characters.
pub fn label(name: &str, value: &str) -> String {
    let mut text = String::with_capacity(name.len() + value.len() + 3);
    write_label(name, value, &mut text);
    text
}

fn write_label(name: &str, value: &str, text: &mut String) {
    text.push_str(name);
    text.push_str("=\"");
    let mut written = 0;
    for (place, special) in value.match_indices(['\\', '"', '\n']) {
        text.push_str(value.get(written..place).unwrap_or_default());
        text.push('\\');
        text.push_str(if special == "\n" { "n" } else { special });
        written = place + special.len();
    }
    text.push_str(value.get(written..).unwrap_or_default());
    text.push('"');
}
