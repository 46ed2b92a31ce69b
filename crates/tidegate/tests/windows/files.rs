//! Files and directories that change under a running server, which caches what it has found: no response is older than
//! the last change.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use super::server::Server;

const CONFIGURATION: &str = "
worker_processes 1;
error_log logs/error.log crit;
events { }
http {
    access_log off;
    server { listen 127.0.0.1:{port}; root html; }
}
";

/// An object that has changed within this time is not cached: a further change might not show in its times.
pub(crate) const SETTLED: Duration = Duration::from_millis(3500);
/// For changes that are reported with a delay.
const LIMIT: Duration = Duration::from_secs(60);

/// A change, a target, and its response after the change.
type Change = (&'static str, fn(&Path), &'static str, u16, &'static str);

const CHANGES: [Change; 10] = [
    ("written in place", |html| write(html, "a/place.txt", "two"), "/a/place.txt", 200, "two"),
    (
        "longer",
        |html| write(html, "a/longer.txt", "one and more"),
        "/a/longer.txt",
        200,
        "one and more",
    ),
    ("replaced, times kept", replace, "/b/replaced.txt", 200, "two"),
    (
        "deleted",
        |html| fs::remove_file(html.join("c/deleted.txt")).unwrap(),
        "/c/deleted.txt",
        404,
        "",
    ),
    ("made", |html| write(html, "d/made.txt", "new"), "/d/made.txt", 200, "new"),
    ("made below a missing directory", make_below, "/e/f/made.txt", 200, "new"),
    ("directory exchanged, times kept", exchange, "/g/deep/file.txt", 200, "two"),
    (
        "directory removed",
        |html| fs::remove_dir_all(html.join("h")).unwrap(),
        "/h/file.txt",
        404,
        "",
    ),
    ("directory instead of a file", file_to_directory, "/i/thing", 301, ""),
    (
        "directory gone",
        |html| fs::remove_dir(html.join("j/directory")).unwrap(),
        "/j/directory",
        404,
        "",
    ),
];

fn prepare(directory: &Path) {
    let html = directory.join("html");
    for name in [
        "a/place.txt",
        "a/longer.txt",
        "b/replaced.txt",
        "c/deleted.txt",
        "g/deep/file.txt",
        "h/file.txt",
        "i/thing",
        "spelled/by/case.txt",
    ] {
        fs::create_dir_all(html.join(name).parent().unwrap()).unwrap();
        write(&html, name, "one");
    }
    for name in ["d", "e", "j/directory"] {
        fs::create_dir_all(html.join(name)).unwrap();
    }
}

fn write(html: &Path, name: &str, text: &str) {
    fs::write(html.join(name), text).unwrap();
}

/// Makes another file of the same size and time of modification.
fn twin(of: &Path, at: &Path) {
    fs::write(at, "two").unwrap();
    let modified = fs::metadata(of).unwrap().modified().unwrap();
    File::options().write(true).open(at).unwrap().set_modified(modified).unwrap();
}

fn replace(html: &Path) {
    let new = html.join("b/new.txt");
    twin(&html.join("b/replaced.txt"), &new);
    fs::rename(new, html.join("b/replaced.txt")).unwrap();
}

fn make_below(html: &Path) {
    fs::create_dir(html.join("e/f")).unwrap();
    write(html, "e/f/made.txt", "new");
}

fn exchange(html: &Path) {
    fs::create_dir_all(html.join("g2/deep")).unwrap();
    twin(&html.join("g/deep/file.txt"), &html.join("g2/deep/file.txt"));
    fs::rename(html.join("g"), html.join("g1")).unwrap();
    fs::rename(html.join("g2"), html.join("g")).unwrap();
}

fn file_to_directory(html: &Path) {
    fs::remove_file(html.join("i/thing")).unwrap();
    fs::create_dir(html.join("i/thing")).unwrap();
}

fn ask(server: &Server, target: &str) -> (u16, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (status, response) = server.request(request.as_bytes());
    let response = String::from_utf8_lossy(&response);
    (status, response.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
}

#[test]
fn no_response_is_older_than_the_last_change() {
    let server = Server::start(CONFIGURATION, prepare);
    let html = server.directory.path().join("html");
    // Each is requested until it is cached.
    let begun = Instant::now();
    while begun.elapsed() < SETTLED {
        for (_, _, target, status, _) in CHANGES {
            assert_ne!((ask(&server, target).0, target), (status, "/d/made.txt"));
        }
        assert_eq!(ask(&server, "/spelled/by/case.txt"), (200, "one".to_owned()));
    }
    let mut wrong = Vec::new();
    for (name, change, target, status, body) in CHANGES {
        change(&html);
        let response = ask(&server, target);
        if response.0 != status || (status == 200 && response.1 != body) {
            wrong.push(format!("{name}: {response:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    server.quit();
}

/// The spelling of a directory changes no file below it: only the watch reports it, with a delay.
#[test]
fn a_directory_that_is_spelled_otherwise_is_noticed() {
    let server = Server::start(CONFIGURATION, prepare);
    let html = server.directory.path().join("html");
    let begun = Instant::now();
    while begun.elapsed() < SETTLED {
        assert_eq!(ask(&server, "/spelled/by/case.txt"), (200, "one".to_owned()));
    }
    // In two steps: Wine 8 does nothing where only the case differs.
    fs::rename(html.join("spelled"), html.join("other")).unwrap();
    fs::rename(html.join("other"), html.join("Spelled")).unwrap();
    let renamed = Instant::now();
    let mut responses = 1;
    while ask(&server, "/spelled/by/case.txt").0 != 404 {
        responses += 1;
        assert!(renamed.elapsed() < LIMIT, "the old spelling is served");
    }
    println!(
        "a directory's other spelling was noticed by request {responses}, after {:?}",
        renamed.elapsed()
    );
    assert_eq!(ask(&server, "/Spelled/by/case.txt"), (200, "one".to_owned()));
    server.quit();
}
