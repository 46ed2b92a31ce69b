//! Pages, commands and their output.

use super::date::{ZonedTime, format};
use super::tag::{Token, Tokenizer};
use crate::testing::Bench;

const ERROR: &str = "[an error occurred while processing the directive]";

const CONFIG: &str = "
    default_type text/html;
    server {
        root {dir};
        location / { ssi on; ssi_value_length 40; }
        location /quiet { ssi on; ssi_silent_errors on; ssi_last_modified on; }
        location /other { ssi on; default_type a/b; }
        location /plain { }
        location /ret { return 200 'ret:$args:$uri'; }
        location /st404 { return 404; }
        location /st404t { return 404 text404; }
        location /empty { return 200; }
        location /e204 { return 204; }
        location /ep { error_page 404 /ret; return 404; }
        location /deny { deny all; }
        location /int { internal; return 200 internal; }
        location /slot { set $slot new; return 200 $slot; }
    }
";

/// Checks the output of pages, each under `/page?a=a&b=b`. `E` is the error text.
fn check(pages: &[(&str, &str)]) {
    for (page, expected) in pages {
        let files = [
            ("page", *page),
            ("directory/page", page),
            ("deny", "denied"),
            ("child", "child:<!--#echo var=\"v\"--><!--#set var=\"c\" value=\"of child\"-->"),
        ];
        let bench = Bench::with_files(CONFIG, &files);
        let reply = bench.get("/page?a=a&b=b");
        assert!(!reply.broken, "{page}");
        let found = reply.text().replace(ERROR, "E");
        assert_eq!(found, *expected, "{page}");
        // However the bytes are divided, the result is the same.
        assert_eq!(tokens(page, 1), tokens(page, usize::MAX), "{page}");
    }
}

/// Returns the commands and texts of a page that arrives in chunks of `size`; adjacent texts are joined.
fn tokens(page: &str, size: usize) -> Vec<String> {
    let mut tokenizer = Tokenizer::new(40);
    let mut found: Vec<String> = Vec::new();
    let mut text = Vec::new();
    for piece in page.as_bytes().chunks(size.min(page.len().max(1))) {
        tokenizer.push(bytes::Bytes::copy_from_slice(piece));
        while let Some(token) = tokenizer.next() {
            match token {
                Token::Text(bytes) => text.extend_from_slice(&bytes),
                other => {
                    found.push(String::from_utf8_lossy(&std::mem::take(&mut text)).into_owned());
                    found.push(format!("{other:?}"));
                }
            }
        }
    }
    text.extend_from_slice(&tokenizer.finish().unwrap_or_default());
    found.push(String::from_utf8_lossy(&text).into_owned());
    found
}

#[test]
fn echo_and_set() {
    check(&[
        ("no command", "no command"),
        (
            "X<!--#echo var=\"none\"-->X<!--#echo var=\"none\" default=\"d<&\"-->X",
            "X(none)Xd&lt;&amp;X",
        ),
        ("<!--#echo var=\"arg_a\"-->X<!--# echo   var = 'ARG_A'  -->X", "aXaX"),
        (
            "<!--#echo var=\"arg_a\" encoding=\"bad\"-->X<!--#echo-->X<!--#echo foo=\"1\"-->",
            "aXEXE",
        ),
        ("<!--#nope x=\"1\"-->X<!--#echo var=\"arg_a\" var=\"arg_b\"-->", "EXE"),
        ("<!--#ECHO VAR=\"arg_a\"-->X<!--#echo var=arg_a-->X<!-- plain -->", "EXEX<!-- plain -->"),
        (
            r#"<!--#set var="v" value="a\"b\$arg_a\\c"--><!--#echo var="v" encoding="none"-->"#,
            r#"a"b$arg_a\c"#,
        ),
        ("<!--#set var=\"v\" value=\"$arg_a-${arg_a}x$none\"--><!--#echo var=\"v\"-->", "a-ax"),
        (
            "<!--#set var=\"v\" value=\"0123456789012345678901234567890123456789\"--><!--#echo var=\"v\"-->",
            "0123456789012345678901234567890123456789",
        ),
        (
            "<!--#set var=\"v\" value=\"01234567890123456789012345678901234567890\"--><!--#echo var=\"v\"-->",
            "E(none)",
        ),
        ("<!--#set var=\"arg_a\" value=\"over\"--><!--#echo var=\"arg_a\"-->", "over"),
        (
            "<!--#set var=\"v\" value=\" ?&=/;<%~\"--><!--#echo var=\"v\" encoding=\"url\"-->",
            "%20?&=/;%3C%25~",
        ),
        ("X<!--#echo var=\"arg_a\" -->Y<!--#echo var=\"arg_a\" --X>Z - ->Z-->W", "XaYEW"),
        ("X<!--#echo var=\"arg_a\"encoding=\"none\"-->X<!--#echo\tvar=\"arg_a\"\n-->X", "XEXaX"),
        ("abc<!--#echo var=\"arg_a\"", "abc"),
        ("abc<!--#", "abc"),
        ("abc<!-", "abc<!-"),
    ]);
}

