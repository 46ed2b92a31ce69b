//! `addition`: responses with added text, whole and in chunks.

use crate::testing::Bench;

#[test]
fn responses_of_subrequests_are_around_the_body() {
    let bench = Bench::with_files(
        "default_type text/html; server { root {dir};
            location /before { return 200 'before '; }
            location /after { return 200 ' after$arg_q'; }
            location /one { add_before_body /before; return 200 body; }
            location /two { add_before_body /before; add_after_body /after; return 200 body; }
            location /file { add_after_body /part.html; try_files /a.html =404; }
            location /self { add_after_body /self; return 200 self; }
            location /missing { add_after_body /nowhere; return 200 body; }
            location /outer { add_after_body /after;
                location /outer/none { add_after_body ''; return 200 body; }
                location /outer/same { return 200 body; } }
         }",
        &[("a.html", "file"), ("part.html", " part")],
    );
    for (target, expected) in [
        ("/one", "before body"),
        ("/two?q=1", "before body after"),
        ("/file", "file part"),
        ("/self", "selfself"),
        ("/outer/none", "body"),
        ("/outer/same", "body after"),
    ] {
        assert_eq!(bench.text(target), expected, "{target}");
    }
    let missing = bench.text("/missing");
    assert!(missing.starts_with("body<html>") && missing.contains("404"), "{missing}");
    let file = bench.get("/file");
    assert!(file.field("ETag").starts_with("W/"));
    assert_eq!((file.x.response.content_length, file.field("Accept-Ranges")), (None, "-".into()));
}

#[test]
fn only_successful_responses_of_the_types() {
    let bench = Bench::new(
        "add_before_body /part; default_type text/html; server {
            location /part { return 200 '+'; }
            location /html { return 200 a; }
            location /plain { default_type text/plain; return 200 a; }
            location /types { addition_types text/plain; default_type text/plain; return 200 a; }
            location /created { return 201 a; }
        }",
    );
    for (target, expected) in
        [("/html", "+a"), ("/plain", "a"), ("/types", "+a"), ("/created", "a")]
    {
        assert_eq!(bench.text(target), expected, "{target}");
    }
    let head = bench.send("HEAD /html HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.text()), (200, ""));
    let errors = Bench::errors("add_after_body /a; add_after_body /b; server { }");
    assert_eq!(errors, ["\"add_after_body\" directive is duplicate"]);
}
