//! A directive's arguments, read as what they should be.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::contexts::Contexts;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Statement, Word};
use crate::units;

/// Who knows the addresses of host names that a configuration writes. This crate asks nobody itself.
pub trait HostNames {
    /// The addresses of a host. May block.
    ///
    /// # Errors
    /// The name is not known.
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

impl fmt::Debug for dyn HostNames + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HostNames")
    }
}

/// Knows no name.
struct NoNames;

impl HostNames for NoNames {
    fn addresses(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// The arguments of one statement. Indices count the words after the name, from 0.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// The statement.
    pub statement: &'a Statement,
    /// Where it stands: one context.
    pub context: Contexts,
    /// Who is asked for the addresses of host names.
    pub names: &'a dyn HostNames,
}

/// What an index beyond the last argument gives.
static NO_WORD: Word = Word { bytes: Vec::new(), span: Span::NONE, quoted: false };

impl<'a> Args<'a> {
    /// The arguments of `statement`, which stands in `context`. No host name is known to it.
    pub fn new(statement: &'a Statement, context: Contexts) -> Self {
        Args { statement, context, names: &NoNames }
    }

    /// The same where host names are looked up.
    pub fn with_names(
        statement: &'a Statement,
        context: Contexts,
        names: &'a dyn HostNames,
    ) -> Self {
        Args { statement, context, names }
    }

    /// Number of arguments.
    #[expect(clippy::len_without_is_empty, reason = "the arity was checked before")]
    pub fn len(&self) -> usize {
        self.statement.args.len()
    }

    /// The directive's name.
    pub fn name(&self) -> std::borrow::Cow<'a, str> {
        self.statement.name.display()
    }