#[test]
fn conditions() {
    check(&[
        (
            "<!--#if expr=\"$arg_a\"-->A<!--#if expr=\"$none\"-->B<!--#else-->NB<!--#endif-->C<!--#else-->D<!--#endif-->F",
            "ANBCF",
        ),
        ("<!--#if expr=\"$none\"-->A<!--#elif expr=\"$arg_b\"-->B<!--#else-->C<!--#endif-->", "B"),
        (
            "<!--#if expr=\"$none\"-->A<!--#nope--><!--#if expr=\"x\"-->y<!--#endif--><!--#endif-->Z",
            "Z",
        ),
        ("<!--#if expr=\" $arg_a = a \"-->T<!--#endif-->", "ETE"),
        ("<!--#if expr=\"$arg_a=a\"-->T<!--#endif-->", "T"),
        ("<!--#if expr=\"$arg_a != a\"-->T<!--#else-->F<!--#endif-->", "F"),
        ("<!--#if expr=\"a b = a b\"-->T<!--#endif-->", "ETE"),
        ("<!--#if expr=\"lit\"-->T<!--#endif-->X<!--#if expr=\"\"-->T<!--#endif-->", "TX"),
        ("<!--#if expr=\"$arg_a = \"-->T<!--#else-->F<!--#endif-->", "F"),
        ("<!--#if expr=\"$arg_a = /A/\"-->T<!--#else-->F<!--#endif-->", "F"),
        ("<!--#if expr=\"$arg_a = /^$arg_a$/\"-->T<!--#else-->F<!--#endif-->", "T"),
        ("<!--#if expr=\"$arg_a = /(/\"-->T<!--#endif-->", "ETE"),
        (
            "<!--#if expr=\"$arg_a\"-->A<!--#if expr=\"$arg_a = /(/\"-->T<!--#endif-->B<!--#else-->SECRET<!--#endif-->C",
            "AEBC",
        ),
        (
            "<!--#if expr=\"$arg_a$arg_b = /(.)(?<n>.)/\"--><!--#echo var=\"1\"-->-<!--#echo var=\"n\"--><!--#endif-->",
            "a-b",
        ),
        ("<!--#else-->X<!--#endif-->", "EXE"),
        ("<!--#if expr=\"x\"-->1<!--#else-->2<!--#else-->3<!--#endif-->", "1E"),
    ]);
}

#[test]
fn includes() {
    check(&[
        ("<!--#include virtual=\"/ret\"-->X<!--#include file=\"ret\"-->", "ret::/retXret::/ret"),
        ("<!--#include virtual=\"/ret?q=$arg_a&b=${arg_b}c\"-->", "ret:q=a&b=bc:/ret"),
        ("<!--#include virtual=\"/r%65t\"-->", "ret::/ret"),
        (
            "<!--#include-->X<!--#include virtual=\"/../x\"-->X<!--#include virtual=\"/a\" file=\"/b\"-->",
            "EXEXE",
        ),
        (
            "<!--#include virtual=\"/st404t\"-->X<!--#include virtual=\"/ep\"-->",
            "text404Xret::/ret",
        ),
        ("<!--#include virtual=\"/empty\"-->X<!--#include virtual=\"/e204\"-->", "X"),
        // An include is allowed what the page's reader is allowed.
        ("<!--#include virtual=\"/deny\"-->X<!--#include virtual=\"/int\"-->", "deniedXinternal"),
        (
            "<!--#set var=\"v\" value=\"p\"--><!--#include virtual=\"/child\" wait=\"yes\"-->[<!--#echo var=\"c\"-->]",
            "child:p[of child]",
        ),
        (
            "<!--#include virtual=\"/ret\" set=\"r\"-->[<!--#echo var=\"r\"-->]<!--#include virtual=\"/st404t\" set=\"r\"-->[<!--#echo var=\"r\"-->]",
            "[ret::/ret][ret::/ret]",
        ),
        ("<!--#include virtual=\"/none\" set=\"q\"-->[<!--#echo var=\"q\"-->]", "[]"),
        ("<!--#include virtual=\"/slot\" wait=\"yes\"--><!--#echo var=\"slot\"-->", "newnew"),
    ]);
}

#[test]
fn blocks() {
    let block = "<!--#block name=\"s\"--><!--#if expr=\"$arg_a\"-->STUB<!--#else-->NO<!--#endif--><!--#endblock-->";
    for (path, expected) in [
        ("/st404", "XSTUBY"),
        ("/st404t", "Xtext404Y"),
        ("/empty", "XSTUBY"),
        ("/e204", "XSTUBY"),
        ("/ep", "XSTUBY"),
        ("/ret", "Xret::/retY"),
    ] {
        check(&[(&format!("X{block}<!--#include virtual=\"{path}\" stub=\"s\"-->Y"), expected)]);
    }
    check(&[
        ("<!--#include virtual=\"/empty\" stub=\"none\"-->", "E"),
        ("<!--#endblock-->", "E"),
        (
            "<!--#block name=\"a\"-->[<!--#include virtual=\"/int\" wait=\"yes\"-->]<!--#endblock--><!--#include virtual=\"/empty\" stub=\"a\"-->Z",
            "[internal]Z",
        ),
    ]);
}

