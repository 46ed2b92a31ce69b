//! The table of all directives: their contexts and the number of their arguments.

use std::cell::Cell;
use std::collections::HashMap;

use crate::args::Args;
use crate::contexts::Contexts;
use crate::diagnostic::Diagnostic;
use crate::foreign;
use crate::known;
use crate::tree::Statement;

/// The number of arguments that a directive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// The least number.
    pub min: usize,
    /// The greatest number.
    pub max: usize,
}

impl Arity {
    /// None.
    pub const NONE: Arity = Arity::exactly(0);
    /// One.
    pub const ONE: Arity = Arity::exactly(1);
    /// One, to be read with [`Args::flag`].
    pub const FLAG: Arity = Arity::exactly(1);
    /// Two.
    pub const TWO: Arity = Arity::exactly(2);
    /// Three.
    pub const THREE: Arity = Arity::exactly(3);
    /// One or two.
    pub const ONE_OR_TWO: Arity = Arity::between(1, 2);
    /// One to three.
    pub const ONE_TO_THREE: Arity = Arity::between(1, 3);
    /// One to four.
    pub const ONE_TO_FOUR: Arity = Arity::between(1, 4);
    /// Two or three.
    pub const TWO_OR_THREE: Arity = Arity::between(2, 3);
    /// Any number.
    pub const ANY: Arity = Arity::between(0, usize::MAX);
    /// One or more.
    pub const AT_LEAST_ONE: Arity = Arity::between(1, usize::MAX);
    /// Two or more.
    pub const AT_LEAST_TWO: Arity = Arity::between(2, usize::MAX);

    /// Takes exactly `count`.
    pub const fn exactly(count: usize) -> Arity {
        Arity { min: count, max: count }
    }

    /// Takes `min` to `max`, both included.
    pub const fn between(min: usize, max: usize) -> Arity {
        Arity { min, max }
    }

    /// Returns whether `count` is allowed.
    pub fn allows(self, count: usize) -> bool {
        (self.min..=self.max).contains(&count)
    }

    /// Returns the number for messages: `2 arguments`, `1 to 3 arguments`.
    pub fn describe(self) -> String {
        match (self.min, self.max) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "1 argument".to_owned(),
            (0, usize::MAX) => "any number of arguments".to_owned(),
            (1, usize::MAX) => "1 or more arguments".to_owned(),
            (min, usize::MAX) => format!("{min} or more arguments"),
            (min, max) if min == max => format!("{min} arguments"),
            (min, max) if min + 1 == max => format!("{min} or {max} arguments"),
            (min, max) => format!("{min} to {max} arguments"),
        }
    }
}

/// The end of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With `;`.
    Simple,
    /// With a block.
    Block,
    /// With either.
    Either,
}

/// The properties of a directive in the registry: a [`Directive`] without its setter.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// First word of the statement.
    pub name: &'static str,
    /// The contexts in which it is allowed.
    pub contexts: Contexts,
    /// Number of arguments.
    pub arity: Arity,
    /// Whether it ends with `;` or with a block.
    pub kind: Kind,
    /// The default value, as text for the reference pages; empty for none.
    pub default: &'static str,
    /// Its documentation, one paragraph.
    pub doc: &'static str,
    /// Whether a value changes anything. Otherwise a valid one is accepted, and the manual says that it has no effect.
    pub has_effect: bool,
}

/// A row of a module's directive table. `C` is the module's settings.
pub struct Directive<C: 'static> {
    /// First word of the statement.
    pub name: &'static str,
    /// The contexts in which it is allowed.
    pub contexts: Contexts,
    /// Number of arguments.
    pub args: Arity,
    /// Whether it ends with `;` or with a block.
    pub kind: Kind,
    /// The default value, as text for the reference pages; empty for none.
    pub default: &'static str,
    /// Its documentation, one paragraph.
    pub doc: &'static str,
    /// Whether a value changes anything; see [`Row::has_effect`].
    pub has_effect: bool,
    /// Sets the arguments in the settings. Called after context, number of arguments and end were checked.
    pub set: fn(&mut C, &Args<'_>) -> Result<(), Diagnostic>,
}

impl<C> Directive<C> {
    /// Returns the row without its setter.
    pub const fn row(&self) -> Row {
        Row {
            name: self.name,
            contexts: self.contexts,
            arity: self.args,
            kind: self.kind,
            default: self.default,
            doc: self.doc,
            has_effect: self.has_effect,
        }
    }

    /// Declares that a value is checked and has no effect. The description says why.
    pub const fn without_effect(self) -> Directive<C> {
        Directive { has_effect: false, ..self }
    }
}