    /// All arguments.
    pub fn words(&self) -> &'a [Word] {
        &self.statement.args
    }

    /// An argument; an empty word when there are not so many.
    pub fn word(&self, index: usize) -> &'a Word {
        self.statement.args.get(index).unwrap_or(&NO_WORD)
    }

    /// An argument's bytes; empty when there are not so many.
    pub fn bytes(&self, index: usize) -> &'a [u8] {
        &self.word(index).bytes
    }

    /// An argument as text.
    ///
    /// # Errors
    /// When it is no UTF-8.
    pub fn text(&self, index: usize) -> Result<&'a str, Diagnostic> {
        std::str::from_utf8(self.bytes(index)).map_err(|_| {
            let message = format!("invalid value \"{}\"", self.word(index).display());
            self.error(index, message).label("not valid UTF-8")
        })
    }

    /// `on` or `off`, in upper or lower case.
    ///
    /// # Errors
    /// For anything else, in nginx's words.
    pub fn flag(&self, index: usize) -> Result<bool, Diagnostic> {
        let bytes = self.bytes(index);
        if bytes.eq_ignore_ascii_case(b"on") {
            return Ok(true);
        }
        if bytes.eq_ignore_ascii_case(b"off") {
            return Ok(false);
        }
        let message = format!(
            "invalid value \"{}\" in \"{}\" directive, it must be \"on\" or \"off\"",
            self.word(index).display(),
            self.name()
        );
        Err(self.error(index, message).label("expected `on` or `off`"))
    }

    /// A number within bounds.
    ///
    /// # Errors
    /// `"x" directive invalid number` when it is none; `value must be between 1 and 9` or `value
    /// must be equal to or greater than 1` when it is out of bounds.
    pub fn number(&self, index: usize, range: RangeInclusive<u64>) -> Result<u64, Diagnostic> {
        let Some(number) = units::parse_number(self.bytes(index)) else {
            let message = format!("\"{}\" directive invalid number", self.name());
            return Err(self.error(index, message).label("expected a number"));
        };
        if range.contains(&number) {
            return Ok(number);
        }
        let message = match (*range.start(), *range.end()) {
            (low, u64::MAX) => format!("value must be equal to or greater than {low}"),
            (low, high) => format!("value must be between {low} and {high}"),
        };
        Err(self.error(index, message).label("out of bounds"))
    }

    /// A size in bytes, see [`units::parse_size`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn size(&self, index: usize) -> Result<u64, Diagnostic> {
        units::parse_size(self.bytes(index))
            .ok_or_else(|| self.invalid(index).label("expected a size such as `512`, `8k` or `1m`"))
    }

    /// A file size in bytes, see [`units::parse_offset`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn offset(&self, index: usize) -> Result<u64, Diagnostic> {
        units::parse_offset(self.bytes(index)).ok_or_else(|| {
            self.invalid(index).label("expected a size such as `512`, `8k`, `1m` or `2g`")
        })
    }

    /// A size of buffers, which is not zero.
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn buffer_size(&self, index: usize) -> Result<u64, Diagnostic> {
        match self.size(index)? {
            0 => Err(self.invalid(index).label("a buffer has at least one byte")),
            size => Ok(size),
        }
    }

    /// A time down to milliseconds, see [`units::parse_milliseconds`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn milliseconds(&self, index: usize) -> Result<Duration, Diagnostic> {
        units::parse_milliseconds(self.bytes(index)).ok_or_else(|| {
            self.invalid(index).label("expected a time such as `30s`, `500ms` or `1h30m`")
        })
    }

    /// A time in whole seconds, see [`units::parse_seconds`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn seconds(&self, index: usize) -> Result<Duration, Diagnostic> {
        units::parse_seconds(self.bytes(index)).ok_or_else(|| {
            self.invalid(index).label("expected a time such as `30s`, `1h30m` or `10d`")
        })
    }

    /// One of several names, in upper or lower case; the value beside it.
    ///
    /// # Errors
    /// `invalid value "x"`, with the names as help.
    pub fn choice<T: Copy>(&self, index: usize, of: &[(&str, T)]) -> Result<T, Diagnostic> {
        let bytes = self.bytes(index);
        if let Some((_, value)) =
            of.iter().find(|(name, _)| bytes.eq_ignore_ascii_case(name.as_bytes()))
        {
            return Ok(*value);
        }
        let names: Vec<String> = of.iter().map(|(name, _)| format!("`{name}`")).collect();
        let shown = self.word(index).display();
        let mut error = self
            .error(index, format!("invalid value \"{shown}\""))
            .label(format!("expected {}", names.join(", ")));
        let candidates = of.iter().map(|(name, _)| *name);
        if let Some(meant) = crate::registry::closest(&shown, candidates) {
            error = error.help(format!("did you mean `{meant}`?"));
        }
        Err(error)
    }

    /// An argument as `name=value`, or as a name alone.
    ///
    /// # Errors
    /// When it is no UTF-8.
    pub fn parameter(&self, index: usize) -> Result<(&'a str, Option<&'a str>), Diagnostic> {
        let text = self.text(index)?;
        Ok(match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        })
    }

    /// The statements of the block; none when there is no block.
    pub fn block(&self) -> &'a [Statement] {
        self.statement.children()
    }

    /// The statements of a block of data (`map`, `types`, `geo`), where no block may stand.
    ///
    /// # Errors
    /// `unexpected "{"`.
    pub fn entries(&self) -> Result<&'a [Statement], Diagnostic> {
        let entries = self.block();
        match entries.iter().find_map(|entry| entry.block.as_ref()) {
            Some(block) => Err(Diagnostic::emerg("unexpected \"{\"")
                .at(block.open)
                .label(format!("the entries of `{}` have no blocks", self.name()))),
            None => Ok(entries),
        }
    }

    /// An error about one argument (about the directive, if there are not so many).
    pub fn error(&self, index: usize, message: impl Into<String>) -> Diagnostic {
        let span = match self.statement.args.get(index) {
            Some(word) => word.span,
            None => self.statement.name.span,
        };
        Diagnostic::emerg(message).at(span).line_at(self.statement.terminator())
    }

    /// An error about the directive as a whole.
    pub fn error_here(&self, message: impl Into<String>) -> Diagnostic {
        self.error(usize::MAX, message)
    }

    /// `"x" directive invalid value`: nginx's words for a bad size or time.
    pub fn invalid(&self, index: usize) -> Diagnostic {
        self.error(index, format!("\"{}\" directive invalid value", self.name()))
    }

    /// `invalid value "x"`: nginx's words where it names what it does not take.
    pub fn invalid_value(&self, index: usize) -> Diagnostic {
        self.error(index, format!("invalid value \"{}\"", self.word(index).display()))
    }

    /// `invalid parameter "x"`: nginx's words for an unknown or bad `name=value`.
    pub fn invalid_parameter(&self, index: usize) -> Diagnostic {
        let word = self.word(index);
        let error = self.error(index, format!("invalid parameter \"{}\"", word.display()));
        // The next directive's name becomes an argument when a `;` is forgotten.
        if index > 0 && !crate::known::find(&word.bytes).is_empty() {
            return error.help(format!("is a `;` missing before `{}`?", word.display()));
        }
        match crate::parameters::meant(&self.name(), &word.display()) {
            Some(meant) => error.help(format!("did you mean `{meant}`?")),
            None => error,
        }
    }

    /// `"x" directive is duplicate`.
    pub fn duplicate(&self) -> Diagnostic {
        self.error_here(format!("\"{}\" directive is duplicate", self.name()))
            .label("given a second time here")
    }
}

/// Stores the value of a directive that may be given once.
///
/// # Errors
/// `"x" directive is duplicate` when there is a value already.
pub fn once<T>(slot: &mut Option<T>, value: T, args: &Args<'_>) -> Result<(), Diagnostic> {
    if slot.is_some() {
        return Err(args.duplicate());
    }
    *slot = Some(value);
    Ok(())
}
