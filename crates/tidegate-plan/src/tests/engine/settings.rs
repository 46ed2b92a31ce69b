//! Media types by extension, and paths relative to the prefix.

use std::path::PathBuf;

use tidegate_core::settings::full_path;

use crate::tests::Bench;

#[test]
fn the_last_extension_of_the_last_segment_counts() {
    let bench = Bench::new(
        "types { text/html html; image/png png PNX; a/b tar.gz gz; } default_type d/d;
         server { location /own { types { x/y html; } } location /none { types { } default_type \"\"; } }
         server { }",
    );
    let own = |name: &str| {
        let mut x = bench.received(&format!("GET {name} HTTP/1.1\r\nHost: h\r\n\r\n"));
        tidegate_core::location::find_config(&mut x, &bench.plan);
        String::from_utf8(x.settings().media_type(name.as_bytes()).to_vec()).unwrap()
    };
    for (path, expected) in [
        ("/a.html", "text/html"),
        ("/a.HtMl", "text/html"),
        ("/a.pnx", "image/png"),
        ("/a.b.png", "image/png"),
        ("/a.tar.gz", "a/b"),
        ("/a.png/b", "d/d"),
        ("/a.png.", "d/d"),
        ("/.html", "d/d"),
        ("/html", "d/d"),
        ("/", "d/d"),
        ("/own/a.html", "x/y"),
        ("/own/a.png", "d/d"),
        ("/none/a.html", ""),
    ] {
        assert_eq!(own(path), expected, "{path}");
    }
    let default = Bench::new("server { location / { do own respond $uri; } }");
    let settings = &default.plan.location(default.plan.servers()[0].location).settings;
    for (path, expected) in [
        ("a.html", "text/html"),
        ("a.jpg", "image/jpeg"),
        ("a.gif", "image/gif"),
        ("a.js", "text/plain"),
    ] {
        assert_eq!(settings.media_type(path.as_bytes()), expected.as_bytes(), "{path}");
    }
}

#[test]
fn paths_are_below_the_prefix_unless_they_are_absolute() {
    for (path, expected) in [("a/b", "/p/a/b"), ("/a", "/a"), ("", "/p/"), ("./a", "/p/./a")] {
        assert_eq!(full_path("/p/", path), PathBuf::from(expected), "{path}");
    }
}
