//! The format that a client prefers (RFC 9110 section 12.5.1).

use tidegate_gateway::exposition::Format;

use crate::http::gzip::accept::weight;

/// Returns OpenMetrics to clients that name it and do not prefer plain text, as Prometheus does; the text format of
/// Prometheus to all others.
pub(super) fn format<'v>(values: impl Iterator<Item = &'v [u8]>) -> Format {
    let (mut open, mut plain) = (0, 0);
    for range in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        if is_known_version(range) {
            open = open.max(weight(range, b"application/openmetrics-text"));
        }
        plain = plain.max(weight(range, b"text/plain"));
    }
    if open > 0 && open >= plain { Format::OpenMetrics } else { Format::Prometheus }
}

/// Returns whether a range is for a version that is written: 1.0.0, its draft, or whichever there is.
fn is_known_version(range: &[u8]) -> bool {
    let mut parameters = range.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    let version = parameters.find_map(|parameter| parameter.strip_prefix(b"version="));
    version
        .is_none_or(|version| matches!(version, b"1.0.0" | b"0.0.1" | b"\"1.0.0\"" | b"\"0.0.1\""))
}
