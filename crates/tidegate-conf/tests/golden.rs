//! Golden files: a configuration, a line of dashes, and its result: the tree, then the diagnostics. Further
//! files follow the first after lines `===== PATH`. `UPDATE=1 cargo test` rewrites the part below the dashes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_conf::{
    Bundle, BundleLoader, Contexts, Diagnostic, Kind, Parser, Registry, Row, Statement,
    known_directives,
};

const DASHES: &str = "\n-----\n";

#[test]
fn golden_files() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("UPDATE").is_some();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in &paths {
        let whole = std::fs::read_to_string(path).unwrap();
        let (input, expected) = whole.split_once(DASHES).unwrap_or((&whole, ""));
        let found = run(input);
        if update {
            std::fs::write(path, format!("{input}{DASHES}{found}")).unwrap();
        } else if found != expected {
            wrong
                .push(format!("{}:\n--- expected\n{expected}\n--- found\n{found}", path.display()));
        }
    }
    assert!(paths.len() > 5, "golden files are missing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns tree and diagnostics of a configuration.
fn run(input: &str) -> String {
    let mut files: Vec<(PathBuf, Arc<[u8]>)> = Vec::new();
    let mut pieces = input.split("\n===== ");
    let main = pieces.next().unwrap_or("");
    files.push(("/conf/nginx.conf".into(), main.as_bytes().into()));
    for piece in pieces {
        let (path, text) = piece.split_once('\n').unwrap_or((piece, ""));
        files.push((path.into(), text.as_bytes().into()));
    }
    let others = files.iter().skip(1).map(|(path, _)| path.clone()).collect();
    let globs = vec![("/conf/all/*.conf".to_owned(), others)];
    let loader = BundleLoader::new(Bundle { files, globs });

    let mut parser = Parser::new(&loader, "/conf");
    let statements = parser.parse_file(Path::new("/conf/nginx.conf"));
    let (sources, mut diagnostics) = parser.finish();
    check(&registry(), &statements, Contexts::MAIN, &mut diagnostics);
    Diagnostic::sort(&mut diagnostics, &sources);
    let mut text = String::new();
    draw_tree(&statements, 0, &mut text);
    for diagnostic in &diagnostics {
        text.push('\n');
        text.push_str(&diagnostic.render(&sources, false));
    }
    text
}

/// Makes a registry of all of nginx but one module, to test directives that are not supported yet.
fn registry() -> Registry {
    let mut registry = Registry::new();
    let supported = known_directives().filter(|known| known.module != "ngx_http_perl_module");
    registry.add(
        0,
        supported.map(|known| Row {
            name: known.name,
            contexts: known.contexts,
            arity: known.arity,
            kind: known.kind,
            default: "",
            doc: "",
            has_effect: true,
        }),
    );
    registry
}

fn check(
    registry: &Registry,
    statements: &[Statement],
    context: Contexts,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for statement in statements {
        if let Err(diagnostic) = registry.check(statement, context) {
            diagnostics.push(diagnostic);
            continue;
        }
        let inner = match statement.name.bytes.as_slice() {
            b"events" => Contexts::EVENTS,
            b"http" => Contexts::HTTP,
            b"server" if statement.block.is_some() => Contexts::SERVER,
            b"location" => Contexts::LOCATION,
            b"upstream" => Contexts::UPSTREAM,
            b"if" if context == Contexts::SERVER => Contexts::SERVER_IF,
            b"if" => Contexts::LOCATION_IF,
            _ => continue,
        };
        check(registry, statement.children(), inner, diagnostics);
    }
}

fn draw_tree(statements: &[Statement], depth: usize, text: &mut String) {
    for statement in statements {
        let _ = write!(text, "{:width$}", "", width = depth * 2);
        for (index, word) in std::iter::once(&statement.name).chain(&statement.args).enumerate() {
            let quote = if word.quoted { "\"" } else { "" };
            let space = if index > 0 { " | " } else { "" };
            let _ = write!(text, "{space}{quote}{}{quote}", word.bytes.escape_ascii());
        }
        text.push_str(match &statement.block {
            None => ";\n",
            Some(block) if block.statements.is_empty() => " {}\n",
            Some(_) => " {\n",
        });
        if !statement.children().is_empty() {
            draw_tree(statement.children(), depth + 1, text);
            let _ = writeln!(text, "{:width$}}}", "", width = depth * 2);
        }
    }
}

#[test]
fn kinds_are_known() {
    let location = known_directives().find(|known| known.name == "location").unwrap();
    assert_eq!(location.kind, Kind::Block);
    assert!(known_directives().count() > 700);
    assert!(known_directives().all(|known| !known.contexts.is_empty()));
}
