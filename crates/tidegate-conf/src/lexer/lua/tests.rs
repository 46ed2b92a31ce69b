//! Ends of Lua blocks.

use super::block_length;

#[track_caller]
fn check(text: &str, length: Option<usize>) {
    assert_eq!(block_length(text.as_bytes()), length, "{text}");
}

#[test]
fn ends() {
    let whole = [
        "}",
        " ngx.say('hi') }",
        " local t = { a = {} } }",
        " local s = \"}\" }",
        " local s = 'it\\'s }' }",
        " -- it's a } comment\n }",
        " --[[ } \n } ]] }",
        " --[==[ } ]] } ]=] } ]==] }",
        " local s = [[ } ' \" ]] }",
        " local s = [=[ ]] } ]=] }",
        " local s = t[1] t[t[2]] = 3 }",
        " local s = t[ [[}]] ] }",
        " a = \"open\n }",
        " a = \"goes\\\non }\" }",
        " a = b - 1 }",
    ];
    for text in whole {
        check(text, Some(text.len()));
        check(&format!("{text} rest }}"), Some(text.len()));
    }
}

#[test]
fn no_end() {
    for text in ["", "{", "{}", "'}", "[[ }", "-- }", "--[[ }", "[=", "\\", "'\\", "--[=", "[[]"] {
        check(text, None);
    }
}
