//! The command line of subcommands, what they print, and responses that they read.

use std::ffi::OsString;
use std::io::Cursor;

use serde_json::{Value, json};

use super::arguments::Given;
use super::client::{Client, encoded, read_head};
use super::failure::Failure;
use super::screen::{bytes, escaped, escaped_json};
use super::{COMMANDS, command, help};
use crate::options::Options;

fn parse(name: &str, words: &[&str]) -> Result<(Given, Options), Failure> {
    let mut options = Options::default();
    let words = words.iter().map(OsString::from).collect();
    let given = Given::parse(command(name.as_ref()).unwrap(), words, &mut options)?;
    Ok((given, options))
}

#[test]
fn options_may_be_anywhere_behind_a_subcommand() {
    let (given, options) =
        parse("upstreams", &["u", "-c", "f.conf", "weight", "--json", "1", "5"]).unwrap();
    assert_eq!(given.words(), ["u", "weight", "1", "5"]);
    assert!(given.flag("json") && !given.flag("stream"));
    assert_eq!(options.file, Some("f.conf".into()));
    let (given, _) = parse("log", &["-fq", "status>=500", "--", "-x"]).unwrap();
    assert_eq!((given.value("query"), given.words()), (Some("status>=500"), vec!["-x"]));
    for (name, words) in [
        ("status", &["--follow"][..]),
        ("status", &["-q", "x"]),
        ("status", &["--socket"]),
        ("status", &["--json=yes"]),
    ] {
        assert!(matches!(parse(name, words), Err(Failure::Usage(_))), "{name} {words:?}");
    }
}

#[test]
fn each_subcommand_has_a_help() {
    for one in COMMANDS {
        let text = help(one);
        assert!(text.starts_with(&format!("Usage: tidegate {}", one.name)), "{text}");
        assert!(text.contains("--socket PATH") && text.contains("Exit codes"), "{text}");
    }
}

#[test]
fn no_character_that_a_terminal_obeys_is_printed() {
    assert_eq!(escaped("a\x1b[31m\0\r\n\u{9b}2J\u{7f}"), "a\\x1b[31m\\x00\\x0d\\x0a\\x9b2J\\x7f");
    assert_eq!(escaped("\u{202e}abc\u{2028}\u{2066}"), "\\u{202e}abc\\u{2028}\\u{2066}");
    assert_eq!(escaped("ümlaut 漢字 ✓"), "ümlaut 漢字 ✓");
}

#[test]
fn escaped_json_has_the_same_value() {
    let value = json!({ "k\u{9b}": "\x1b\u{7f}\u{2028}\u{e0001}é\"\\" });
    let text = escaped_json(&value.to_string());
    assert!(text.chars().all(|letter| !letter.is_control()), "{text}");
    assert!(!text.contains('\u{2028}') && !text.contains('\u{e0001}'), "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
}

#[test]
fn sizes_are_for_people() {
    for (count, expected) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1 << 20, "1.0 MB"),
        (u64::MAX, "16384.0 PB"),
    ] {
        assert_eq!(bytes(count), expected);
    }
}

#[test]
fn names_are_encoded_for_paths_and_queries() {
    assert_eq!(encoded("a/b c?&=%\u{e9}"), "a%2Fb%20c%3F%26%3D%25%C3%A9");
    assert_eq!(encoded("127.0.0.1:80"), "127.0.0.1:80");
}

#[test]
fn addresses_of_servers_are_checked() {
    for url in ["http://a", "http://a:8080", "http://a/x/api/", "http://[::1]:80/api"] {
        assert!(Client::of_url(url).is_ok(), "{url}");
    }
    for url in
        ["a", "https://a", "http://", "http://a:x", "http://a b", "http://a/\r\nX: y", "http://u@a"]
    {
        assert!(matches!(Client::of_url(url), Err(Failure::Usage(_))), "{url}");
    }
}

fn read(response: &'static str) -> Result<String, String> {
    let reply = read_head(Cursor::new(response)).map_err(|error| error.to_string())?;
    reply.text().map_err(|failure| format!("{failure:?}"))
}

#[test]
fn responses_are_read_to_their_end() {
    assert_eq!(read("HTTP/1.1 200 OK\r\n\r\n[1]"), Ok("[1]".to_owned()));
    assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]xx"), Ok("[]".to_owned()));
    assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n"), Ok(String::new()));
    for broken in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 2",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\n\r\n\u{0}",
    ] {
        let found = read(broken);
        assert!(found.is_err() || broken.ends_with('\0'), "{broken}: {found:?}");
    }
    let refused = "HTTP/1.1 404 Not Found\r\n\r\n{\"error\":{\"text\":\"upstream not found\"}}";
    assert!(read(refused).unwrap_err().contains("upstream not found"));
}
