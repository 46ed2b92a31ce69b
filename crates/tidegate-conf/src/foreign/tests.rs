//! The modules of directives, and the rows of the table.

use super::{TABLE, find};
use crate::known;

#[test]
fn owners() {
    let module = |name: &str| find(name.as_bytes()).map(|foreign| foreign.module);
    assert_eq!(module("content_by_lua_block"), Some("Lua module (OpenResty)"));
    assert_eq!(module("lua_shared_dict"), Some("Lua module (OpenResty)"));
    assert_eq!(module("upload_progress"), Some("upload progress module"));
    assert_eq!(module("upload_pass"), Some("upload module"));
    assert_eq!(module("echo"), Some("echo module"));
    assert_eq!(module("echo_sleep"), Some("echo module"));
    assert_eq!(module("echoes"), None);
    assert_eq!(module("listen"), None);
    assert_eq!(module(""), None);
}

#[test]
fn rows_are_complete_and_hide_no_directive_of_nginx() {
    for line in TABLE.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields.len() == 3 && fields[0].matches('*').count() <= 1, "{line}");
        assert!(fields[0].len() > 1 && !fields[1].is_empty(), "{line}");
        assert!(find(fields[0].as_bytes()).is_some(), "{line}");
    }
    assert!(known::find(b"echo").is_empty());
}
