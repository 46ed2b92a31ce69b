//! The text formats of metrics: that of Prometheus, version 0.0.4, and OpenMetrics 1.0.
//!
//! A text is a row of families ([`Exposition::family`]), each with its lines. Both formats have the same lines: names,
//! labels and values do not depend on what a client asks for, except that OpenMetrics writes bounds of histograms as
//! `1.0`, and has exemplars.

#[cfg(test)]
mod tests;

use std::fmt::{Display, Write as _};

use tidegate_core::figures::{BOUNDS_MILLIS, BUCKETS, Exemplar};

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
    text: String,
    format: Format,
}

impl Exposition {
    /// Begins a text.
    pub fn new(format: Format) -> Exposition {
        Exposition::of_size(format, 0)
    }

    /// As [`Exposition::new`], with memory for about so many bytes.
    pub fn of_size(format: Format, bytes: usize) -> Exposition {
        Exposition { text: String::with_capacity(bytes), format }
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
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
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
    pub fn line(&mut self, labels: &Labels<'_>, value: impl Display) {
        self.line_of(&labels_text(labels), value);
    }

    /// Adds a line whose labels are written already, by [`labels_text`] or [`label`].
    pub fn line_of(&mut self, labels: &str, value: impl Display) {
        self.write("", labels, None, value);
        self.out.text.push('\n');
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
        let exemplars = exemplars.map_or(&[][..], |all| &all[..]);
        self.histogram(&labels_text(labels), &BOUNDS_MICROS, counts, micros, exemplars);
    }

    /// The same with labels that are written already, and without traces.
    pub fn times_of(&mut self, labels: &str, counts: &[u64; BUCKETS], micros: u64) {
        self.histogram(labels, &BOUNDS_MICROS, counts, micros, &[]);
    }

    /// Adds a histogram of times: bounds in microseconds, the count of each bucket for itself, one more bucket for longer
    /// times, and the sum in microseconds.
    pub fn buckets(&mut self, labels: &Labels<'_>, bounds: &[u64], counts: &[u64], micros: u64) {
        self.histogram(&labels_text(labels), bounds, counts, micros, &[]);
    }

    /// Adds a histogram of which only number and sum are known.
    pub fn sums(&mut self, labels: &Labels<'_>, count: u64, sum: u64) {
        let labels = labels_text(labels);
        for (end, bound, value) in
            [("_bucket", Some(None), count), ("_sum", None, sum), ("_count", None, count)]
        {
            self.write(end, &labels, bound, value);
            self.out.text.push('\n');
        }
    }

    fn histogram(
        &mut self,
        labels: &str,
        bounds: &[u64],
        counts: &[u64],
        micros: u64,
        exemplars: &[Option<Exemplar>],
    ) {
        let mut below = 0;
        for (place, count) in counts.iter().enumerate() {
            below += count;
            self.write("_bucket", labels, Some(bounds.get(place).copied()), below);
            // A reset leaves examples of what is not counted any more.
            if let (Some(Some(exemplar)), 1..) = (exemplars.get(place), *count) {
                self.exemplar(exemplar);
            }
            self.out.text.push('\n');
        }
        self.write("_sum", labels, None, seconds(micros));
        self.out.text.push('\n');
        self.write("_count", labels, None, below);
        self.out.text.push('\n');
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        if self.out.format != Format::OpenMetrics {
            return;
        }
        let Exemplar { trace, micros, unix_millis } = exemplar;
        let text = &mut self.out.text;
        let trace = u128::from_be_bytes(*trace);
        let (whole, rest) = (unix_millis / 1000, unix_millis % 1000);
        let _ =
            write!(text, " # {{trace_id=\"{trace:032x}\"}} {} {whole}.{rest:03}", seconds(*micros));
    }

    /// Writes a line but for its end; `bound` is that of a bucket, `None` in it that of the last one.
    fn write(&mut self, end: &str, labels: &str, bound: Option<Option<u64>>, value: impl Display) {
        let text = &mut self.out.text;
        text.push_str(self.name);
        text.push_str(end);
        if !labels.is_empty() || bound.is_some() {
            text.push('{');
            text.push_str(labels);
            if let Some(bound) = bound {
                text.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
                match bound {
                    Some(micros) => write_bound(micros, self.out.format, text),
                    None => text.push_str("+Inf"),
                }
                text.push('"');
            }
            text.push('}');
        }
        // cannot fail: a text takes all characters
        let _ = write!(text, " {value}");
    }
}

/// The bounds of times, in microseconds.
const BOUNDS_MICROS: [u64; BOUNDS_MILLIS.len()] = {
    let mut bounds = BOUNDS_MILLIS;
    let mut place = 0;
    while place < bounds.len() {
        bounds[place] *= 1000;
        place += 1;
    }
    bounds
};

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

/// Writes the bound of a bucket. OpenMetrics has one text for each number: that of Go (section 4.6.1).
fn write_bound(micros: u64, format: Format, text: &mut String) {
    // cannot fail: a text takes all characters
    let _ = match format {
        Format::OpenMetrics if micros < 100 => {
            let digits = micros.to_string();
            let (first, rest) = digits.split_at(1);
            let rest = rest.trim_end_matches('0');
            let point = if rest.is_empty() { "" } else { "." };
            write!(text, "{first}{point}{rest}e-0{}", 7 - digits.len())
        }
        Format::OpenMetrics if micros.is_multiple_of(1_000_000) => {
            write!(text, "{}.0", seconds(micros))
        }
        _ => write!(text, "{}", seconds(micros)),
    };
}

/// A time that is written in seconds, as [`seconds`] returns it.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    micros: u64,
}

impl Display for Seconds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, mut rest) = (self.micros / 1_000_000, self.micros % 1_000_000);
        if rest == 0 {
            return write!(out, "{whole}");
        }
        let mut digits = 6;
        while rest % 10 == 0 {
            (rest, digits) = (rest / 10, digits - 1);
        }
        write!(out, "{whole}.{rest:0digits$}")
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
