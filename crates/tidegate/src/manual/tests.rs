//! The manual says something of every directive, and its texts are of use.

use super::entry::{Origin, all};
use super::{pages, text};

#[test]
fn every_directive_has_a_meaning_and_a_context() {
    for entry in all() {
        let row = &entry.row;
        assert!(row.doc.len() > 10 && row.doc.ends_with('.'), "{}: {:?}", row.name, row.doc);
        assert_ne!(row.contexts.describe(), "nowhere", "{}", row.name);
    }
}

#[test]
fn an_entry_says_where_a_directive_may_stand_and_whose_it_is() {
    let entries = all();
    let found = |name: &str| {
        let found: Vec<_> = entries.iter().filter(|entry| entry.name() == name).collect();
        text::entries(&found)
    };
    let lock = found("proxy_cache_lock");
    for part in ["http, server, location", "default   off", "ngx_http_proxy_module"] {
        assert!(lock.contains(part), "{lock}");
    }
    // In `http` and in `stream`.
    assert_eq!(found("proxy_pass").matches("contexts").count(), 2);
    assert!(found("wasm").contains("Tidegate's own"));
}

#[test]
fn an_unknown_name_gets_a_suggestion() {
    let entries = all();
    assert!(text::unknown("proxy_pas", &entries).contains("did you mean \"proxy_pass\"?"));
    assert!(text::unknown("qqqqqqqqqqqq", &entries).contains("`tidegate help` lists them"));
}

#[test]
fn no_line_of_the_overview_is_wider_than_a_terminal() {
    let overview = text::overview(&all());
    assert!(overview.lines().all(|line| line.len() <= 80));
    assert!(overview.contains("worker_processes"));
}

#[test]
fn each_name_of_the_index_has_its_page() {
    let entries = all();
    let pages = pages::all(&entries);
    for entry in &entries {
        assert!(pages.contains(&format!("=== {}.md\n", entry.module)), "{}", entry.module);
        assert!(pages.contains(&format!("\n## `{}`\n", entry.name())), "{}", entry.name());
    }
    assert!(entries.iter().any(|entry| entry.origin == Origin::Plus));
}
