//! The page's head and its numbers.

use super::{API, Page, between};
use crate::testing::Bench;

#[test]
fn the_page_has_what_is_replaced_once() {
    for place in [API, "<!--requests-->", "<!--active-->", "<!--idle-->", "<!--accepted-->"] {
        assert_eq!(super::PAGE.matches(place).count(), 1, "{place}");
    }
    for tag in ["<style>", "</style>", "<script>", "</script>"] {
        assert_eq!(super::PAGE.matches(tag).count(), 1, "{tag}");
    }
    assert!(
        !between("<style>", "</style>").is_empty() && !between("<script>", "</script>").is_empty()
    );
}

#[test]
fn a_path_cannot_leave_its_attribute() {
    let page = Page::new(b"/\"><script>alert(1)</script>");
    assert!(page.text.contains("content=\"/&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\""));
    assert_eq!(page.text.matches("<script>").count(), 1);
}

#[test]
fn the_page_is_sent_with_its_numbers() {
    let bench = Bench::new("server { location = /status { dashboard /own; } }");
    let text = bench.text("/status");
    assert!(text.contains("name=\"tidegate-api\" content=\"/own\"") && !text.contains("<!--"));
    assert_eq!(
        bench.send("POST /status HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status,
        405
    );
}
