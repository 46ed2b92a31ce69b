//! The style of a configuration: tables, and properties of any text.

use proptest::prelude::*;

use super::format_text;
use crate::lexer::{Lexer, Token};
use crate::source::SourceMap;

fn check(text: &str, expected: &str) {
    let formatted = format_text(text.as_bytes()).map(|out| String::from_utf8(out).unwrap());
    assert_eq!(formatted.as_deref(), Ok(expected), "{text}");
    assert_eq!(format_text(expected.as_bytes()).as_deref(), Ok(expected.as_bytes()), "{text}");
}

#[test]
fn statements_and_blocks_are_lines() {
    check("a;b  c ; ", "a;\nb c;\n");
    check(
        "events{}http { server {listen 80;} }",
        "events { }\nhttp {\n    server {\n        listen 80;\n    }\n}\n",
    );
    check("\r\n\r\na;\r\n\r\n\r\n\r\nb;\r\n", "a;\n\nb;\n");
    check("a {\n\n  b;\n\n}\n", "a {\n    b;\n}\n");
    check("", "");
}

#[test]
fn words_stay_as_they_are() {
    check("a \"b  c\" 'd\n e' ${x}y \\; ;", "a \"b  c\" 'd\n e' ${x}y \\;;\n");
    check("if ($a = \"b\") { return 200; }", "if ($a = \"b\") {\n    return 200;\n}\n");
    check("log_format x 'a'\n  'b'\n\n  'c';", "log_format x 'a'\n    'b'\n    'c';\n");
    check(
        "content_by_lua_block { a = '}' -- }\n  } b;",
        "content_by_lua_block { a = '}' -- }\n  }\nb;\n",
    );
}

#[test]
fn comments_keep_their_places() {
    check(
        "# 1\na; # 2  \n\n# 3\nb { # 4\nc; }  # 5",
        "# 1\na; # 2\n\n# 3\nb { # 4\n    c;\n} # 5\n",
    );
    check("a # 1\n b;", "a # 1\n    b;\n");
    check("a b # 1\n;", "a b # 1\n    ;\n");
    check("a {\n# 1\n}", "a {\n    # 1\n}\n");
}

#[test]
fn what_is_no_configuration_is_refused() {
    for text in [";", "a", "a {", "}", "a { b }", "{ }", "a 'b", "a; }"] {
        assert!(format_text(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(format_text(b"a;\nb;\n}"), Err("unexpected \"}\" in line 3".to_owned()));
}

/// Returns the tokens of a text without their places, with its comments in between.
fn tokens(text: &[u8]) -> Vec<String> {
    let file = SourceMap::new().add_fragment("text", text.to_vec()).unwrap();
    let mut lexer = Lexer::new(text, file, usize::MAX);
    let mut all = Vec::new();
    loop {
        all.push(match lexer.next() {
            Token::Word(word) => format!("{:?}", (word.bytes, word.quoted)),
            Token::Semicolon(_) => ";".to_owned(),
            Token::Open(_) => "{".to_owned(),
            Token::Close(_) => "}".to_owned(),
            Token::End(_) | Token::EndInWord(_) => return all,
        });
    }
}

proptest! {
    #[test]
    fn a_text_keeps_its_meaning_and_is_formatted_once(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "b;", " ", "\n", "\n\n", "{", "}", ";", "# c\n", "\"x y\"", "'", ")", "$", "\\", "\t", "\r\n", "#",
            "server {", "listen 80;", "é", "${v}", "}\n",
        ]), 0..24),
    ) {
        let text = parts.concat();
        if let Ok(formatted) = format_text(text.as_bytes()) {
            prop_assert_eq!(tokens(&formatted), tokens(text.as_bytes()), "{}", text);
            prop_assert_eq!(format_text(&formatted), Ok(formatted.clone()), "{}", text);
            let comments = |text: &[u8]| text.iter().filter(|byte| **byte == b'#').count();
            prop_assert_eq!(comments(&formatted), comments(text.as_bytes()), "{}", text);
        }
    }
}
