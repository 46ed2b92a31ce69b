//! Tests of the functions that need no server.

use crate::document::{PAGE_BYTES, page};
use crate::visit;

#[test]
fn the_page_has_a_fixed_length() {
    for (visit, host) in [(1, "localhost"), (u64::MAX, "<a&b>"), (7, &*"h".repeat(1000))] {
        let page = String::from_utf8(page(visit, host)).unwrap();
        assert_eq!(page.len(), PAGE_BYTES);
        assert!(page.ends_with("</ul>\n") && page.contains(&format!("of visit {visit}: ")));
        assert!(!page.contains("<a"));
    }
}

#[test]
fn the_visit_is_a_parameter() {
    let table = [("/", 1), ("/?visit=3", 3), ("/?a=b&visit=4&visit=5", 4), ("/?visit=many", 1)];
    for (target, expected) in table {
        assert_eq!(visit(target), expected, "{target}");
    }
}
