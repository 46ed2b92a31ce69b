//! `autoindex`: the formats of listings, their entries, and the responses without one.

use super::page::{ListFormat, rounded, write};
use super::read::{ListedEntry, ListedKind, sort};
use crate::testing::Bench;

fn entry(name: &[u8], kind: ListedKind, modified: i64, size: u64) -> ListedEntry {
    ListedEntry { name: name.to_vec(), kind, modified, size }
}

fn html(exact_size: bool, utf8: bool) -> ListFormat {
    ListFormat::Html { path: b"/a&b/".to_vec(), exact_size, localtime: false, utf8 }
}

/// Returns the lines of a page for entries, without its frame.
fn lines(entries: &[ListedEntry], form: &ListFormat) -> Vec<String> {
    let page = write(entries, form);
    let page = String::from_utf8_lossy(&page).into_owned();
    let body = page.split("../</a>\r\n").nth(1).unwrap();
    body.split("</pre>").next().unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_page_as_nginx_writes_it() {
    let entries = [
        entry(b"d", ListedKind::Directory, 981_173_106, 4096),
        entry(b"<&>\" '", ListedKind::File, 981_173_106, 1536),
        entry(b"pipe", ListedKind::Other, -1, 0),
    ];
    let expected = "<html>\r\n<head><title>Index of /a&amp;b/</title></head>\r\n<body>\r\n\
        <h1>Index of /a&amp;b/</h1><hr><pre><a href=\"../\">../</a>\r\n\
        <a href=\"d/\">d/</a>                                                 \
        03-Feb-2001 04:05                   -\r\n\
        <a href=\"%3C%26%3E%22%20%27\">&lt;&amp;&gt;&quot; '</a>                                             \
        03-Feb-2001 04:05                1536\r\n\
        <a href=\"pipe\">pipe</a>                                               \
        01-Jan-1970 00:00                   0\r\n\
        </pre><hr></body>\r\n</html>\r\n";
    assert_eq!(String::from_utf8(write(&entries, &html(true, false))).unwrap(), expected);
}

#[test]
fn names_are_cut_where_the_column_ends() {
    let check = |name: &str, kind: ListedKind, utf8: bool, shown: &str| {
        let line = lines(&[entry(name.as_bytes(), kind, 0, 0)], &html(true, utf8)).remove(0);
        let text = line.split("\">").nth(1).unwrap();
        let text = text.split("01-Jan").next().unwrap();
        assert_eq!(text, shown, "{name}");
    };
    let letters = |letter: &str, count: usize| letter.repeat(count);
    check(&letters("x", 49), ListedKind::File, false, &format!("{}</a>  ", letters("x", 49)));
    check(&letters("x", 50), ListedKind::File, false, &format!("{}</a> ", letters("x", 50)));
    check(&letters("x", 51), ListedKind::File, false, &format!("{}..&gt;</a> ", letters("x", 47)));
    check(
        &letters(">", 51),
        ListedKind::File,
        false,
        &format!("{}..&gt;</a> ", letters("&gt;", 47)),
    );
    check(&letters("d", 49), ListedKind::Directory, false, &format!("{}/</a> ", letters("d", 49)));
    check(&letters("d", 50), ListedKind::Directory, false, &format!("{}</a> ", letters("d", 50)));
    check(
        &letters("d", 51),
        ListedKind::Directory,
        false,
        &format!("{}..&gt;</a> ", letters("d", 47)),
    );
    let wide = letters("ф", 50);
    check(&wide, ListedKind::File, true, &format!("{wide}</a> "));
    check(&letters("ф", 51), ListedKind::File, true, &format!("{}..&gt;</a> ", letters("ф", 47)));
    check("ф", ListedKind::File, true, &format!("ф</a>{}", " ".repeat(50)));
    check("ф", ListedKind::File, false, &format!("ф</a>{}", " ".repeat(49)));
}

#[test]
fn sizes_in_few_letters() {
    for (size, text) in [
        (0, "0"),
        (9999, "9999"),
        (10_000, "10K"),
        (10_751, "10K"),
        (10_752, "11K"),
        (1_048_063, "1023K"),
        (1_048_064, "1024K"),
        (1_048_575, "1024K"),
        (1_048_576, "1M"),
        (1_572_863, "1M"),
        (1_572_864, "2M"),
        (1_073_741_823, "1024M"),
        (1_073_741_824, "1G"),
        (1_610_612_736, "2G"),
        (123_456_789_012, "115G"),
        (u64::MAX, "17179869184G"),
    ] {
        assert_eq!(rounded(size), text, "{size}");
    }
    let file = [entry(b"f", ListedKind::File, 0, 10_000), entry(b"g", ListedKind::Directory, 0, 0)];
    let lines = lines(&file, &html(false, false));
    assert!(lines[0].ends_with("01-Jan-1970 00:00     10K"), "{}", lines[0]);
    assert!(lines[1].ends_with("01-Jan-1970 00:00       -"), "{}", lines[1]);
}

#[test]
fn lists_for_programs() {
    let entries = [
        entry(b"d", ListedKind::Directory, 981_173_106, 4096),
        entry(b"q\"<\\\n\x01\xff", ListedKind::File, 981_173_106, 7),
        entry(b"o", ListedKind::Other, 0, 9),
    ];
    let xml = b"<?xml version=\"1.0\"?>\r\n<list>\r\n\
        <directory mtime=\"2001-02-03T04:05:06Z\">d</directory>\r\n\
        <file mtime=\"2001-02-03T04:05:06Z\" size=\"7\">q&quot;&lt;\\\n\x01\xff</file>\r\n\
        <other mtime=\"1970-01-01T00:00:00Z\">o</other>\r\n</list>\r\n";
    assert_eq!(write(&entries, &ListFormat::Xml), xml);
    let json = b"[\r\n\
        { \"name\":\"d\", \"type\":\"directory\", \"mtime\":\"Sat, 03 Feb 2001 04:05:06 GMT\" },\r\n\
        { \"name\":\"q\\\"<\\\\\\n\\u0001\xff\", \"type\":\"file\", \
        \"mtime\":\"Sat, 03 Feb 2001 04:05:06 GMT\", \"size\":7 },\r\n\
        { \"name\":\"o\", \"type\":\"other\", \"mtime\":\"Thu, 01 Jan 1970 00:00:00 GMT\" }\r\n]";
    assert_eq!(write(&entries, &ListFormat::Json { callback: None }), json);
    let empty = write(&[], &ListFormat::Json { callback: Some(b"f".to_vec()) });
    assert_eq!(empty, b"/* callback */\r\nf([\r\n]);");
}

#[test]
fn directories_come_first() {
    let mut entries = [
        entry(b"b", ListedKind::File, 0, 0),
        entry(b"a", ListedKind::Other, 0, 0),
        entry(b"z", ListedKind::Directory, 0, 0),
        entry(b"Z", ListedKind::Directory, 0, 0),
        entry(b"\xff", ListedKind::File, 0, 0),
    ];
    sort(&mut entries);
    let names: Vec<_> = entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, [b"Z", b"z", b"a", b"b", b"\xff"]);
}

