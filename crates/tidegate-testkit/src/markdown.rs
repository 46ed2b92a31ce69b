//! The parts of a case file: titles, fenced blocks and prose, each with its line.

/// One part; `line` counts from 1.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub line: usize,
    pub part: Part<'a>,
}

/// What a part is.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// `# Title`
    Title(&'a str),
    /// A line outside of blocks that is not empty.
    Prose(&'a str),
    /// A fenced block; its lines end with a line end each.
    Block { info: &'a str, text: String, is_closed: bool },
}

/// All parts in order.
pub(crate) fn items(text: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let fence = line.len() - line.trim_start_matches('`').len();
        let part = if fence >= 3 {
            let close = &line[..fence];
            let (mut text, mut is_closed) = (String::new(), false);
            for (_, inner) in lines.by_ref() {
                if inner.trim_end() == close {
                    is_closed = true;
                    break;
                }
                text.push_str(inner);
                text.push('\n');
            }
            Part::Block { info: line[fence..].trim(), text, is_closed }
        } else if let Some(title) = line.strip_prefix("# ") {
            Part::Title(title.trim())
        } else if line.trim().is_empty() {
            continue;
        } else {
            Part::Prose(line)
        };
        items.push(Item { line: index + 1, part });
    }
    items
}
