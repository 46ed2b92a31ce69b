//! Directory listings as text, byte for byte as nginx writes them: HTML, and XML, JSON and JSONP for programs.

use std::io::Write;

use tidegate_codec::date::{self, Civil};
use tidegate_codec::uri::{Escape, escape, escape_html};

use super::read::{ListedEntry, ListedKind};

/// The format of a listing.
#[derive(Clone, Debug)]
pub(super) enum ListFormat {
    Html {
        /// Decoded path of the directory, for the title.
        path: Vec<u8>,
        exact_size: bool,
        localtime: bool,
        /// Whether the width of a name is its characters rather than its bytes.
        utf8: bool,
    },
    Xml,
    Json {
        /// JavaScript function that the listing is passed to (JSONP).
        callback: Option<Vec<u8>>,
    },
}

impl ListFormat {
    /// Returns the media type of the listing.
    pub(super) fn content_type(&self) -> &'static [u8] {
        match self {
            ListFormat::Html { .. } => b"text/html",
            ListFormat::Xml => b"text/xml; charset=utf-8",
            ListFormat::Json { callback: None } => b"application/json",
            ListFormat::Json { callback: Some(_) } => b"application/javascript",
        }
    }
}

/// Characters of a name in a page; longer names are cut.
const NAME_WIDTH: usize = 50;
/// Characters that are kept of a name that is cut; `..>` is appended.
const NAME_KEPT: usize = NAME_WIDTH - 3;
/// Estimated bytes of a line without its name, to reserve memory.
const LINE_BYTES: usize = 128;

/// Renders a listing.
pub(super) fn write(entries: &[ListedEntry], form: &ListFormat) -> Vec<u8> {
    let names: usize = entries.iter().map(|entry| LINE_BYTES + 2 * entry.name.len()).sum();
    let mut out = Vec::with_capacity(names + 4 * LINE_BYTES);
    match form {
        ListFormat::Html { path, exact_size, localtime, utf8 } => {
            let line = LineFormat { exact_size: *exact_size, localtime: *localtime, utf8: *utf8 };
            html(entries, path, &line, &mut out);
        }
        ListFormat::Xml => xml(entries, &mut out),
        ListFormat::Json { callback } => json(entries, callback.as_deref(), &mut out),
    }
    out
}

fn html(entries: &[ListedEntry], path: &[u8], line: &LineFormat, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
    escape_html(path, out);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    escape_html(path, out);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for entry in entries {
        line.write(entry, out);
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
}

/// The format of the lines of a page.
struct LineFormat {
    exact_size: bool,
    localtime: bool,
    utf8: bool,
}

impl LineFormat {
    fn write(&self, entry: &ListedEntry, out: &mut Vec<u8>) {
        let is_directory = entry.kind == ListedKind::Directory;
        out.extend_from_slice(b"<a href=\"");
        escape(&entry.name, Escape::Component, out);
        out.extend_from_slice(if is_directory { "/\">" } else { "\">" }.as_bytes());
        let mut width = width(&entry.name, self.utf8);
        if width > NAME_WIDTH {
            escape_html(beginning(&entry.name, self.utf8, NAME_KEPT), out);
            out.extend_from_slice(b"..&gt;");
            width = NAME_WIDTH;
        } else {
            escape_html(&entry.name, out);
            if is_directory && width < NAME_WIDTH {
                out.push(b'/');
                width += 1;
            }
        }
        out.extend_from_slice(b"</a>");
        out.resize(out.len() + NAME_WIDTH + 1 - width, b' ');
        self.write_time(entry.modified, out);
        let size = match (is_directory, self.exact_size) {
            (true, _) => "-".to_owned(),
            (false, true) => entry.size.to_string(),
            (false, false) => rounded(entry.size),
        };
        let size_width = if self.exact_size { 20 } else { 8 };
        put(out, format_args!("{size:>size_width$}\r\n"));
    }

    fn write_time(&self, seconds: i64, out: &mut Vec<u8>) {
        let offset = match self.localtime {
            true => tidegate_os::time::local_utc_offset(seconds),
            false => 0,
        };
        let shown = seconds.saturating_add(i64::from(offset)).max(0);
        let Civil { year, month, day, hour, minute, .. } = Civil::from_unix(shown);
        let month = MONTHS[usize::from(month.saturating_sub(1)) % MONTHS.len()];
        put(out, format_args!("{day:02}-{month}-{year} {hour:02}:{minute:02}"));
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the width of a name: its bytes, or its characters if the page is in UTF-8 and the name is valid UTF-8.
fn width(name: &[u8], utf8: bool) -> usize {
    match std::str::from_utf8(name) {
        Ok(text) if utf8 => text.chars().count(),
        _ => name.len(),
    }
}

/// Returns the first `count` bytes or characters of a name.
fn beginning(name: &[u8], utf8: bool, count: usize) -> &[u8] {
    let end = match std::str::from_utf8(name) {
        Ok(text) if utf8 => text.char_indices().nth(count).map(|(at, _)| at),
        _ => Some(count),
    };
    name.get(..end.unwrap_or(name.len())).unwrap_or(name)
}

/// Formats a size: in bytes up to 9999, else in K, M or G, rounded to the nearest.
pub(super) fn rounded(size: u64) -> String {
    let (unit, letter) = match size {
        0..=9999 => return size.to_string(),
        10_000..=0xf_ffff => (1 << 10, 'K'),
        0x10_0000..=0x3fff_ffff => (1 << 20, 'M'),
        _ => (1 << 30, 'G'),
    };
    format!("{}{letter}", size / unit + u64::from(size % unit >= unit / 2))
}

fn xml(entries: &[ListedEntry], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for entry in entries {
        let tag = tag(entry.kind);
        let Civil { year, month, day, hour, minute, second, .. } =
            Civil::from_unix(entry.modified.max(0));
        put(
            out,
            format_args!(
                "<{tag} mtime=\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\""
            ),
        );
        if entry.kind == ListedKind::File {
            put(out, format_args!(" size=\"{}\"", entry.size));
        }
        out.push(b'>');
        escape_html(&entry.name, out);
        put(out, format_args!("</{tag}>\r\n"));
    }
    out.extend_from_slice(b"</list>\r\n");
}

fn tag(kind: ListedKind) -> &'static str {
    match kind {
        ListedKind::Directory => "directory",
        ListedKind::File => "file",
        ListedKind::Other => "other",
    }
}

fn json(entries: &[ListedEntry], callback: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(callback) = callback {
        out.extend_from_slice(b"/* callback */\r\n");
        out.extend_from_slice(callback);
        out.push(b'(');
    }
    out.push(b'[');
    for (index, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if index == 0 { "" } else { "," }.as_bytes());
        out.extend_from_slice(b"\r\n{ \"name\":\"");
        escape_json(&entry.name, out);
        put(out, format_args!("\", \"type\":\"{}\", \"mtime\":\"", tag(entry.kind)));
        out.extend_from_slice(&date::format_http(entry.modified.max(0)));
        out.push(b'"');
        if entry.kind == ListedKind::File {
            put(out, format_args!(", \"size\":{}", entry.size));
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
    if callback.is_some() {
        out.extend_from_slice(b");");
    }
}

/// Appends a name escaped for a JSON string (RFC 8259 section 7). Invalid UTF-8 is copied as it is.
fn escape_json(name: &[u8], out: &mut Vec<u8>) {
    for byte in name {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..0x20 => put(out, format_args!("\\u{byte:04X}")),
            plain => out.push(*plain),
        }
    }
}

/// Appends formatted text; writing to memory cannot fail.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