#[test]
fn a_page_that_includes_itself_ends() {
    let page = "C<!--#include virtual=\"/page\"-->D";
    let bench = Bench::with_files(CONFIG, &[("page", page)]);
    let text = bench.text("/page");
    assert_eq!(text, format!("{}{ERROR}{}", "C".repeat(52), "D".repeat(52)));
}

#[test]
fn errors_can_have_another_text_or_none() {
    let page = "<!--#nope--><!--#config errmsg=\"ERR\"--><!--#nope-->";
    check(&[(page, "EERR")]);
    let bench = Bench::with_files(CONFIG, &[("quiet", page), ("other", page)]);
    assert_eq!(bench.text("/quiet"), "");
    assert_eq!(bench.text("/other"), page);
}

#[test]
fn heads() {
    let bench =
        Bench::with_files(CONFIG, &[("page", "text"), ("quiet", "text"), ("plain", "text")]);
    for (path, last_modified, etag, ranges) in
        [("/page", false, "", false), ("/quiet", true, "W/\"", false), ("/plain", true, "\"", true)]
    {
        let reply = bench.get(path);
        assert_eq!(reply.field("Accept-Ranges") == "bytes", ranges, "{path}");
        assert_eq!(reply.x.response.last_modified.is_some(), last_modified, "{path}");
        let tag = reply.field("ETag");
        assert!(tag.starts_with(etag) && (tag == "-") == etag.is_empty(), "{path} {tag}");
    }
}

#[test]
fn dates() {
    let moment = ZonedTime { unix_seconds: 784_111_777, offset: 3600, zone: "CET" };
    for (form, expected) in [
        ("%A, %d-%b-%Y %H:%M:%S %Z", "Sunday, 06-Nov-1994 09:49:37 CET"),
        ("%a %B %e %k %l %I %p %P %j", "Sun November  6  9  9 09 AM am 310"),
        (
            "%c|%D|%F|%r|%R|%T|%x|%X",
            "Sun Nov  6 09:49:37 1994|11/06/94|1994-11-06|09:49:37 AM|09:49|09:49:37|11/06/94|09:49:37",
        ),
        ("%s %u %w %U %W %V %G %g %C %y %z %%", "784111777 7 0 45 44 44 1994 94 19 94 +0100 %"),
        ("100%", "100"),
        ("%Q%Ey", "%Q94"),
    ] {
        let mut out = Vec::new();
        format(&moment, form.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{form}");
    }
    check(&[("<!--#config timefmt=\"%%\"--><!--#echo var=\"date_gmt\"-->", "%")]);
}

#[test]
fn a_page_that_includes_itself_twice_ends() {
    let page = "<!--#include virtual=\"/page\"--><!--#include virtual=\"/page\"-->.";
    let bench = Bench::with_files(CONFIG, &[("page", page)]);
    let reply = bench.get("/page");
    assert!(!reply.broken);
    // Each page makes one dot, and there are no more pages than the limit.
    let pages = reply.text().replace(ERROR, "").len();
    assert_eq!(pages, 1 + tidegate_core::subrequest::COUNT_MAX as usize);
}

#[test]
fn a_response_too_long_for_a_variable_breaks_the_page() {
    let page = "<!--#include virtual=\"/plain\" set=\"v\"-->[<!--#echo var=\"v\"-->]";
    for (length, broken) in [(4096, false), (4097, true)] {
        let content = "x".repeat(length);
        let bench = Bench::with_files(CONFIG, &[("page", page), ("plain", &content)]);
        assert_eq!(bench.get("/page").broken, broken, "{length}");
    }
}

#[test]
fn a_command_without_an_end_is_not_kept_for_ever() {
    let mut tokenizer = Tokenizer::new(40);
    tokenizer.push("before<!--#include".into());
    assert_eq!(tokenizer.next(), Some(Token::Text("before".into())));
    let spaces = " ".repeat(2048);
    let broken = (0..100).find_map(|_| {
        tokenizer.push(spaces.clone().into());
        tokenizer.next()
    });
    assert_eq!(broken, Some(Token::Broken("too long SSI command".to_owned())));
    tokenizer.push("virtual=\"/a\" -->behind".into());
    assert_eq!(tokenizer.next(), Some(Token::Text("behind".into())));
}

/// More includes than run at the same time, in one piece of the page and in a block.
#[test]
fn many_includes_keep_their_order() {
    let includes: String =
        (0..100).map(|n| format!("<!--#include virtual=\"/ret?{n}\"-->")).collect();
    let output: String = (0..100).map(|n| format!("ret:{n}:/ret")).collect();
    let block = format!(
        "<!--#block name=\"b\"-->{includes}<!--#endblock-->[<!--#include virtual=\"/empty\" stub=\"b\"-->]"
    );
    check(&[(&format!("[{includes}]"), &format!("[{output}]")), (&block, &format!("[{output}]"))]);
}
