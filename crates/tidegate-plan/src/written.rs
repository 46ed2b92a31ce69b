//! Statements as text with their places, for `explain`. Keys are not shown.

use std::sync::Arc;

use tidegate_conf::{SourceMap, Span, Statement, Word};
use tidegate_core::written::{WrittenBlock, WrittenLine};

/// Longest text of a statement, in bytes.
const TEXT_BYTES_MAX: usize = 300;

/// Makes a block of what it was opened with and of its statements.
pub(crate) fn block(
    (name, args, span): (&str, &[Word], Span),
    statements: &[Statement],
    outer: Option<Arc<WrittenBlock>>,
    sources: &SourceMap,
) -> Arc<WrittenBlock> {
    let opening =
        WrittenLine { name: name.to_owned(), text: text(name, args), place: place(span, sources) };
    let lines = statements.iter().map(|statement| line(statement, sources)).collect();
    Arc::new(WrittenBlock { opening, outer, lines })
}

fn line(statement: &Statement, sources: &SourceMap) -> WrittenLine {
    let name = statement.name.display().into_owned();
    let mut text = text(&name, &statement.args);
    if statement.block.is_some() {
        text.push_str(" { … }");
    }
    WrittenLine { name, text, place: place(statement.name.span, sources) }
}

fn text(name: &str, args: &[Word]) -> String {
    let mut text = name.to_owned();
    for word in args {
        let quote = if word.quoted { "\"" } else { "" };
        let shown = tidegate_conf::without_key(word.display());
        text.push_str(&format!(" {quote}{shown}{quote}"));
    }
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

fn place(span: Span, sources: &SourceMap) -> String {
    match sources.file(span.file) {
        Some(file) => format!("{}:{}", file.name(), sources.line_column(span).0),
        None => String::new(),
    }
}
