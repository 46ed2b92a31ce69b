//! The table of a case that is many: an ```` ```each ```` block names columns in its first line
//! and gives their values in the others, divided by ` | ` (the last value may itself have some).
//! Each row is a case of its own, in which `{column}` is replaced by the row's value.

use crate::bell::Failure;
use crate::case::Case;

/// Columns and rows; each row has a value for each column.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a block whose first line is `first` in its file; a mistake names its line.
    pub(crate) fn parse(text: &str, first: usize) -> Result<Self, (usize, Failure)> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut lines = lines.map(|(index, line)| (first + index, line));
        let Some((_, columns)) = lines.next() else {
            return Err((first, Failure::new("the table has no columns")));
        };
        let columns = cells(columns, usize::MAX);
        let mut rows = Vec::new();
        for (number, line) in lines {
            let row = cells(line, columns.len());
            if row.len() != columns.len() {
                let text = format!("{} values for {} columns", row.len(), columns.len());
                return Err((number, Failure::new(text)));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err((first, Failure::new("the table has no rows")));
        }
        Ok(Self { columns, rows })
    }

    /// The case once for each row. A column that the case does not use, or rows that have the same
    /// title, are mistakes.
    pub(crate) fn rows_of(&self, case: &Case) -> Result<Vec<Case>, Failure> {
        for column in &self.columns {
            let wanted = format!("{{{column}}}");
            if !texts(&mut case.clone()).any(|text| text.contains(&wanted)) {
                return Err(Failure::new(format!("{wanted} of the table is nowhere in the case")));
            }
        }
        let mut many: Vec<Case> = Vec::new();
        for row in &self.rows {
            let mut one = case.clone();
            for (column, value) in self.columns.iter().zip(row) {
                let name = format!("{{{column}}}");
                texts(&mut one).for_each(|text| *text = text.replace(&name, value));
            }
            if many.iter().any(|other| other.title == one.title) {
                let text = format!("two rows of the table have the title `{}`", one.title);
                return Err(Failure::new(text));
            }
            many.push(one);
        }
        Ok(many)
    }
}

fn cells(line: &str, count: usize) -> Vec<String> {
    line.trim().splitn(count, " | ").map(|cell| cell.trim().to_owned()).collect()
}

/// Everything in which a column's name is replaced.
fn texts(case: &mut Case) -> impl Iterator<Item = &mut String> {
    let configs = case.configs.iter_mut().map(|config| &mut config.text);
    let files = case.files.iter_mut().map(|(_, content)| content);
    let texts = case.texts.contents_mut();
    [&mut case.title, &mut case.script_text].into_iter().chain(configs).chain(files).chain(texts)
}
