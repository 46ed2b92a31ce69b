//! Handlers are functions, so they are tested without a server.

use std::thread;

use tidegate::Request;

use crate::{database, document};

#[test]
fn the_document_differs_each_time_and_has_a_fixed_length() {
    let page = || document::respond(Request::for_test("GET", "/")).unwrap().into_bytes().unwrap();
    let (first, second) = (page(), page());
    assert_eq!((first.len(), second.len()), (document::PAGE_BYTES, document::PAGE_BYTES));
    assert_ne!(first, second);
    assert!(first.ends_with(b"</ul>\n"));
}

#[test]
fn towns_come_from_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("towns.db").to_str().unwrap().to_owned();
    let ask = |target: &str| {
        let request = Request::for_test("GET", target).with_variable("example_database", &file);
        let body = database::respond(request).unwrap().into_bytes().unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(ask("/").lines().count(), 10));
        }
    });
    assert_eq!(ask("/?above=999800").lines().next(), Some("Town 2273: 999836"));
    assert_eq!(ask("/?above=many"), "above= takes a number\n");
    assert_eq!(ask("/?above=2000000"), "");
    let nowhere = Request::for_test("GET", "/").with_variable("example_database", "/none/such");
    assert!(database::respond(nowhere).is_err());
}
