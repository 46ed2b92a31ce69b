//! `random_index`: only files are chosen, and each of them sometimes.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use crate::testing::Bench;

#[test]
fn every_visible_file_and_nothing_else() {
    let bench = Bench::with_files(
        "root {dir}; server { location / { random_index on; } }",
        &[("d/a", "a"), ("d/b", "b"), ("d/.hidden", "hidden"), ("d/sub/x", "x"), ("other", "c")],
    );
    let directory = bench.dir.path().join("d");
    symlink(bench.dir.path().join("other"), directory.join("link")).unwrap();
    symlink("sub", directory.join("directory-link")).unwrap();
    symlink("nowhere", directory.join("dangling")).unwrap();
    // With three files the chance to miss one in 200 draws is below 1 in 10^34.
    let seen: BTreeSet<String> = (0..200).map(|_| bench.text("/d/")).collect();
    assert_eq!(seen, ["a", "b", "c"].map(str::to_owned).into());
}

#[test]
fn directories_without_files_and_what_is_no_directory() {
    let bench = Bench::with_files(
        "root {dir}; server { location / { random_index on; }
         location /off/ { random_index on; location /off/x/ { random_index off; } } }",
        &[("empty/sub/", ""), ("file", "x"), ("off/x/a", "a"), ("off/a", "outer")],
    );
    let check =
        |target: &str, status: u16| assert_eq!(bench.get(target).status, status, "{target}");
    check("/empty/", 403);
    check("/absent/", 404);
    check("/file/", 404);
    check("/file", 200);
    check("/off/x/", 403);
    check("/off/", 200);
    assert!(bench.read("logs/error.log").contains("opendir() \""));
    let put = bench.send("PUT /off/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(put.status, 405);
}
