//! A list of each kind of declaration, as a module uses it.

use std::time::Duration;

use super::*;
use crate::registry::Kind;
use crate::settings;
use crate::tree::Statement;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paper {
    Thin,
    Thick,
}

settings! {
    /// Settings of books.
    #[derive(PartialEq)]
    struct BookSettings;
    /// The same as written.
    #[derive(PartialEq)]
    struct BookConf;

    /// Whether there are books.
    books: bool = setting("books", Contexts::ANY, "on", |args| args.flag(0)),
    /// Longest time for reading,
    /// in all.
    reading_timeout: Duration =
        setting("reading_timeout", Contexts::HTTP_SERVER, "1m 30s", |args| {
            Ok(args.milliseconds(0)? + args.milliseconds(1)?)
        })
        .arguments(Arity::TWO),
    /// Kind of paper.
    paper: Paper = setting("paper", Contexts::HTTP, "thin", |args| {
        args.choice(0, &[("thin", Paper::Thin), ("thick", Paper::Thick)])
    }),
    /// Sum of the pages.
    pages: u64 = setting("pages", Contexts::HTTP, "5", |args| args.number(0, 0..=100))
        .adding_up(|sum, more| sum + more),
    /// Most books.
    books_max: Option<u64> =
        optional("books_max", Contexts::HTTP, |args| args.number(0, 0..=9).map(Some)),
    /// Keyword; unused.
    r#use: NoEffect = no_effect("use", Contexts::HTTP, "0", |args| NoEffect::of(args.size(0))),
}

/// The settings of a module that has others beside the list.
#[derive(Default)]
struct Conf {
    plain: BookConf,
}

impl AsMut<BookConf> for Conf {
    fn as_mut(&mut self) -> &mut BookConf {
        &mut self.plain
    }
}

const ROWS: &[Directive<Conf>] = &BookConf::rows();

fn statements(text: &str) -> Vec<Statement> {
    Parser::new(&FsLoader, "/").parse_fragment("test", text.as_bytes())
}

/// Returns the settings as written, or the message of the first error.
fn read(text: &str) -> Result<BookConf, String> {
    let mut conf = Conf::default();
    for statement in statements(text) {
        let row = ROWS.iter().find(|row| row.name.as_bytes() == statement.name.bytes).unwrap();
        let args = Args::new(&statement, Contexts::HTTP);
        (row.set)(&mut conf, &args).map_err(|found| found.message)?;
    }
    Ok(conf.plain)
}

fn defaults() -> BookSettings {
    BookSettings {
        books: true,
        reading_timeout: Duration::from_secs(90),
        paper: Paper::Thin,
        pages: 5,
        books_max: None,
        r#use: NoEffect,
    }
}

#[test]
fn rows_are_those_of_the_list() {
    let shown = ROWS.iter().map(|row| {
        let (min, max) = (row.args.min, row.args.max);
        assert_eq!(row.kind, Kind::Simple);
        format!(
            "{} {min}-{max} `{}` {}: {}",
            row.name,
            row.default,
            row.contexts.describe(),
            row.doc
        )
    });
    let expected = [
        "books 1-1 `on` any: Whether there are books.",
        "reading_timeout 2-2 `1m 30s` http, server: Longest time for reading, in all.",
        "paper 1-1 `thin` http: Kind of paper.",
        "pages 1-1 `5` http: Sum of the pages.",
        "books_max 1-1 `` http: Most books.",
        "use 1-1 `0` http: Keyword; unused.",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn values_are_written_or_inherited_or_the_default() {
    let table = [
        ("", "", defaults()),
        (
            "books off; books_max 7;",
            "",
            BookSettings { books: false, books_max: Some(7), ..defaults() },
        ),
        ("use 5;", "use 6;", defaults()),
        ("", "paper thick;", BookSettings { paper: Paper::Thick, ..defaults() }),
        ("pages 7; pages 2;", "pages 1;", BookSettings { pages: 9, ..defaults() }),
        (
            "reading_timeout 0 5ms;",
            "reading_timeout 1 1; paper thick;",
            BookSettings {
                reading_timeout: Duration::from_millis(5),
                paper: Paper::Thick,
                ..defaults()
            },
        ),
    ];
    for (own, outer, expected) in table {
        let mut conf = read(own).unwrap();
        conf.inherit(&read(outer).unwrap());
        assert_eq!(conf.settings(), expected, "{own} {outer}");
    }
    assert_eq!(BookSettings::default(), defaults());
}

#[test]
fn errors_are_those_of_the_setter() {
    for (text, expected) in [
        ("books on; books on;", "\"books\" directive is duplicate"),
        ("books_max 1; books_max 1;", "\"books_max\" directive is duplicate"),
        (
            "books on; books 5;",
            "invalid value \"5\" in \"books\" directive, it must be \"on\" or \"off\"",
        ),
        ("use 1; use 1;", "\"use\" directive is duplicate"),
        ("use x;", "\"use\" directive invalid value"),
        ("pages 101;", "value must be between 0 and 100"),
        ("pages 1; pages 101;", "value must be between 0 and 100"),
    ] {
        assert_eq!(read(text), Err(expected.to_owned()), "{text}");
    }
}

/// A default that is no value of its directive cannot be overlooked: the first use of the list reports it.
#[test]
fn default_texts_are_values() {
    let shown = |text, arguments| {
        let wrong = setting("books", Contexts::ANY, text, |args| args.flag(0)).arguments(arguments);
        wrong.value_of(wrong.default)
    };
    assert_eq!(shown("on", Arity::ONE), Ok(true));
    let message = "invalid value \"1\" in \"books\" directive, it must be \"on\" or \"off\"";
    assert_eq!(shown("1", Arity::ONE), Err(message.to_owned()));
    for (text, arguments) in [("on", Arity::TWO), ("", Arity::ONE), ("on; books on", Arity::ONE)] {
        assert_eq!(shown(text, arguments), Err("wrong number of arguments".to_owned()));
    }
}
