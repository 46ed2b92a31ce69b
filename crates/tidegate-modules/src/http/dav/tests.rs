//! `dav`: fields, file operations, and requests through the phases.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::fields::{Depth, depth, destination_path, overwrite};
use super::tree::{MappedPath, Transfer, delete, make_directories};
use crate::testing::{Bench, TestResponse};

#[test]
fn fields_of_webdav() {
    assert_eq!(depth(None), Some(Depth::Infinity));
    for (text, expected) in [
        ("0", Some(Depth::Zero)),
        ("1", Some(Depth::One)),
        ("infinity", Some(Depth::Infinity)),
        ("Infinity", Some(Depth::Infinity)),
        ("2", None),
        ("", None),
        ("infinity,noroot", None),
    ] {
        assert_eq!(depth(Some(text.as_bytes())), expected, "{text}");
    }
    assert_eq!(overwrite(None), Some(true));
    for (text, expected) in
        [("T", Some(true)), ("t", Some(true)), ("F", Some(false)), ("f", Some(false))]
    {
        assert_eq!(overwrite(Some(text.as_bytes())), expected, "{text}");
    }
    for text in ["", "x", "TT", "true"] {
        assert_eq!(overwrite(Some(text.as_bytes())), None, "{text}");
    }
}

#[test]
fn destinations() {
    let check = |field: &str, expected: Option<&str>| {
        let path = destination_path(field.as_bytes(), b"host.test");
        assert_eq!(path.as_deref(), expected.map(str::as_bytes), "{field}");
    };
    check("/a", Some("/a"));
    check("/a%20b%3F?x=y", Some("/a b?"));
    check("//a//b/", Some("/a/b/"));
    check("http://host.test/a", Some("/a"));
    check("https://HOST.test:8443/a", Some("/a"));
    check("HTTP://host.test/", Some("/"));
    check("/a/../b", Some("/b"));
    check("", None);
    check("a", None);
    check("*", None);
    check("/..", None);
    check("/a/../../b", None);
    check("/%2e%2e/b", None);
    check("/%", None);
    check("/a%00b", None);
    check("http://host.test", None);
    check("http://host.test.evil/a", None);
    check("http://user@host.test/a", None);
    check("http:///a", None);
    check("ftp://host.test/a", None);
}

