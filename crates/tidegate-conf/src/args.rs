//! The arguments of a directive, parsed as values.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::contexts::Contexts;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Statement, Word};
use crate::units;

/// A lookup of host names that a configuration contains. This crate makes no lookup itself.
pub trait NameLookup {
    /// Returns the addresses of a host. May block.
    ///
    /// # Errors
    /// The name is unknown.
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

impl fmt::Debug for dyn NameLookup + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NameLookup")
    }
}

/// A lookup without any name.
struct NoNames;

impl NameLookup for NoNames {
    fn addresses(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// The arguments of one statement. Indices count the words after the name, from 0.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// The statement.
    pub statement: &'a Statement,
    /// The context of the statement: a single one.
    pub context: Contexts,
    /// The lookup of host names.
    pub names: &'a dyn NameLookup,
}

/// The word of an index beyond the last argument.
static NO_WORD: Word = Word { bytes: Vec::new(), span: Span::NONE, quoted: false };

impl<'a> Args<'a> {
    /// Makes the arguments of `statement`, which is in `context`. No host name can be looked up.
    pub fn new(statement: &'a Statement, context: Contexts) -> Self {
        Args { statement, context, names: &NoNames }
    }

    /// Makes the arguments with a lookup of host names.
    pub fn with_names(
        statement: &'a Statement,
        context: Contexts,
        names: &'a dyn NameLookup,
    ) -> Self {
        Args { statement, context, names }
    }

    /// Returns number of arguments.
    #[expect(clippy::len_without_is_empty, reason = "the arity was checked before")]
    pub fn len(&self) -> usize {
        self.statement.args.len()
    }

    /// Returns the directive's name.
    pub fn name(&self) -> std::borrow::Cow<'a, str> {
        self.statement.name.display()
    }

    /// Returns all arguments.
    pub fn words(&self) -> &'a [Word] {
        &self.statement.args
    }

    /// Returns an argument; an empty word when there is none of this index.
    pub fn word(&self, index: usize) -> &'a Word {
        self.statement.args.get(index).unwrap_or(&NO_WORD)
    }

    /// Returns the bytes of an argument; empty when there is none of this index.
    pub fn bytes(&self, index: usize) -> &'a [u8] {
        &self.word(index).bytes
    }

    /// Returns an argument as text.
    ///
    /// # Errors
    /// When it is no UTF-8.
    pub fn text(&self, index: usize) -> Result<&'a str, Diagnostic> {
        std::str::from_utf8(self.bytes(index)).map_err(|_| {
            let message = format!("invalid value \"{}\"", self.word(index).display());
            self.error(index, message).label("not valid UTF-8")
        })
    }

    /// Parses `on` or `off`, in upper or lower case.
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

    /// Parses a number within bounds.
    ///
    /// # Errors
    /// `"x" directive invalid number` for anything else; `value must be between 1 and 9` or `value must be
    /// equal to or greater than 1` out of bounds.
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

    /// Parses a size in bytes, see [`units::parse_size`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn size(&self, index: usize) -> Result<u64, Diagnostic> {
        units::parse_size(self.bytes(index))
            .ok_or_else(|| self.invalid(index).label("expected a size such as `512`, `8k` or `1m`"))
    }

    /// Parses a file size in bytes, see [`units::parse_offset`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn offset(&self, index: usize) -> Result<u64, Diagnostic> {
        units::parse_offset(self.bytes(index)).ok_or_else(|| {
            self.invalid(index).label("expected a size such as `512`, `8k`, `1m` or `2g`")
        })
    }

    /// Parses a size of buffers, which is not zero.
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn buffer_size(&self, index: usize) -> Result<u64, Diagnostic> {
        match self.size(index)? {
            0 => Err(self.invalid(index).label("a buffer has at least one byte")),
            size => Ok(size),
        }
    }

    /// Parses a time down to milliseconds, see [`units::parse_milliseconds`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn milliseconds(&self, index: usize) -> Result<Duration, Diagnostic> {
        units::parse_milliseconds(self.bytes(index)).ok_or_else(|| {
            self.invalid(index).label("expected a time such as `30s`, `500ms` or `1h30m`")
        })
    }

    /// Parses a time in whole seconds, see [`units::parse_seconds`].
    ///
    /// # Errors
    /// `"x" directive invalid value`.
    pub fn seconds(&self, index: usize) -> Result<Duration, Diagnostic> {
        units::parse_seconds(self.bytes(index)).ok_or_else(|| {
            self.invalid(index).label("expected a time such as `30s`, `1h30m` or `10d`")
        })
    }

    /// Parses one of several names, in upper or lower case, and returns its value.
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

    /// Splits an argument into the name and value of `name=value`; a name alone has no value.
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

    /// Returns the statements of the block; none when there is no block.
    pub fn block(&self) -> &'a [Statement] {
        self.statement.children()
    }

    /// Returns the statements of a block of data (`map`, `types`, `geo`), which may not contain blocks.
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

    /// As [`Args::entries`], for directives that keep the entries.
    ///
    /// # Errors
    /// `unexpected "{"`.
    pub fn shared_entries(&self) -> Result<Arc<Vec<Statement>>, Diagnostic> {
        self.entries()?;
        let block = self.statement.block.as_ref();
        Ok(block.map_or_else(Arc::default, |block| block.statements.clone()))
    }

    /// Returns the statements of the block, for directives that keep them; `None` without a block.
    pub fn shared_block(&self) -> Option<Arc<Vec<Statement>>> {
        self.statement.block.as_ref().map(|block| block.statements.clone())
    }

    /// Makes an error about one argument (about the directive, if there is none of this index).
    pub fn error(&self, index: usize, message: impl Into<String>) -> Diagnostic {
        let span = match self.statement.args.get(index) {
            Some(word) => word.span,
            None => self.statement.name.span,
        };
        Diagnostic::emerg(message).at(span).line_at(self.statement.terminator())
    }

    /// Makes an error about the directive as a whole.
    pub fn error_here(&self, message: impl Into<String>) -> Diagnostic {
        self.error(usize::MAX, message)
    }

    /// Makes the error `"x" directive invalid value`: nginx's words for an invalid size or time.
    pub fn invalid(&self, index: usize) -> Diagnostic {
        self.error(index, format!("\"{}\" directive invalid value", self.name()))
    }

    /// Makes the error `invalid value "x"`: nginx's words where it names the refused value.
    pub fn invalid_value(&self, index: usize) -> Diagnostic {
        self.error(index, format!("invalid value \"{}\"", self.word(index).display()))
    }

    /// Makes the error `invalid parameter "x"`: nginx's words for an unknown or invalid `name=value`.
    pub fn invalid_parameter(&self, index: usize) -> Diagnostic {
        let word = self.word(index);
        let error = self.error(index, format!("invalid parameter \"{}\"", word.display()));
        // When a `;` is missing, the name of the next directive becomes an argument.
        if index > 0 && !crate::known::find(&word.bytes).is_empty() {
            return error.help(format!("is a `;` missing before `{}`?", word.display()));
        }
        match crate::parameters::meant(&self.name(), &word.display()) {
            Some(meant) => error.help(format!("did you mean `{meant}`?")),
            None => error,
        }
    }

    /// Makes the error `"x" directive is duplicate`.
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
