//! Includes, limits and fragments. The golden files test the parsing of one file.

use std::path::{Path, PathBuf};

use super::{BLOCK_DEPTH_MAX, INCLUDE_DEPTH_MAX, Parser};
use crate::bundle::{Bundle, BundleLoader};
use crate::print::print_statements;
use crate::tree::Statement;

/// Parses `/c/main`; returns the statements as text and the first lines of the errors.
fn parse(files: &[(&str, &str)]) -> (String, Vec<String>) {
    let list = files
        .iter()
        .map(|(name, text)| (PathBuf::from(format!("/c/{name}")), text.as_bytes().into()));
    let loader = BundleLoader::new(Bundle { files: list.collect(), globs: Vec::new() });
    let mut parser = Parser::new(&loader, "/c");
    let statements = parser.parse_file(Path::new("/c/main"));
    let (sources, diagnostics) = parser.finish();
    let text = String::from_utf8(print_statements(&statements)).unwrap();
    (text, diagnostics.iter().map(|one| one.first_line(&sources)).collect())
}

#[track_caller]
fn check(files: &[(&str, &str)], text: &str, errors: &[&str]) {
    assert_eq!(parse(files), (text.to_owned(), errors.iter().map(|e| (*e).to_owned()).collect()));
}

#[test]
fn includes_are_spliced_in() {
    check(
        &[("main", "a; b { include sub; d; }"), ("sub", "c;\n# end")],
        "a;\nb {\n    c;\n    d;\n}\n",
        &[],
    );
    // Quotes make no difference, an escape does.
    check(&[("main", "\"include\" sub; \\include x;"), ("sub", "c;")], "c;\n\\include x;\n", &[]);
}

#[test]
fn a_file_may_be_included_twice_but_not_in_itself() {
    let files = [("main", "include sub; include sub;"), ("sub", "c;")];
    check(&files, "c;\nc;\n", &[]);
    let files = [("main", "include sub;"), ("sub", "c; include main;")];
    check(&files, "c;\n", &["\"/c/main\" includes itself in /c/sub:1"]);
}

#[test]
fn a_missing_file_is_an_error() {
    let error = "open() \"/c/x\" failed (2: No such file or directory) in /c/main:3";
    check(&[("main", "a;\n\ninclude x;")], "a;\n", &[error]);
    check(&[("main", "a;\n\ninclude x/*;")], "a;\n", &[]);
    let loader = BundleLoader::default();
    let mut parser = Parser::new(&loader, "/c");
    assert!(parser.parse_file(Path::new("/c/main")).is_empty());
    let (sources, diagnostics) = parser.finish();
    assert_eq!(
        diagnostics[0].render(&sources, false),
        "nginx: [emerg] open() \"/c/main\" failed (2: No such file or directory)\n"
    );
}

#[test]
fn include_depth_is_bounded() {
    let names: Vec<String> = (0..INCLUDE_DEPTH_MAX + 5).map(|index| format!("f{index}")).collect();
    let texts: Vec<String> = names.iter().skip(1).map(|name| format!("include {name};")).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    files.push(("main", "include f0;"));
    let (_, errors) = parse(&files);
    assert_eq!(errors, ["files are included more than 32 levels deep in /c/f31:1"]);
}

#[test]
fn files_that_include_each_other_twice_are_stopped() {
    let names: Vec<String> = (0..30).map(|index| format!("f{index}")).collect();
    let texts: Vec<String> =
        names.iter().skip(1).map(|name| format!("include {name};include {name};")).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    files.extend([("main", "include f0;"), ("f29", "")]);
    let (_, errors) = parse(&files);
    assert!(errors[0].starts_with("too large configuration in "), "{}", errors[0]);
}

#[test]
fn block_depth_is_bounded() {
    let deep = |levels: usize| format!("{}{} b;", "a {".repeat(levels), "}".repeat(levels));
    assert!(parse(&[("main", &deep(BLOCK_DEPTH_MAX))]).1.is_empty());
    let (text, errors) = parse(&[("main", &deep(100_000))]);
    assert_eq!(errors, ["blocks are nested more than 100 levels deep in /c/main:1"]);
    assert!(text.ends_with("}\nb;\n"));
    // Never closed: one error for the depth, none for the end.
    assert_eq!(parse(&[("main", &"a {".repeat(100_000))]).1.len(), 1);
}

#[test]
fn errors_are_bounded() {
    assert_eq!(parse(&[("main", &";".repeat(1_000_000))]).1.len(), 100);
    let (_, errors) = parse(&[("main", &"\"\n".repeat(1_000_000))]);
    assert!(errors.len() <= 101);
}

#[test]
fn lines_are_those_of_nginx() {
    check(
        &[("main", "a\n b\n c")],
        "",
        &["unexpected end of file, expecting \";\" or \"}\" in /c/main:3"],
    );
    check(
        &[("main", "a {\n\n\n")],
        "a {\n}\n",
        &["unexpected end of file, expecting \"}\" in /c/main:4"],
    );
    check(
        &[("main", "a \"\nb\n")],
        "",
        &["unexpected end of file, expecting \";\" or \"}\" in /c/main:3"],
    );
}

#[test]
fn fragments() {
    fn check(text: &str, count: usize, errors: &[&str]) {
        let loader = BundleLoader::default();
        let mut parser = Parser::new(&loader, "/c");
        let statements: Vec<Statement> = parser.parse_fragment("command line", text.as_bytes());
        let (sources, diagnostics) = parser.finish();
        let found: Vec<_> = diagnostics.iter().map(|one| one.first_line(&sources)).collect();
        assert_eq!((statements.len(), found.as_slice()), (count, errors.map_owned().as_slice()));
    }
    check("daemon off; pid x;", 2, &[]);
    check("", 0, &[]);
    check("daemon off", 0, &["unexpected end of parameter, expecting \";\" in command line"]);
    check("\n\nx \"a\"b;", 1, &["unexpected \"b\" in command line"]);
    check("events {", 1, &["block directives are not supported in -g option in command line"]);
    check(
        "include /nope;",
        0,
        &["open() \"/nope\" failed (2: No such file or directory) in command line"],
    );
}

/// Conversion of borrowed texts to owned ones.
trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}
