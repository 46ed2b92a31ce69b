//! Arguments and directive tables, as modules use them.

use std::path::Path;
use std::time::Duration;

use tidegate_conf::{
    Args, Arity, Bundle, BundleLoader, Contexts, Diagnostic, Directive, Kind, Parser, Registry,
    SourceMap, Statement, once,
};

/// Parses one statement.
fn statement(text: &str) -> (Statement, SourceMap) {
    let files = vec![("/c/main".into(), text.as_bytes().into())];
    let loader = BundleLoader::new(Bundle { files, globs: Vec::new() });
    let mut parser = Parser::new(&loader, "/c");
    let mut statements = parser.parse_file(Path::new("/c/main"));
    let (sources, diagnostics) = parser.finish();
    assert_eq!((statements.len(), diagnostics), (1, Vec::new()), "{text}");
    (statements.remove(0), sources)
}

/// Returns the result of `read` for a statement; an error is its first line without the place.
fn with<T>(text: &str, read: impl Fn(&Args<'_>) -> Result<T, Diagnostic>) -> Result<T, String> {
    let (statement, _) = statement(text);
    read(&Args::new(&statement, Contexts::HTTP)).map_err(|error| error.message)
}

fn failure<T>(message: &str) -> Result<T, String> {
    Err(message.to_owned())
}

#[test]
fn flags() {
    for (text, expected) in [("on", true), ("off", false), ("ON", true), ("Off", false)] {
        assert_eq!(with(&format!("x {text};"), |args| args.flag(0)), Ok(expected));
    }
    let message = "invalid value \"yes\" in \"x\" directive, it must be \"on\" or \"off\"";
    assert_eq!(with("x yes;", |args| args.flag(0)), failure(message));
}

#[test]
fn numbers() {
    assert_eq!(with("x 7;", |args| args.number(0, 1..=9)), Ok(7));
    let message = "\"x\" directive invalid number";
    assert_eq!(with("x 7k;", |args| args.number(0, 1..=9)), failure(message));
    let message = "value must be between 1 and 9";
    assert_eq!(with("x 10;", |args| args.number(0, 1..=9)), failure(message));
    let message = "value must be equal to or greater than 1";
    assert_eq!(with("x 0;", |args| args.number(0, 1..=u64::MAX)), failure(message));
}

#[test]
fn sizes_and_times() {
    let invalid = "\"x\" directive invalid value";
    assert_eq!(with("x 8k;", |args| args.size(0)), Ok(8192));
    assert_eq!(with("x 1g;", |args| args.size(0)), failure(invalid));
    assert_eq!(with("x 1g;", |args| args.offset(0)), Ok(1 << 30));
    assert_eq!(with("x 1x;", |args| args.offset(0)), failure(invalid));
    assert_eq!(with("x 15ms;", |args| args.milliseconds(0)), Ok(Duration::from_millis(15)));
    assert_eq!(with("x 1M;", |args| args.milliseconds(0)), failure(invalid));
    assert_eq!(with("x '1d 1h';", |args| args.seconds(0)), Ok(Duration::from_secs(90_000)));
    assert_eq!(with("x 15ms;", |args| args.seconds(0)), failure(invalid));
}

#[test]
fn choices() {
    let of = [("any", 1), ("all", 2)];
    assert_eq!(with("x ALL;", |args| args.choice(0, &of)), Ok(2));
    let (statement, sources) = statement("satisfy\n  al;");
    let error = Args::new(&statement, Contexts::HTTP).choice(0, &of).unwrap_err();
    assert_eq!(
        error.render(&sources, false),
        "nginx: [emerg] invalid value \"al\" in /c/main:2\n \
         --> /c/main:2:3\n  \
           |\n\
         1 | satisfy\n\
         2 |   al;\n  \
           |   ^^ expected `any`, `all`\n  \
           |\n  \
           = help: did you mean `all`?\n"
    );
    assert!(error.render(&sources, true).contains("\u{1b}["));
}

#[test]
fn parameters() {
    let (statement, _) = statement("x a=b=c d e= =f;");
    let args = Args::new(&statement, Contexts::HTTP);
    assert_eq!(args.len(), 4);
    assert_eq!(args.parameter(0), Ok(("a", Some("b=c"))));
    assert_eq!(args.parameter(1), Ok(("d", None)));
    assert_eq!(args.parameter(2), Ok(("e", Some(""))));
    assert_eq!(args.parameter(3), Ok(("", Some("f"))));
    assert_eq!(args.invalid_parameter(0).message, "invalid parameter \"a=b=c\"");
    assert_eq!((args.bytes(9), args.text(9)), (&b""[..], Ok("")));
}

#[test]
fn a_forgotten_semicolon_is_guessed() {
    let (statement, _) = statement("listen 80\nserver_name x;");
    let error = Args::new(&statement, Contexts::SERVER).invalid_parameter(1);
    assert_eq!(error.help, ["is a `;` missing before `server_name`?"]);
}

#[test]
fn blocks() {
    let entries = with("types { a b; c d e; }", |args| Ok(args.entries()?.len()));
    assert_eq!(entries, Ok(2));
    let entries = with("types { a b; c { d; } }", |args| Ok(args.entries()?.len()));
    assert_eq!(entries, failure("unexpected \"{\""));
    assert_eq!(with("x;", |args| Ok(args.block().len())), Ok(0));
}

#[test]
fn duplicates() {
    let mut slot = None;
    let (statement, sources) = statement("x 1;");
    let args = Args::new(&statement, Contexts::HTTP);
    assert_eq!(once(&mut slot, 1, &args), Ok(()));
    let error = once(&mut slot, 2, &args).unwrap_err();
    assert_eq!(error.first_line(&sources), "\"x\" directive is duplicate in /c/main:1");
    assert_eq!(slot, Some(1));
}

/// A module's settings.
#[derive(Default)]
struct Conf {
    status: Option<u64>,
}

const TABLE: &[Directive<Conf>] = &[
    Directive {
        name: "limit_status",
        contexts: Contexts::HTTP_SERVER_LOCATION,
        args: Arity::ONE,
        kind: Kind::Simple,
        default: "503",
        doc: "Status sent to a refused request.",
        has_effect: true,
        set: |conf, args| once(&mut conf.status, args.number(0, 400..=599)?, args),
    },
    Directive {
        name: "server",
        contexts: Contexts::HTTP,
        args: Arity::NONE,
        kind: Kind::Block,
        default: "",
        doc: "A virtual server.",
        has_effect: true,
        set: |_, _| Ok(()),
    },
];

const UPSTREAM_TABLE: &[Directive<()>] = &[Directive {
    name: "server",
    contexts: Contexts::UPSTREAM,
    args: Arity::AT_LEAST_ONE,
    kind: Kind::Simple,
    default: "",
    doc: "A server of a group.",
    has_effect: true,
    set: |(), _| Ok(()),
}];

#[test]
fn registry_finds_owners() {
    let mut registry = Registry::new();
    registry.add_table(7, TABLE);
    registry.add_table(8, UPSTREAM_TABLE);
    let check = |text: &str, context| {
        registry.check(&statement(text).0, context).map_err(|error| error.message)
    };
    assert_eq!(check("limit_status 429;", Contexts::LOCATION), Ok((7, 0)));
    assert_eq!(check("server { }", Contexts::HTTP), Ok((7, 1)));
    assert_eq!(check("server a:80;", Contexts::UPSTREAM), Ok((8, 0)));
    assert_eq!(
        check("server a:80;", Contexts::HTTP),
        failure("directive \"server\" has no opening \"{\"")
    );
    assert_eq!(
        check("server { }", Contexts::LOCATION),
        failure("\"server\" directive is not allowed here")
    );
    // nginx has `server` in `mail`, the tables do not.
    assert_eq!(
        check("server { }", Contexts::MAIL),
        failure("\"server\" directive is not supported yet")
    );
    assert_eq!(
        check("proxy_pass a;", Contexts::LOCATION),
        failure("\"proxy_pass\" directive is not supported yet")
    );
    // Never available, with advice.
    assert_eq!(
        check("ssl_engine a;", Contexts::MAIN),
        failure("\"ssl_engine\" directive is not supported")
    );
    let advice = registry.check(&statement("ssl_ech_file a;").0, Contexts::SERVER).map(|_| ());
    assert!(advice.is_err_and(|error| error.help.iter().any(|help| help.contains("remove"))));
    assert_eq!(check("prxy a;", Contexts::LOCATION), failure("unknown directive \"prxy\""));

    let (owner, index) = check("limit_status 429;", Contexts::HTTP).unwrap();
    assert_eq!(owner, 7);
    let mut conf = Conf::default();
    let (statement, _) = statement("limit_status 429;");
    assert_eq!((TABLE[index].set)(&mut conf, &Args::new(&statement, Contexts::HTTP)), Ok(()));
    assert_eq!(conf.status, Some(429));
    assert_eq!(registry.rows().count(), 3);
}

#[test]
fn contexts_and_arities_for_people() {
    assert_eq!(Contexts::HTTP_SERVER_LOCATION.describe(), "http, server, location");
    assert_eq!(Contexts::REWRITE.describe(), "server, location, if in server, if in location");
    assert_eq!(Contexts::ANY.describe(), "any");
    assert_eq!(Contexts::empty().describe(), "nowhere");
    let table = [
        (Arity::NONE, "no arguments"),
        (Arity::FLAG, "1 argument"),
        (Arity::TWO, "2 arguments"),
        (Arity::ONE_OR_TWO, "1 or 2 arguments"),
        (Arity::ONE_TO_FOUR, "1 to 4 arguments"),
        (Arity::AT_LEAST_ONE, "1 or more arguments"),
        (Arity::ANY, "any number of arguments"),
    ];
    for (arity, expected) in table {
        assert_eq!(arity.describe(), expected);
    }
}
