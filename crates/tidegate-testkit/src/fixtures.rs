//! Configuration that cases share: a ```` ```fixture NAME ```` block of `fixtures.md`, or of a case file before its
//! first title. A line `fixture NAME;` of an `nginx` block stands for the block's lines.

use crate::bell::Failure;
use crate::markdown::{Part, items};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the file whose fixtures all cases beside and below it may use.
pub(crate) const FILE: &str = "fixtures.md";

/// Texts by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fixtures(BTreeMap<String, String>);

impl Fixtures {
    /// Those that the cases of `file` may use: of the nearest `fixtures.md` beside or above it.
    ///
    /// # Errors
    /// The file's mistakes, as `file:line: text`.
    pub(crate) fn of_file(file: &Path) -> Result<Self, Vec<Failure>> {
        let found = file.ancestors().skip(1).map(|directory| directory.join(FILE));
        let found = found.map(|path| std::fs::read_to_string(&path).map(|text| (path, text)));
        match found.flatten().next() {
            Some((path, text)) => Self::of_text(&path.display().to_string(), &text),
            None => Ok(Self::default()),
        }
    }

    fn of_text(file: &str, text: &str) -> Result<Self, Vec<Failure>> {
        let (mut fixtures, mut mistakes) = (Self::default(), Vec::new());
        for item in items(text) {
            let Part::Block { info, text, is_closed } = item.part else { continue };
            let added = match info.split_once(' ') {
                Some(("fixture", name)) if is_closed => fixtures.add(name, text),
                Some(("fixture", _)) => Err(Failure::new("this block is not closed")),
                _ => Err(Failure::new("a block here is ```fixture NAME")),
            };
            if let Err(mistake) = added {
                mistakes.push(Failure::new(format!("{file}:{}: {mistake}", item.line)));
            }
        }
        if mistakes.is_empty() { Ok(fixtures) } else { Err(mistakes) }
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, name: &str, text: String) -> Result<(), Failure> {
        if text.lines().any(|line| used(line).is_some()) {
            return Err(Failure::new("a fixture does not use another one"));
        }
        match self.0.insert(name.to_owned(), text) {
            None => Ok(()),
            Some(_) => Err(Failure::new(format!("there is a fixture `{name}` already"))),
        }
    }

    /// A configuration with each `fixture NAME;` replaced, at its indentation.
    ///
    /// # Errors
    /// An unknown name, with the line's number in the text, from 0.
    pub(crate) fn expand(&self, text: &str) -> Result<String, (usize, Failure)> {
        let mut expanded = String::with_capacity(text.len());
        for (number, line) in text.lines().enumerate() {
            let Some(name) = used(line) else {
                expanded.push_str(line);
                expanded.push('\n');
                continue;
            };
            let fixture = self.0.get(name).ok_or_else(|| {
                (number, Failure::new(format!("no ```fixture {name} block, here or in {FILE}")))
            })?;
            let indentation = &line[..line.len() - line.trim_start().len()];
            for inner in fixture.lines() {
                expanded.push_str(indentation);
                expanded.push_str(inner);
                expanded.push('\n');
            }
        }
        Ok(expanded)
    }
}

/// The name in a line `fixture NAME;`.
fn used(line: &str) -> Option<&str> {
    line.trim().strip_prefix("fixture ")?.strip_suffix(';').filter(|name| !name.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::Fixtures;

    #[test]
    fn fixtures_are_expanded_in_place() {
        let text = "Prose.\n```fixture a\nx;\ny { }\n```\n```fixture b\nz;\n```\n";
        let fixtures = Fixtures::of_text("f.md", text).unwrap_or_default();
        let expanded =
            fixtures.expand("s {\n  fixture a;\n}\nfixture b;\nfixture c d;\n").unwrap_or_default();
        assert_eq!(expanded, "s {\n  x;\n  y { }\n}\nz;\nfixture c d;\n");
        let unknown = fixtures.expand("x;\nfixture c;\n").map_err(|(line, text)| (line, text.0));
        assert_eq!(unknown, Err((1, "no ```fixture c block, here or in fixtures.md".to_owned())));
        let check = |text: &str, expected: &str| {
            let mistakes = Fixtures::of_text("f.md", text).err().unwrap_or_default();
            assert_eq!(mistakes.first().map(ToString::to_string).unwrap_or_default(), expected);
        };
        check("```nginx\n```\n", "f.md:1: a block here is ```fixture NAME");
        check("\n```fixture a\n", "f.md:2: this block is not closed");
        check("```fixture a\nfixture b;\n```\n", "f.md:1: a fixture does not use another one");
        let twice = "```fixture a\n```\n```fixture a\n```\n";
        check(twice, "f.md:3: there is a fixture `a` already");
    }
}
