//! Parses the conditions of `if`.

use tidegate_conf::{Args, Diagnostic, Span, Word};

/// A condition as written.
#[derive(Clone)]
pub(crate) enum ConditionConf {
    /// `($name)`: not empty and not `0`.
    True { name: Word },
    /// `($name = text)`, `($name != text)`.
    Equal { name: Word, text: Word, negated: bool },
    /// `($name ~ regex)` and its variants.
    Match { name: Word, regex: Word, caseless: bool, negated: bool },
    /// `(-f path)` and its variants.
    File { test: FileTest, path: Word, negated: bool },
}

/// The property of a file that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileTest {
    Plain,
    Directory,
    Exists,
    Executable,
}

/// Reads the words of an `if`.
pub(super) fn read(args: &Args<'_>) -> Result<ConditionConf, Diagnostic> {
    let words = without_parentheses(args)?;
    let invalid = |word: &Word| {
        let error = Diagnostic::emerg(format!("invalid condition \"{}\"", word.display()));
        error.at(word.span).line_at(args.statement.terminator())
    };
    let Some(first) = words.first() else { return Err(invalid(args.word(0))) };
    match first.bytes.first() {
        Some(b'$') if first.bytes.len() > 1 => compare(args, &words, &invalid),
        Some(b'-' | b'!') => {
            let (negated, letter) = match first.bytes.strip_prefix(b"!") {
                Some(rest) => (true, rest),
                None => (false, &first.bytes[..]),
            };
            let test = match letter {
                b"-f" => FileTest::Plain,
                b"-d" => FileTest::Directory,
                b"-e" => FileTest::Exists,
                b"-x" => FileTest::Executable,
                _ => return Err(invalid(first)),
            };
            match &words[..] {
                [_, path] => Ok(ConditionConf::File { test, path: path.clone(), negated }),
                _ => Err(invalid(first)),
            }
        }
        _ => Err(invalid(first)),
    }
}

fn compare(
    args: &Args<'_>,
    words: &[Word],
    invalid: &impl Fn(&Word) -> Diagnostic,
) -> Result<ConditionConf, Diagnostic> {
    let (name, operator, operand) = match words {
        [name] => return Ok(ConditionConf::True { name: name.clone() }),
        [name, operator, operand] => (name.clone(), operator, operand.clone()),
        _ => return Err(invalid(&words[0])),
    };
    let matching = |caseless, negated| ConditionConf::Match {
        name: name.clone(),
        regex: operand.clone(),
        caseless,
        negated,
    };
    match &operator.bytes[..] {
        b"=" => Ok(ConditionConf::Equal { name, text: operand, negated: false }),
        b"!=" => Ok(ConditionConf::Equal { name, text: operand, negated: true }),
        b"~" => Ok(matching(false, false)),
        b"~*" => Ok(matching(true, false)),
        b"!~" => Ok(matching(false, true)),
        b"!~*" => Ok(matching(true, true)),
        _ => {
            let message = format!("unexpected \"{}\" in condition", operator.display());
            Err(Diagnostic::emerg(message)
                .at(operator.span)
                .line_at(args.statement.terminator())
                .help("operators are `=`, `!=`, `~`, `~*`, `!~` and `!~*`"))
        }
    }
}

/// Returns the words without `(` at the start and `)` at the end, each of which may be a word of its own.
fn without_parentheses(args: &Args<'_>) -> Result<Vec<Word>, Diagnostic> {
    let mut words = args.words().to_vec();
    let invalid = |word: &Word, text: &[u8], span: Span| {
        let text = String::from_utf8_lossy(text);
        let error = Diagnostic::emerg(format!("invalid condition \"{text}\"")).at(span);
        let error = error.line_at(args.statement.terminator());
        let _ = word;
        Err(error.help("a condition stands in parentheses: `if ($name = text) { … }`"))
    };
    if let Some(first) = words.first_mut() {
        if first.bytes.first() != Some(&b'(') {
            return invalid(first, &first.bytes, first.span);
        }
        first.bytes.remove(0);
    }
    if let Some(last) = words.last_mut()
        && last.bytes.pop_if(|byte| *byte == b')').is_none()
    {
        return invalid(last, &last.bytes, last.span);
    }
    // Words that were only a parenthesis are removed; an empty text in quotes before it is kept.
    let count = words.len();
    let mut index = 0;
    words.retain(|word| {
        index += 1;
        let edge = index == 1 || index == count;
        !(edge && word.bytes.is_empty() && !word.quoted)
    });
    Ok(words)
}
