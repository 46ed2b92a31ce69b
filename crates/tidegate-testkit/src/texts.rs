//! Named texts of a case: a ```` ```text NAME [crlf] ```` block, to which the script refers as `<<NAME` wherever a
//! quoted text may be, also as `*<<NAME` and `~<<NAME` and in sums (`<<NAME + "\n"`).

use crate::bell::Failure;
use std::borrow::Cow;

/// The texts of one case.
#[derive(Debug, Clone, Default)]
pub struct Texts(Vec<Text>);

#[derive(Debug, Clone)]
struct Text {
    name: String,
    /// With the line ends that it stands for, none behind the last line.
    content: String,
}

impl Texts {
    /// Adds the block `info`, the words behind `text`. The line end of its last line is left out, and `crlf` turns
    /// the others into CR LF.
    pub(crate) fn add(&mut self, info: &str, block: &str) -> Result<(), Failure> {
        let (name, crlf) = match info.split_once(' ') {
            None => (info, false),
            Some((name, "crlf")) => (name, true),
            Some(_) => return Err(Failure::new("a text is ```text NAME or ```text NAME crlf")),
        };
        if self.0.iter().any(|text| text.name == name) {
            return Err(Failure::new(format!("the case has a text `{name}` already")));
        }
        let content = block.strip_suffix('\n').unwrap_or(block);
        let content = if crlf { content.replace('\n', "\r\n") } else { content.to_owned() };
        self.0.push(Text { name: name.to_owned(), content });
        Ok(())
    }

    /// The contents.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|text| text.content.as_str())
    }

    /// The contents, to be changed.
    pub(crate) fn contents_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().map(|text| &mut text.content)
    }

    /// The same texts with other contents.
    pub(crate) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        let changed =
            |text: &Text| Text { name: text.name.clone(), content: change(&text.content) };
        Self(self.0.iter().map(changed).collect())
    }

    /// The first text to which a script does not refer.
    pub(crate) fn unused(&self, script: &str) -> Option<&str> {
        let used = |name: &str| script.split("<<").skip(1).any(|rest| name_of(rest) == name);
        self.0.iter().map(|text| text.name.as_str()).find(|name| !used(name))
    }

    /// A statement with its references replaced by quoted texts.
    ///
    /// # Errors
    /// A reference to a text that the case does not have.
    pub(crate) fn filled_in<'a>(&self, line: &'a str) -> Result<Cow<'a, str>, Failure> {
        if !line.contains("<<") {
            return Ok(Cow::Borrowed(line));
        }
        let (mut filled, mut rest) = (String::new(), line);
        let (mut quoted, mut before) = (false, ' ');
        while let Some(character) = rest.chars().next() {
            let begins = before.is_whitespace() || matches!(before, '*' | '~');
            if !quoted
                && begins
                && let Some(after) = rest.strip_prefix("<<")
            {
                let name = name_of(after);
                let text = self.0.iter().find(|text| text.name == name);
                let text = text.ok_or_else(|| Failure::new(format!("no ```text {name} block")))?;
                filled.push('"');
                filled.push_str(&escaped(&text.content, before == '~'));
                filled.push('"');
                rest = &after[name.len()..];
                before = '"';
                continue;
            }
            if character == '"' && (before != '\\' || !quoted) {
                quoted = !quoted;
            }
            // A backslash that is itself escaped escapes nothing.
            before = if character == '\\' && before == '\\' { ' ' } else { character };
            filled.push(character);
            rest = &rest[character.len_utf8()..];
        }
        Ok(Cow::Owned(filled))
    }
}

fn name_of(rest: &str) -> &str {
    rest.split(char::is_whitespace).next().unwrap_or_default()
}

/// What between quotation marks stands for `text`. In a pattern, backslashes belong to the pattern.
fn escaped(text: &str, in_pattern: bool) -> String {
    let text = if in_pattern { text.to_owned() } else { text.replace('\\', "\\\\") };
    text.replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::Texts;
    use crate::words::{Matcher, Word, split};

    #[test]
    fn texts_are_filled_in() {
        let mut texts = Texts::default();
        texts.add("page crlf", "<a b=\"\\\">\nx\n").expect("added");
        texts.add("end", "c\n\n").expect("added");
        texts.add("form", "^\\d\"\n").expect("added");
        assert!(texts.add("end", "").is_err());
        assert!(texts.add("a b", "").is_err());
        let check = |line: &str, expected: &[u8]| {
            let line = texts.filled_in(line).expect("known names");
            let found = split(&line).expect("words").pop();
            let bytes = match found {
                Some(Word::Text(text) | Word::Match(Matcher::Contains(text))) => text,
                Some(Word::Match(Matcher::Pattern(pattern))) => pattern.as_str().into(),
                other => format!("{other:?}").into_bytes(),
            };
            assert_eq!(bytes, expected, "{line}");
        };
        check("x <<page", b"<a b=\"\\\">\r\nx");
        check("x *<<end", b"c\n");
        check("x ~<<form", b"^\\d\"");
        check("x <<end + \"\\\\\" + <<end", b"c\n\\c\n");
        check("x \"\\\\ <<end\"", b"\\ <<end");
        assert_eq!(texts.unused("a <<page *<<end"), Some("form"));
        assert!(texts.filled_in("x <<none").is_err());
    }
}