proptest! {
    #[test]
    fn a_destination_stays_below_the_root(field in "(http://host\\.test)?[/a%.2eEfF?#\\\\]{0,20}") {
        if let Some(path) = destination_path(field.as_bytes(), b"host.test") {
            prop_assert!(path.starts_with(b"/") && !path.contains(&0));
            prop_assert!(!path.split(|byte| *byte == b'/').any(|part| part == b".."));
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn place(path: &Path, is_directory: bool) -> MappedPath {
    let slash = if is_directory { "/" } else { "" };
    MappedPath::of(path.display().to_string().as_bytes(), slash.as_bytes())
}

/// Returns names, kinds and contents below a directory.
fn tree(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            lines.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
        } else if kind.is_dir() {
            lines.push(format!("{name}/"));
            lines.extend(tree(&path).into_iter().map(|line| format!("{name}/{line}")));
        } else {
            lines.push(format!("{name}={}", fs::read_to_string(&path).unwrap()));
        }
    }
    lines.sort();
    lines
}

/// A directory `from` with files and links, and an absent target beside it.
struct TestTree(tempfile::TempDir);

impl TestTree {
    fn new() -> TestTree {
        let ground = TestTree(tempfile::tempdir().unwrap());
        write(&ground.path("from/a"), "1");
        write(&ground.path("from/sub/b"), "2");
        write(&ground.path("outside/keep"), "kept");
        symlink("a", ground.path("from/link")).unwrap();
        symlink("../outside", ground.path("from/out")).unwrap();
        ground
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn transfer(&self, from: &str, to: &str) -> Transfer {
        Transfer {
            from: place(&self.path(from), true),
            to: place(&self.path(to), true),
            is_move: false,
            depth: Depth::Infinity,
            overwrite: true,
            refuse_links: false,
            directory_mode: 0o700,
        }
    }
}

#[test]
fn nothing_behind_a_link_is_deleted() {
    let ground = TestTree::new();
    delete(&place(&ground.path("from"), true), Depth::Infinity).unwrap();
    assert_eq!(tree(ground.0.path()), ["outside/", "outside/keep=kept"]);
    symlink("outside", ground.path("link")).unwrap();
    delete(&place(&ground.path("link"), true), Depth::Infinity).unwrap();
    assert_eq!(tree(ground.0.path()), ["outside/", "outside/keep=kept"]);
}

#[test]
fn a_copy_has_what_links_lead_to_and_replaces_as_a_whole() {
    let ground = TestTree::new();
    write(&ground.path("to/old"), "old");
    fs::set_permissions(ground.path("from/a"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(ground.transfer("from", "to").run().unwrap(), 201);
    let copied = tree(&ground.path("to"));
    assert_eq!(copied, ["a=1", "link=1", "out/", "out/keep=kept", "sub/", "sub/b=2"]);
    let mode = fs::metadata(ground.path("to/a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(tree(ground.0.path()).iter().filter(|line| line.contains(".dav")).count(), 0);
    let alone = Transfer { depth: Depth::Zero, ..ground.transfer("from", "alone") };
    assert_eq!(alone.run().unwrap(), 201);
    assert!(tree(&ground.path("alone")).is_empty());
}

#[test]
fn a_copy_that_fails_leaves_what_was_there() {
    let ground = TestTree::new();
    write(&ground.path("to/old"), "old");
    let strict = Transfer { refuse_links: true, ..ground.transfer("from", "to") };
    assert_eq!(strict.run().unwrap_err().status, 403);
    symlink(".", ground.path("from/sub/loop")).unwrap();
    assert_eq!(ground.transfer("from", "to").run().unwrap_err().status, 403);
    assert_eq!(tree(&ground.path("to")), ["old=old"]);
    assert!(!tree(ground.0.path()).iter().any(|line| line.contains(".dav")));
}

#[test]
fn directories_are_moved_with_their_links() {
    let ground = TestTree::new();
    write(&ground.path("to/old"), "old");
    let moved = Transfer { is_move: true, ..ground.transfer("from", "to") };
    assert_eq!(moved.run().unwrap(), 201);
    let there = tree(&ground.path("to"));
    assert_eq!(there, ["a=1", "link -> a", "out -> ../outside", "sub/", "sub/b=2"]);
    assert!(!ground.path("from").exists());
    let deep = Transfer { is_move: true, ..ground.transfer("to", "new/deep/place") };
    assert_eq!(deep.run().unwrap(), 201);
    assert!(ground.path("new/deep/place/a").exists());
}

#[test]
fn directories_that_are_in_one_another_stay() {
    let ground = TestTree::new();
    symlink("from/sub", ground.path("alias")).unwrap();
    let before = tree(ground.0.path());
    let check = |from: &str, to: &str| {
        for is_move in [false, true] {
            let transfer = Transfer { is_move, ..ground.transfer(from, to) };
            assert_eq!(transfer.run().unwrap_err().status, 403, "{from} {to}");
        }
    };
    check("from", "from");
    check("from", "from/sub");
    check("from", "from/sub/new");
    check("from", "alias/new");
    check("from/sub", "from");
    assert_eq!(tree(ground.0.path()), before);
}

#[test]
fn directories_on_the_way_have_their_mode() {
    let ground = TestTree::new();
    make_directories(&ground.path("x/y/z"), 0o751).unwrap();
    make_directories(&ground.path("x/y"), 0o700).unwrap();
    for name in ["x", "x/y", "x/y/z"] {
        let mode = fs::metadata(ground.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o751, "{name}");
    }
    assert!(make_directories(&ground.path("from/a/b"), 0o700).is_err());
}

const CONFIG: &str = "root {dir}/html; client_body_temp_path {dir}/temp 1 2;
    server {
        dav_methods PUT DELETE MKCOL COPY MOVE;
        location /full/ { create_full_put_path on; dav_access group:rw all:r; }
        location /min3/ { min_delete_depth 3; }
        location /i/ { alias {dir}/html/; }
        location /put/ { dav_methods PUT; }
        location /off/ { dav_methods off; }
        location /strict/ { disable_symlinks on from=$document_root; }
    }";

fn send(bench: &Bench, line: &str, fields: &[&str], body: &str) -> TestResponse {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let length = format!("Content-Length: {}\r\n", body.len());
    let length = if body.is_empty() { "" } else { &length };
    bench.send(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n{body}"))
}

#[test]
fn an_upload_is_renamed_when_it_is_complete() {
    let bench = Bench::with_files(CONFIG, &[("html/dir/", ""), ("html/full/file", "x")]);
    let created = send(&bench, "PUT /a%20b", &["Date: Sun, 09 Sep 2001 01:46:40 GMT"], "content");
    assert_eq!((created.status, created.body.len()), (201, 0));
    assert_eq!(created.field("Location"), "http://localhost:8080/a%20b");
    assert_eq!(bench.read("html/a b"), "content");
    let metadata = fs::metadata(bench.dir.path().join("html/a b")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let modified = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(modified.as_secs(), 1_000_000_000);
    let check = |target: &str, fields: &[&str], status: u16| {
        assert_eq!(send(&bench, &format!("PUT {target}"), fields, "x").status, status, "{target}");
    };
    check("/a%20b", &["Date: bogus"], 204);
    check("/", &[], 409);
    check("/new/", &[], 409);
    check("/dir", &[], 409);
    check("/no/such", &[], 409);
    check("/a%20b/c", &[], 409);
    check("/part", &["Content-Range: bytes 0-0/1"], 501);
    check("/full/x/y/z", &[], 201);
    check("/full/file/z", &[], 409);
    check("/off/z", &[], 405);
    check("/i/alias", &[], 201);
    assert_eq!(bench.read("html/a b"), "x");
    assert_eq!(send(&bench, "PUT /empty", &[], "").status, 201);
    let mode = |name: &str| {
        fs::metadata(bench.dir.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("html/full/x"), mode("html/full/x/y/z")), (0o775, 0o664));
    let names = tree(&bench.dir.path().join("temp"));
    assert!(names.iter().all(|name| name.ends_with('/')), "{names:?}");
}

#[test]
fn what_is_deleted_made_copied_and_moved() {
    let bench = Bench::with_files(
        CONFIG,
        &[("html/a", "a"), ("html/d/x", "x"), ("html/min3/x", "x"), ("html/min3/y/z", "z")],
    );
    let check = |line: &str, fields: &[&str], status: u16| {
        assert_eq!(send(&bench, line, fields, "").status, status, "{line} {fields:?}");
    };
    check("DELETE /d", &[], 409);
    check("DELETE /a/", &[], 409);
    check("DELETE /d/", &["Depth: 0"], 400);
    check("DELETE /a", &["Depth: 1"], 400);
    check("DELETE /a", &["Depth: 2"], 400);
    check("DELETE /none", &[], 404);
    check("DELETE /min3/x", &[], 409);
    check("DELETE /min3/y/z", &[], 204);
    check("DELETE /put/x", &[], 405);
    check("MKCOL /m", &[], 409);
    check("MKCOL /m/", &[], 201);
    check("MKCOL /m/", &[], 405);
    check("MKCOL /no/such/", &[], 409);
    check("COPY /a", &[], 400);
    check("COPY /a", &["Destination: /b"], 204);
    check("COPY /a", &["Destination: /b", "Overwrite: F"], 412);
    check("COPY /a", &["Destination: /b", "Overwrite: X"], 400);
    check("COPY /a", &["Destination: /b", "Depth: 1"], 400);
    check("COPY /a", &["Destination: /b/"], 409);
    check("COPY /a", &["Destination: /d"], 409);
    check("COPY /a", &["Destination: /no/such"], 409);
    check("COPY /a", &["Destination: http://other/b"], 400);
    check("COPY /a", &["Destination: /a"], 204);
    check("COPY /d/", &["Destination: /e/"], 201);
    check("COPY /d", &["Destination: /e"], 400);
    check("COPY /none", &["Destination: /e2"], 404);
    check("MOVE /b", &["Destination: /c", "Depth: 0"], 400);
    check("MOVE /b", &["Destination: http://localhost:9/c"], 204);
    check("MOVE /e/", &["Destination: /d/"], 201);
    check("COPY /i/a", &["Destination: /i/z"], 204);
    check("COPY /i/a", &["Destination: /z"], 400);
    check("COPY /i/a", &["Destination: /"], 400);
    let there = tree(&bench.dir.path().join("html"));
    assert_eq!(there, ["a=a", "c=a", "d/", "d/x=x", "m/", "min3/", "min3/x=x", "min3/y/", "z=a"]);
    assert_eq!(send(&bench, "MKCOL /n/", &[], "body").status, 415);
    assert_eq!(send(&bench, "DELETE /a", &[], "body").status, 415);
}

#[test]
fn paths_with_links_are_refused_where_links_are() {
    let bench = Bench::with_files(CONFIG, &[("html/strict/a", "a"), ("elsewhere/b", "b")]);
    symlink("../../elsewhere", bench.dir.path().join("html/strict/out")).unwrap();
    symlink("a", bench.dir.path().join("html/strict/link")).unwrap();
    let check = |line: &str, destination: &str, status: u16| {
        let field = format!("Destination: {destination}");
        assert_eq!(send(&bench, line, &[&field], "").status, status, "{line} {destination}");
    };
    check("DELETE /strict/out/b", "/", 403);
    check("DELETE /strict/link", "/", 403);
    check("PUT /strict/out/c", "/", 403);
    check("MKCOL /strict/out/m/", "/", 403);
    check("COPY /strict/out/b", "/strict/b", 403);
    check("COPY /strict/a", "/strict/out/b", 403);
    check("MOVE /strict/link", "/strict/l", 403);
    check("COPY /strict/a", "/strict/c", 204);
    check("PUT /strict/new", "/", 201);
    assert_eq!(tree(&bench.dir.path().join("elsewhere")), ["b=b"]);
}

#[test]
fn rights_as_they_are_written() {
    let check = |rights: &str, mode: u32| {
        let config = format!("root {{dir}}; server {{ dav_methods PUT; dav_access {rights}; }}");
        let bench = Bench::new(&config);
        assert_eq!(send(&bench, "PUT /a", &[], "x").status, 201, "{rights}");
        let made = fs::metadata(bench.dir.path().join("a")).unwrap().permissions().mode();
        assert_eq!(made & 0o777, mode, "{rights}");
    };
    check("user:rw", 0o600);
    check("user:r", 0o400);
    check("group:r", 0o640);
    check("group:rw all:r", 0o664);
    check("user:rw group:rw all:rw", 0o666);
    for rights in ["user:w", "other:r", "user", "user:rw:x"] {
        let errors = Bench::errors(&format!("server {{ dav_access {rights}; }}"));
        assert_eq!(errors, [format!("invalid value \"{rights}\"")]);
    }
    assert_eq!(Bench::errors("server { dav_methods GET; }"), ["invalid value \"GET\""]);
}
