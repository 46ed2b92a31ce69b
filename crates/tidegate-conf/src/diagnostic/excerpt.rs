//! The excerpt of the source with the place of a diagnostic.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::Diagnostic;
use crate::source::{SourceFile, SourceMap, Span};

/// Lines shown before and after the place.
const LINES_AROUND: usize = 1;

/// The most lines shown of a place; the first ones are shown.
const LINES_SHOWN_MAX: usize = 6;

/// The most bytes shown before and after the place: minified configurations have lines of megabytes.
const BYTES_AROUND: usize = 2000;

/// Appends the excerpt of `diagnostic`, and its advice, to `text`.
pub(super) fn draw(diagnostic: &Diagnostic, sources: &SourceMap, color: bool, text: &mut String) {
    let shown = diagnostic.span.and_then(|span| Some((span, sources.file(span.file)?)));
    let Some((span, file)) = shown else {
        for line in &diagnostic.help {
            text.push_str(&format!("  = help: {line}\n"));
        }
        return;
    };
    let excerpt = Excerpt::new(file, span);
    let mut annotation = AnnotationKind::Primary.span(excerpt.marked.clone());
    if !diagnostic.label.is_empty() {
        annotation = annotation.label(diagnostic.label.as_str());
    }
    let mut snippet = Snippet::source(excerpt.text)
        .line_start(excerpt.first_line)
        .fold(false)
        .annotation(annotation);
    // The first line has the message, hence the group has no title.
    let level = if diagnostic.severity.is_fatal() { Level::ERROR } else { Level::WARNING };
    let mut group = Group::with_level(level);
    if excerpt.cropped {
        // The renderer would count columns from the cut.
        let (line, column) = sources.line_column(span);
        group = group.element(Origin::path(file.name()).line(line).char_column(column));
    } else {
        snippet = snippet.path(file.name());
    }
    let group = group.element(snippet);
    let help = diagnostic.help.iter().map(|line| Level::HELP.message(line.as_str()));
    let report = [group.elements(help)];
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let drawn = renderer.render(&report);
    for line in drawn.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The lines around a place, as text.
struct Excerpt {
    text: String,
    /// The number of its first line, from 1.
    first_line: usize,
    /// The place within `text`.
    marked: Range<usize>,
    /// Whether `text` begins within the line of the place.
    cropped: bool,
}

impl Excerpt {
    fn new(file: &SourceFile, span: Span) -> Excerpt {
        let bytes = file.bytes();
        let starts = file.line_starts();
        let line = file.line_index(span.start);
        let last = file.line_index(span.end.saturating_sub(1).max(span.start));
        let last = last.min(line + LINES_SHOWN_MAX);
        let first_line = line.saturating_sub(LINES_AROUND);
        let line_start = |index: usize| starts.get(index).map_or(bytes.len(), |at| *at as usize);

        let start = (span.start as usize).min(bytes.len());
        let window_end = line_start(last + 1 + LINES_AROUND);
        let end = (span.end as usize).clamp(start, line_start(last + 1)).min(start + BYTES_AROUND);
        let mut from = line_start(first_line);
        let mut first_shown = first_line;
        if start - from > BYTES_AROUND {
            from = start - BYTES_AROUND;
            first_shown = file.line_index(from as u32);
        }
        let cropped = from > line_start(line);
        let to = window_end.min(end + BYTES_AROUND).max(end);

        let before = clean(bytes.get(from..start));
        let marked = clean(bytes.get(start..end));
        let after = clean(bytes.get(end..to));
        let range = before.len()..before.len() + marked.len();
        let mut text = crate::dump::starred(before + &marked + &after);
        // An empty last line would be drawn.
        let kept = text.trim_end_matches('\n').len().max(range.end);
        text.truncate(kept);
        Excerpt { text, first_line: first_shown + 1, marked: range, cropped }
    }
}

/// Returns the bytes as text that a terminal shows without harm; lines stay lines.
fn clean(bytes: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(bytes.unwrap_or(&[]));
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => character,
            '\r' => ' ',
            _ if character.is_control() => char::REPLACEMENT_CHARACTER,
            _ => character,
        })
        .collect()
}