#[test]
fn a_directory_is_listed_where_no_index_is() {
    let bench = Bench::with_files(
        "root {dir}; autoindex on; server {
            location /off/ { autoindex off; }
            location /json/ { autoindex_format json; }
            location /jsonp/ { autoindex_format jsonp; }
            location /utf8/ { charset utf-8; }
        }",
        &[
            ("d/b.txt", "four"),
            ("d/.hidden", ""),
            ("d/a/", ""),
            ("i/index.html", "index"),
            ("off/x", ""),
            ("json/x", "12"),
            ("jsonp/", ""),
            ("utf8/ф", ""),
        ],
    );
    std::os::unix::fs::symlink("nowhere", bench.dir.path().join("d/c")).unwrap();
    let reply = bench.get("/d/");
    assert_eq!((reply.status, reply.field("Content-Type")), (200, "text/html".to_owned()));
    let names: Vec<_> = reply.text().split("</a>").map(|part| part.rsplit('>').next()).collect();
    assert_eq!(names[..4], [Some("../"), Some("a/"), Some("b.txt"), Some("c")]);
    assert!(!reply.text().contains("hidden"));
    assert_eq!(bench.text("/i/"), "index");
    let check =
        |target: &str, status: u16| assert_eq!(bench.get(target).status, status, "{target}");
    check("/off/", 403);
    check("/absent/", 404);
    check("/d/b.txt/", 404);
    assert!(bench.text("/json/").contains("{ \"name\":\"x\", \"type\":\"file\""));
    assert_eq!(bench.text("/jsonp/?callback=a.b_9"), "/* callback */\r\na.b_9([\r\n]);");
    assert_eq!(bench.text("/jsonp/?callback="), "[\r\n]");
    assert_eq!(bench.get("/jsonp/?callback=f").field("Content-Type"), "application/javascript");
    check("/jsonp/?callback=f%28", 400);
    check("/jsonp/?callback=f()", 400);
    check(&format!("/jsonp/?callback={}", "f".repeat(128)), 200);
    check(&format!("/jsonp/?callback={}", "f".repeat(129)), 400);
    let utf8 = bench.get("/utf8/");
    assert_eq!(utf8.field("Content-Type"), "text/html; charset=utf-8");
    assert!(utf8.text().contains(&format!(">ф</a>{}", " ".repeat(50))));
    let post = bench.send("POST /d/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(post.status, 403);
    let head = bench.send("HEAD /d/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.status, 200);
}
