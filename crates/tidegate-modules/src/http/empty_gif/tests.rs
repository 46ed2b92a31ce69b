//! `empty_gif`: the image, conditional requests, methods.

use crate::testing::Bench;

#[test]
fn a_picture_of_one_pixel() {
    let bench = Bench::new("server { location / { empty_gif; } }");
    let reply = bench.get("/any/path");
    assert_eq!((reply.status, reply.body.len()), (200, 43));
    assert!(reply.body.starts_with(b"GIF89a\x01\0\x01\0") && reply.body.ends_with(b";"));
    assert_eq!(reply.field("Content-Type"), "image/gif");
    assert_eq!(reply.field("Last-Modified"), "Mon, 28 Sep 1970 06:00:00 GMT");
    let fresh = bench.get_with("/", &["If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT"]);
    assert_eq!((fresh.status, fresh.body.len()), (304, 0));
    for method in ["POST", "PUT", "DELETE"] {
        let reply = bench.send(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(reply.status, 405, "{method}");
    }
}

#[test]
fn it_is_allowed_in_locations_alone() {
    assert!(!Bench::errors("server { empty_gif; }").is_empty());
    let bench = Bench::new("server { location / { empty_gif; empty_gif; } }");
    assert_eq!(bench.get("/").status, 200);
}
