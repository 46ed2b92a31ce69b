//! Properties: nothing panics, and a printed tree is read as the same tree.

use std::path::Path;

use proptest::prelude::*;
use tidegate_conf::{
    Bundle, BundleLoader, Diagnostic, Parser, Statement, Word, fuzz_config, print_statements,
};

fn parse(text: &[u8]) -> (Vec<Statement>, Vec<Diagnostic>) {
    let files = vec![("/c/main".into(), text.into())];
    let loader = BundleLoader::new(Bundle { files, globs: Vec::new() });
    let mut parser = Parser::new(&loader, "/c");
    let statements = parser.parse_file(Path::new("/c/main"));
    (statements, parser.finish().1)
}

/// The words of a tree without their places.
#[derive(Debug, PartialEq, Clone)]
struct Plain {
    words: Vec<Vec<u8>>,
    block: Option<Vec<Plain>>,
}

fn plain(statements: &[Statement]) -> Vec<Plain> {
    let words = |statement: &Statement| {
        let bytes = |word: &Word| word.bytes.clone();
        std::iter::once(&statement.name).chain(&statement.args).map(bytes).collect()
    };
    statements
        .iter()
        .map(|statement| Plain {
            words: words(statement),
            block: statement.block.as_ref().map(|block| plain(&block.statements)),
        })
        .collect()
}

/// Returns texts similar to a file, with much punctuation.
fn configuration_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"a".to_vec()),
        Just(b" ".to_vec()),
        Just(b";".to_vec()),
        Just(b"{".to_vec()),
        Just(b"}".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"'".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"$".to_vec()),
        Just(b"#".to_vec()),
        Just(b")".to_vec()),
        Just(b"n".to_vec()),
        Just(b"include main;".to_vec()),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(data in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_config(&data);
    }

    #[test]
    fn arbitrary_punctuation_does_not_panic(data in configuration_text()) {
        fuzz_config(&data);
    }

    #[test]
    fn printed_trees_are_read_again(data in configuration_text()) {
        let (statements, _) = parse(&data);
        let printed = print_statements(&statements);
        let (again, diagnostics) = parse(&printed);
        prop_assert_eq!(diagnostics, Vec::new(), "{}", printed.escape_ascii());
        prop_assert_eq!(plain(&again), plain(&statements), "{}", printed.escape_ascii());
    }

    #[test]
    fn spans_are_in_the_text(data in configuration_text()) {
        fn check(statements: &[Statement], length: u32) {
            for statement in statements {
                let words = std::iter::once(&statement.name).chain(&statement.args);
                let mut last = statement.span.start;
                for word in words {
                    assert!(last <= word.span.start && word.span.start <= word.span.end);
                    last = word.span.end;
                }
                assert!(last <= statement.terminator().end && statement.span.end <= length);
                check(statement.children(), statement.span.end);
            }
        }
        check(&parse(&data).0, data.len() as u32);
    }
}

/// Texts of megabytes. A step that takes time in proportion to the whole text, once for each word or line,
/// would not end in the time of a test.
#[test]
fn large_texts() {
    let shapes: [(Vec<u8>, usize); 6] = [
        (b"server { listen 80; location / { root /x; } }\n".repeat(50_000), 0),
        (b"a \"".repeat(700_000), 100),
        (vec![b'a'; 2_000_000], 2),
        (b"{ ".repeat(1_000_000), 100),
        ([b"a ", b"b ".repeat(1_000_000).as_slice(), b";"].concat(), 0),
        (b"# comment\n".repeat(200_000), 0),
    ];
    for (text, errors_max) in shapes {
        let (_, diagnostics) = parse(&text);
        assert!(diagnostics.len() <= errors_max + 1, "{}", diagnostics.len());
    }
}

/// Excerpts of places in lines of megabytes.
#[test]
fn long_lines_are_cut_in_excerpts() {
    let text = [b"a b; ".repeat(400_000).as_slice(), b"x }"].concat();
    let files = vec![("/c/main".into(), text.into())];
    let loader = BundleLoader::new(Bundle { files, globs: Vec::new() });
    let mut parser = Parser::new(&loader, "/c");
    let _ = parser.parse_file(Path::new("/c/main"));
    let (sources, diagnostics) = parser.finish();
    let text = diagnostics[0].render(&sources, false);
    assert!(text.starts_with("nginx: [emerg] unexpected \"}\" in /c/main:1\n"), "{text}");
    assert!(text.contains("/c/main:1:2000003"), "{text}");
    assert!(text.len() < 1000, "{}", text.len());
}

/// Inputs that once failed, and shapes that a fuzzer finds late.
#[test]
fn corpus() {
    let long = "a".repeat(5000);
    let corpus: &[&[u8]] = &[
        b"",
        b"\"",
        b"\"\\",
        b"a\\",
        b"include /conf/*;",
        b"include main.conf; x {",
        b"include \"\";",
        b"include \0;",
        b"\xff\xfe{\xff}",
        b"a \xff\n\x1b[31m;}",
        b"user \"a\"\xffb;",
        long.as_bytes(),
    ];
    for data in corpus {
        fuzz_config(data);
        fuzz_config(&[b"\"", *data, b"\"x;"].concat());
    }
}