/// Makes a row of a directive that ends with `;`.
pub const fn row<C>(
    name: &'static str,
    contexts: Contexts,
    args: Arity,
    default: &'static str,
    doc: &'static str,
    set: fn(&mut C, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<C> {
    Directive { name, contexts, args, kind: Kind::Simple, default, doc, has_effect: true, set }
}

/// Returns the name that begins with `prefix`, for rows that several modules share. Tables call it at compile time: a
/// prefix without a name, and names that differ behind their prefixes, do not compile.
///
/// ```
/// let name = tidegate_conf::with_prefix("scgi_", ["proxy_bind", "scgi_bind"]);
/// assert_eq!(name, "scgi_bind");
/// ```
/// ```compile_fail
/// const NAME: &str = tidegate_conf::with_prefix("uwsgi_", ["proxy_bind", "scgi_bind"]);
/// println!("{NAME}");
/// ```
/// ```compile_fail
/// const NAME: &str = tidegate_conf::with_prefix("scgi_", ["proxy_bin", "scgi_bind"]);
/// println!("{NAME}");
/// ```
pub const fn with_prefix<const N: usize>(prefix: &str, names: [&'static str; N]) -> &'static str {
    let mut index = 0;
    while index < names.len() {
        let name = names[index].as_bytes();
        if has_part(name, 0, prefix.as_bytes()) {
            let (_, rest) = name.split_at(prefix.len());
            assert!(all_end_with(&names, rest), "the names of a row differ behind their prefixes");
            return names[index];
        }
        index += 1;
    }
    panic!("a row has no name with this prefix")
}

const fn all_end_with(names: &[&'static str], end: &[u8]) -> bool {
    let mut index = 0;
    while index < names.len() {
        let name = names[index].as_bytes();
        if name.len() < end.len() || !has_part(name, name.len() - end.len(), end) {
            return false;
        }
        index += 1;
    }
    true
}

/// Returns whether `part` is at byte `start` of `text`.
const fn has_part(text: &[u8], start: usize, part: &[u8]) -> bool {
    if text.len() < start + part.len() {
        return false;
    }
    let mut index = 0;
    while index < part.len() {
        if text[start + index] != part[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// All rows of all owners (modules). Several rows may have the same name in different contexts; where two
/// match, the one added first counts.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    entries: Vec<Entry>,
    by_name: HashMap<&'static [u8], Vec<usize>>,
    /// The number of unknown names for which a suggestion was searched.
    guesses: Cell<usize>,
}

#[derive(Clone, Debug)]
struct Entry {
    owner: usize,
    index: usize,
    row: Row,
}

impl Registry {
    /// Makes an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the rows of one owner; their indices count from 0 within this call.
    pub fn add(&mut self, owner: usize, rows: impl IntoIterator<Item = Row>) {
        for (index, row) in rows.into_iter().enumerate() {
            self.by_name.entry(row.name.as_bytes()).or_default().push(self.entries.len());
            self.entries.push(Entry { owner, index, row });
        }
    }

    /// Adds the table of one owner.
    pub fn add_table<C>(&mut self, owner: usize, table: &'static [Directive<C>]) {
        self.add(owner, table.iter().map(Directive::row));
    }

    /// Returns all rows with owner and index, in order of adding.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize, &Row)> {
        self.entries.iter().map(|entry| (entry.owner, entry.index, &entry.row))
    }

    /// Finds the row for `statement`, which is in `context`: `(owner, index of the row)`.
    ///
    /// # Errors
    /// In nginx's words and order: unknown, not allowed here, wrong end, wrong number of arguments. A
    /// directive that nginx has and the registry has not is `not supported yet`.
    pub fn check(
        &self,
        statement: &Statement,
        context: Contexts,
    ) -> Result<(usize, usize), Diagnostic> {
        let Some(candidates) = self.by_name.get(statement.name.bytes.as_slice()) else {
            return Err(self.unknown(statement, context));
        };
        let rows = candidates.iter().filter_map(|index| self.entries.get(*index));
        let Some(entry) = rows.clone().find(|entry| entry.row.contexts.intersects(context)) else {
            return Err(misplaced(statement, context, rows.map(|entry| &entry.row)));
        };
        check_ending(statement, &entry.row)?;
        check_arity(statement, &entry.row)?;
        Ok((entry.owner, entry.index))
    }

    /// Makes the error for a name that no row has.
    fn unknown(&self, statement: &Statement, context: Contexts) -> Diagnostic {
        let name = statement.name.display();
        let known = known::find(&statement.name.bytes);
        if !known.is_empty() {
            return unsupported(statement, context);
        }
        let error = error(statement, format!("unknown directive \"{name}\""));
        if let Some(foreign) = foreign::find(&statement.name.bytes) {
            return foreign.explain(error);
        }
        self.guesses.set(self.guesses.get() + 1);
        if self.guesses.get() > GUESSES_MAX {
            return error;
        }
        let here = self.entries.iter().filter(|entry| entry.row.contexts.intersects(context));
        if let Some(meant) = closest(&name, here.map(|entry| entry.row.name)) {
            return error.help(format!("did you mean `{meant}`?"));
        }
        let Some(meant) = closest(&name, self.entries.iter().map(|entry| entry.row.name)) else {
            return error;
        };
        let rows = self.entries.iter().filter(|entry| entry.row.name == meant);
        let allowed = rows.fold(Contexts::empty(), |sum, entry| sum | entry.row.contexts);
        error.help(format!(
            "did you mean `{meant}`? It is not allowed here, only in: {}",
            allowed.describe()
        ))
    }
}

/// Makes the error for a name that has rows, but none for this context.
fn misplaced<'a>(
    statement: &Statement,
    context: Contexts,
    rows: impl Iterator<Item = &'a Row>,
) -> Diagnostic {
    if known::find(&statement.name.bytes).iter().any(|known| known.contexts.intersects(context)) {
        return unsupported(statement, context)
            .label(format!("known to nginx in {}", context.describe()));
    }
    let allowed = rows.fold(Contexts::empty(), |sum, row| sum | row.contexts);
    let name = statement.name.display();
    error(statement, format!("\"{name}\" directive is not allowed here"))
        .label(format!("this is {}", context.describe()))
        .help(format!("`{name}` is allowed in: {}", allowed.describe()))
}

/// Makes the error for a directive that nginx has. The module of the context is named before others of the
/// same name.
fn unsupported(statement: &Statement, context: Contexts) -> Diagnostic {
    let name = statement.name.display();
    let error = match known::advice(&statement.name.bytes) {
        Some(advice) => {
            error(statement, format!("\"{name}\" directive is not supported")).help(advice)
        }
        None => error(statement, format!("\"{name}\" directive is not supported yet")),
    };
    let known = known::find(&statement.name.bytes);
    let here = known.iter().find(|known| known.contexts.intersects(context)).or(known.first());
    match here {
        Some(known) => error.label(format!("known to nginx ({})", known.module)),
        None => error,
    }
}

fn check_ending(statement: &Statement, row: &Row) -> Result<(), Diagnostic> {
    let name = row.name;
    match (row.kind, &statement.block) {
        (Kind::Simple, Some(block)) => {
            let error =
                Diagnostic::emerg(format!("directive \"{name}\" is not terminated by \";\""))
                    .at(block.open)
                    .label("expected `;`");
            let is_block = |known: &known::KnownDirective| known.kind == Kind::Block;
            let next =
                statement.args.iter().find(|word| known::find(&word.bytes).iter().any(is_block));
            Err(match next {
                Some(next) => error.help(format!("is a `;` missing before `{}`?", next.display())),
                None => error.help(format!("`{name}` takes no block")),
            })
        }
        (Kind::Block, None) => {
            Err(Diagnostic::emerg(format!("directive \"{name}\" has no opening \"{{\""))
                .at(statement.terminator())
                .label("expected `{`")
                .help(format!("`{name}` takes a block: `{name} {{ ... }}`")))
        }
        _ => Ok(()),
    }
}

fn check_arity(statement: &Statement, row: &Row) -> Result<(), Diagnostic> {
    let count = statement.args.len();
    if row.arity.allows(count) {
        return Ok(());
    }
    let name = row.name;
    let first = statement.name.span;
    // The surplus, or the whole statement when arguments are missing.
    let extra = statement.args.get(row.arity.max).zip(statement.args.last());
    let span = match extra {
        Some((from, last)) => from.span.to(last.span),
        None => statement.args.last().map_or(first, |last| first.to(last.span)),
    };
    let mut found =
        error(statement, format!("invalid number of arguments in \"{name}\" directive"))
            .at(span)
            .label(format!("`{name}` takes {}, found {count}", row.arity.describe()));
    if statement.args.iter().any(|word| word.display().starts_with(['“', '”', '„', '‘', '’']))
    {
        found = found.help("typographic quotes have no meaning: write `\"` or `'`");
    }
    // A missing `;` makes the next lines arguments.
    if let Some((from, _)) = extra
        && from.span.start > first.end
        && !known::find(&from.bytes).is_empty()
    {
        found = found.help(format!("is a `;` missing before `{}`?", from.display()));
    }
    Err(found)
}

fn error(statement: &Statement, message: String) -> Diagnostic {
    Diagnostic::emerg(message).at(statement.name.span).line_at(statement.terminator())
}

/// Returns the candidate of which `name` is most probably a misspelling.
pub fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong. The cost of a comparison grows with both lengths, and no directive
    // is as long as this.
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, candidate)| (*distance, *candidate))
        .map(|(_, candidate)| candidate)
}

/// The most unknown names of one configuration that get suggestions ([`closest`]): each costs a comparison with all
/// known ones, and more would not be read.
pub const GUESSES_MAX: usize = 100;

/// The longest name in bytes that gets a suggestion.
const NAME_BYTES_MAX: usize = 64;
