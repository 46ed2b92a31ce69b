//! Tables of texts and the tokens that nginx reads in them.

use super::{Lexer, Token, WORD_BYTES_MAX};
use crate::source::{FileId, SourceMap};

/// Returns the tokens as text: words in `[]` (`<>` when quoted), `$` for the end, `!` for an end in a word;
/// then the messages.
fn read(text: &[u8]) -> String {
    let mut lexer = Lexer::new(text, file(), WORD_BYTES_MAX);
    let mut shown = Vec::new();
    loop {
        let token = lexer.next();
        shown.push(match &token {
            Token::Word(word) if word.quoted => format!("<{}>", word.bytes.escape_ascii()),
            Token::Word(word) => format!("[{}]", word.bytes.escape_ascii()),
            Token::Semicolon(_) => ";".to_owned(),
            Token::Open(_) => "{".to_owned(),
            Token::Close(_) => "}".to_owned(),
            Token::End(_) => "$".to_owned(),
            Token::EndInWord(_) => "!".to_owned(),
        });
        if matches!(token, Token::End(_) | Token::EndInWord(_)) {
            break;
        }
    }
    for diagnostic in lexer.diagnostics {
        shown.push(diagnostic.message);
    }
    shown.join(" ")
}

fn file() -> FileId {
    SourceMap::new().add_fragment("test", Vec::new()).unwrap()
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(read(text.as_bytes()), *expected, "{text:?}");
    }
}

#[test]
fn words_and_punctuation() {
    check(&[
        ("", "$"),
        (" \t\r\n", "$"),
        ("a b;", "[a] [b] ; $"),
        ("a{b;}", "[a] { [b] ; } $"),
        ("a\rb\u{b}c;", "[a] [b\\x0bc] ; $"),
        // A brace closes only where a word could begin.
        ("a}b;", "[a}b] ; $"),
        ("a }b;", "[a] } [b] ; $"),
        // Only the end of the file ends a word without a token for it.
        ("a", "!"),
        ("a ", "[a] $"),
        ("a\0b ", "[a\\x00b] $"),
    ]);
}

#[test]
fn comments() {
    check(&[
        ("#a;\nb;", "[b] ; $"),
        ("a#b;", "[a#b] ; $"),
        ("a #b;\n;", "[a] ; $"),
        ("a;#b", "[a] ; $"),
        ("#", "$"),
        ("\"#\" '#';", "<#> <#> ; $"),
    ]);
}

#[test]
fn variables() {
    check(&[
        ("a${b};", "[a${b}] ; $"),
        ("${a}{", "[${a}] { $"),
        ("${a{", "[${a] { $"),
        ("$a{", "[$a] { $"),
        ("$${a;", "[$${a] ; $"),
        ("${{a{", "[${{a] { $"),
        ("$\\{a;", "[$\\\\{a] ; $"),
        // A protected dollar begins no variable.
        ("a\\${b;", "[a\\\\$] { [b] ; $"),
    ]);
}

#[test]
fn quotes() {
    check(&[
        ("\"a b\" 'c;d';", "<a b> <c;d> ; $"),
        ("'a\"b' \"a'b\";", "<a\\\"b> <a\\'b> ; $"),
        ("\"\"{", "<> { $"),
        ("a\"b c;", "[a\\\"b] [c] ; $"),
        ("\"a\\\"b\";", "<a\\\"b> ; $"),
        ("\"a\") b;", "<a> [)] [b] ; $"),
        ("\"a\"})", "<a> } !"),
        ("\"a\nb\";", "<a\\nb> ; $"),
        ("\"a", "!"),
        ("\"a\\\"", "!"),
        ("\"a\\", "!"),
        ("\"a\"b c;", "<ab> [c] ; $ unexpected \"b\""),
        ("\"a\"#b\n;", "<a#b> ; $ unexpected \"#\""),
        ("\"a\"\"b\";", "<a\\\"b\\\"> ; $ unexpected \"\"\""),
    ]);
}

#[test]
fn escapes() {
    check(&[
        ("a\\ b;", "[a\\\\ b] ; $"),
        ("a\\;b;", "[a\\\\;b] ; $"),
        ("\\\"a b;", "[\\\"a] [b] ; $"),
        ("\\#a;", "[\\\\#a] ; $"),
        ("a\\t\\r\\n\\\\\\'\\x;", "[a\\t\\r\\n\\\\\\'\\\\x] ; $"),
        ("\"\\$ \\{\";", "<\\\\$ \\\\{> ; $"),
        ("a\\", "!"),
    ]);
}

/// nginx 1.22 has exactly these limits.
#[test]
fn limits() {
    let long = |count: usize| "a".repeat(count);
    let plain_error = "too long parameter \"aaaaaaaaaa...\" started";
    let quote_error = "too long parameter, probably missing terminating \"\"\" character";
    let check = |text: String, errors: &[&str]| {
        let mut lexer = Lexer::new(text.as_bytes(), file(), WORD_BYTES_MAX);
        while !matches!(lexer.next(), Token::End(_) | Token::EndInWord(_)) {}
        let found: Vec<_> = lexer.diagnostics.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(found, errors, "{} bytes", text.len());
    };
    check(format!("{};", long(4095)), &[]);
    check(format!("{};", long(4096)), &[plain_error]);
    check(format!("{};", long(9000)), &[plain_error]);
    check(format!("\"{}\";", long(4094)), &[]);
    check(format!("\"{}\";", long(4095)), &[plain_error]);
    check(format!("\"{}\"", long(4095)), &[]);
    check(format!("\"{}\n", long(4096)), &[quote_error]);
    check(format!("#{}\n", long(4094)), &[]);
    check(format!("#{}\n", long(4095)), &["too long parameter \"#aaaaaaaaa...\" started"]);
    check(format!("#{}", long(4095)), &[]);
    check(format!("{};", " ".repeat(9000)), &[]);
    // Exactly the buffer, then the end.
    assert_eq!(read(long(4096).as_bytes()), "!");
    // A fragment has no limit.
    let text = format!("{};", long(9000));
    let mut lexer = Lexer::new(text.as_bytes(), file(), usize::MAX);
    assert!(matches!(lexer.next(), Token::Word(word) if word.bytes.len() == 9000));
    assert!(lexer.diagnostics.is_empty());
}

#[test]
fn goes_on_after_an_unterminated_quote() {
    let text = format!("a \"b c;\n d;\n{}", "e;\n".repeat(2000));
    let found = read(text.as_bytes());
    assert!(found.starts_with("[a] <b c> ; [d] ; [e] ;"), "{}", &found[..60]);
}
