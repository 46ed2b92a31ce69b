//! Tables of names and their verdicts.

use super::*;

const ROOT: &str = "C:/www";

fn check_below(names: &str) -> Result<(), Refusal> {
    let path = format!("{ROOT}/{names}");
    check(path.as_bytes(), ROOT.len())
}

#[test]
fn names_that_are_their_own() {
    let long = "n".repeat(255);
    let wide = "ß".repeat(255);
    for name in [
        "",
        "a",
        "a/b/c.html",
        ".hidden",
        "a..b",
        "..a",
        "a b",
        " a",
        "~",
        "file~1.txt",
        "ABCDEF~1",
        "console",
        "com",
        "com10",
        "lpt",
        "conf",
        "nul1",
        "auxiliary.txt",
        "comx",
        "com1x.txt",
        "con-",
        "naïve",
        "文件",
        "%41",
        "a;b",
        "a&b",
        "a=b",
        "a+b",
        "$DATA",
        "com¼",
        "\u{7f}",
        &long,
        &wide,
    ] {
        assert_eq!(check_below(name), Ok(()), "{name:?}");
    }
}

#[test]
fn names_that_are_aliases() {
    use Refusal::{Character, Device, Dots, Empty, End, Length, Stream};
    let long = "n".repeat(256);
    for (name, refusal) in [
        ("a//b", Empty),
        ("/a", Empty),
        ("a//", Empty),
        (".", Dots),
        ("..", Dots),
        ("a/./b", Dots),
        ("a/../b", Dots),
        ("a:b", Stream),
        ("a::$DATA", Stream),
        ("a:$I30:$INDEX_ALLOCATION", Stream),
        ("C:", Stream),
        ("C:/x", Stream),
        ("a:", Stream),
        (":a", Stream),
        ("con:", Stream),
        ("a\\b", Character),
        ("\\a", Character),
        ("a\0", Character),
        ("a\n", Character),
        ("\u{1f}", Character),
        ("a?", Character),
        ("a*", Character),
        ("a<b", Character),
        ("a>b", Character),
        ("a|b", Character),
        ("\"a\"", Character),
        ("\\\\?\\C", Character),
        ("a.", End),
        ("a ", End),
        ("a. .", End),
        ("a/b./c", End),
        ("a /b", End),
        ("...", End),
        (" ", End),
        ("a.html...", End),
        ("con", Device),
        ("CON", Device),
        ("Con.txt", Device),
        ("nul.tar.gz", Device),
        ("aux", Device),
        ("prn .txt", Device),
        ("a/NUL/b", Device),
        ("com1", Device),
        ("COM9.log", Device),
        ("com0", Device),
        ("lpt1", Device),
        ("LPT².x", Device),
        ("com³", Device),
        ("conin$", Device),
        ("CONOUT$.txt", Device),
        ("clock$", Device),
        ("nul .", End),
        ("com1  .a", Device),
        (&long, Length),
    ] {
        assert_eq!(check_below(name), Err(refusal), "{name:?}");
    }
    assert_eq!(check(b"C:/www/\xff", 6), Err(Refusal::Encoding));
    assert_eq!(check(b"C:/www/\xed\xa0\x80", 6), Err(Refusal::Encoding));
    assert_eq!(check(&[b"C:/www/".to_vec(), vec![b'/'; 40_000]].concat(), 6), Err(Length));
}

#[test]
fn starts_of_paths() {
    for path in ["C:/a", "z:/", "C:/www/a.html"] {
        assert_eq!(check(path.as_bytes(), 0), Ok(()), "{path}");
    }
    for path in [
        "",
        "a",
        "/a",
        "C:",
        "C:a",
        "CC:/a",
        "1:/a",
        "//server/share/a",
        "//?/C:/a",
        "//./C:/a",
        "/??/C:/a",
        "\\\\server\\share",
        "C:\\a",
        "é:/a",
    ] {
        assert_eq!(check(path.as_bytes(), 0), Err(Refusal::Prefix), "{path}");
    }
    // The part that the configuration writes is the administrator's choice.
    for (path, from) in [("//server/share/a", 14), ("C:/PROGRA~1/con/a", 15), ("C:\\www/a", 6)] {
        assert_eq!(check(path.as_bytes(), from), Ok(()), "{path}");
    }
    // Where it ends within a name, that whole name is checked.
    assert_eq!(check(b"C:/www/con", 8), Err(Refusal::Device));
    assert_eq!(check(b"C:/www/file::$DATA", 11), Err(Refusal::Stream));
    assert_eq!(check(b"relative/x", 3), Err(Refusal::Prefix));
}

#[test]
fn own_names() {
    for (path, from, found, own) in [
        ("C:/www/a/file.txt", 6, r"\\?\C:\www\a\file.txt", true),
        ("C:/www/a/", 6, r"\\?\C:\www\a", true),
        ("C:/www/", 6, r"\\?\C:\www", true),
        ("C:/www", 6, r"\\?\C:\www", true),
        // Another spelling of the root is the administrator's choice.
        ("C:/WWW/a", 6, r"\\?\C:\www\a", true),
        ("C:/link/a", 7, r"\\?\D:\data\a", true),
        ("C:/www/A/file.txt", 6, r"\\?\C:\www\a\file.txt", false),
        ("C:/www/a/FILE.TXT", 6, r"\\?\C:\www\a\file.txt", false),
        ("C:/www/a/FILE~1.TXT", 6, r"\\?\C:\www\a\file-name.txt", false),
        ("C:/www/SHORT/f", 6, r"\\?\C:\www\longer than eight\f", false),
        ("C:/www/a/b", 6, r"\\?\C:\b", false),
        ("C:/www/a", 6, "", false),
        ("C:/www/imgs/a", 10, r"\\?\C:\www\imgs\a", true),
        ("C:/www/IMGs/a", 10, r"\\?\C:\www\imgs\a", false),
        ("C:/www/a", 0, r"\\?\C:\www\a", true),
        ("c:/www/a", 0, r"\\?\C:\www\a", true),
        ("C:/WWW/a", 0, r"\\?\C:\www\a", false),
        ("C:/www/a", 0, r"\\?\C:\x\www\a", false),
        ("C:/www/a", 0, r"\\?\UNC\C:\www\a", false),
        ("C:/", 0, r"\\?\C:\", true),
        ("D:/www/a", 0, r"\\?\C:\www\a", false),
        ("www/a", 0, r"C:\www\a", false),
    ] {
        assert_eq!(is_own(path.as_bytes(), from, found), own, "{path} {from} {found}");
    }
}

#[test]
fn every_name_is_a_step() {
    let steps = |path: &'static str, from| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        steps(path.as_bytes(), from)
            .map(|(path, name)| (text(path), text(name)))
            .collect::<Vec<_>>()
    };
    let pair = |path: &str, name: &str| (path.to_owned(), name.to_owned());
    assert_eq!(steps("C:/www/a//b/", 6), [pair("C:/www/a", "a"), pair("C:/www/a//b", "b")]);
    assert_eq!(steps("C:/www/imgs", 10), [pair("C:/www/imgs", "imgs")]);
    assert_eq!(steps("C:/www/", 6), []);
}
