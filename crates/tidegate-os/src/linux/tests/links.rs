//! Paths in which links are restricted, with openat2 and without.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::{file, open};
use crate::types::FileKind;

/// Opens a path in all ways, which must agree; returns its text, `/`, or the error's number.
#[track_caller]
fn open_in_all_ways(path: &Path, from: usize, same_owner: bool) -> Result<String, i32> {
    let results = [true, false].map(|by_kernel| {
        let open = |describe| {
            let opened = open::open_checking_links_by(path, from, same_owner, describe, by_kernel);
            opened.map_err(|error| error.raw_os_error().unwrap_or(0))
        };
        let (described, opened) = (open(true), open(false));
        let stats = [&described, &opened].map(|opened| opened.as_ref().map(file::fstat));
        let stats = stats.map(|stat| stat.map(|stat| stat.unwrap()).map_err(|errno| *errno));
        assert_eq!(stats[0], stats[1], "{path:?}");
        let text = |opened: File| match file::fstat(&opened).unwrap().kind {
            FileKind::Directory => "/".to_owned(),
            _ => io::read_to_string(opened).unwrap(),
        };
        opened.map(text)
    });
    assert_eq!(results[0], results[1], "{path:?}: with openat2, without");
    let [result, _] = results;
    result
}

struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Site {
        let site = Site(tempfile::tempdir().unwrap());
        fs::create_dir_all(site.at("sub/deep")).unwrap();
        fs::write(site.at("sub/file"), "text").unwrap();
        fs::write(site.at("sub/deep/file"), "deep").unwrap();
        for (target, link) in [
            ("sub", "link"),
            ("file", "sub/last"),
            ("../link/deep", "sub/twice"),
            ("nowhere", "dangling"),
            ("loop", "loop"),
        ] {
            symlink(target, site.at(link)).unwrap();
        }
        symlink(site.at("sub/deep/file"), site.at("absolute")).unwrap();
        site
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }
}

#[test]
fn links_are_checked_as_configured() {
    let site = Site::new();
    let all = site.at("").as_os_str().len();
    #[track_caller]
    fn check(
        site: &Site,
        name: &str,
        from: usize,
        on: Result<&str, i32>,
        owner: Result<&str, i32>,
    ) {
        for (same_owner, expected) in [(false, on), (true, owner)] {
            let got = open_in_all_ways(&site.at(name), from, same_owner);
            assert_eq!(got.as_deref().map_err(|errno| *errno), expected, "{name} {same_owner}");
        }
    }
    let refused = Err(libc::ELOOP);
    check(&site, "sub/file", 0, Ok("text"), Ok("text"));
    check(&site, "sub/deep/../file", 0, Ok("text"), Ok("text"));
    check(&site, "sub//./deep/file", 0, Ok("deep"), Ok("deep"));
    check(&site, "sub", 0, Ok("/"), Ok("/"));
    check(&site, "sub/", 0, Ok("/"), Ok("/"));
    check(&site, "sub/.", 0, Ok("/"), Ok("/"));
    check(&site, "", 0, Ok("/"), Ok("/"));
    check(&site, "link", 0, refused, Ok("/"));
    check(&site, "link/", 0, refused, Ok("/"));
    check(&site, "link/..", 0, refused, Ok("/"));
    check(&site, "link/file", 0, refused, Ok("text"));
    check(&site, "link/deep/file", 0, refused, Ok("deep"));
    check(&site, "link/deep/../file", 0, refused, Ok("text"));
    check(&site, "sub/last", 0, refused, Ok("text"));
    check(&site, "link/last", 0, refused, Ok("text"));
    check(&site, "sub/twice/file", 0, refused, Ok("deep"));
    check(&site, "link/twice/file", 0, refused, Ok("deep"));
    check(&site, "absolute", 0, refused, Ok("deep"));
    check(&site, "dangling", 0, refused, Err(libc::ENOENT));
    check(&site, "loop", 0, refused, refused);
    check(&site, "sub/last/", 0, refused, Err(libc::ENOTDIR));
    for name in ["sub/none", "none/sub"] {
        check(&site, name, 0, Err(libc::ENOENT), Err(libc::ENOENT));
    }
    for name in ["sub/file/", "sub/file/more", "sub/file/."] {
        check(&site, name, 0, Err(libc::ENOTDIR), Err(libc::ENOTDIR));
    }
    check(&site, "link/file/more", 0, refused, Err(libc::ENOTDIR));
    // The part that `from=` names is not checked.
    check(&site, "link/file", all + 4, Ok("text"), Ok("text"));
    check(&site, "link/last", all + 4, refused, Ok("text"));
    check(&site, "link", all + 4, Ok("/"), Ok("/"));
    check(&site, "link/", all + 400, Ok("/"), Ok("/"));
    check(&site, "none/file", all + 4, Err(libc::ENOENT), Err(libc::ENOENT));
}

#[test]
fn deep_paths_hold_several_links() {
    let site = Site::new();
    let mut path = PathBuf::from("d");
    for depth in 0..40 {
        fs::create_dir(site.at(&path.to_string_lossy())).unwrap();
        if depth % 13 == 5 {
            let link = path.with_file_name("l");
            symlink(path.file_name().unwrap(), site.at(&link.to_string_lossy())).unwrap();
            path = link;
        }
        path.push("d");
    }
    fs::write(site.at(&path.to_string_lossy()), "deep").unwrap();
    let path = site.at(&path.to_string_lossy());
    assert_eq!(open_in_all_ways(&path, 0, true).as_deref(), Ok("deep"));
    assert_eq!(open_in_all_ways(&path, 0, false), Err(libc::ELOOP));
    let missing = path.with_file_name("none");
    assert_eq!(open_in_all_ways(&missing, 0, true), Err(libc::ENOENT));
}

/// Whether this process may give files to other users; else there is nothing to test with.
fn may_chown() -> bool {
    let may = rustix::process::geteuid().is_root();
    if !may {
        eprintln!("skipped: not root");
    }
    may
}

#[test]
fn owners_are_compared() {
    if !may_chown() {
        return;
    }
    let site = Site::new();
    let check = |expected: Result<&str, i32>| {
        for name in ["link/file", "link", "link/deep/file"] {
            let got = open_in_all_ways(&site.at(name), 0, true);
            let is_same = got.is_ok() == expected.is_ok() && got.err() == expected.err();
            assert!(is_same, "{name}: {expected:?}");
        }
    };
    check(Ok(""));
    lchown(site.at("link"), Some(OTHER_USER), None).unwrap();
    check(Err(libc::ELOOP));
    chown(site.at("sub"), Some(OTHER_USER), None).unwrap();
    check(Ok(""));
    lchown(site.at("link"), Some(OTHER_USER + 1), None).unwrap();
    check(Err(libc::ELOOP));
    lchown(site.at("sub/last"), Some(OTHER_USER), None).unwrap();
    assert_eq!(open_in_all_ways(&site.at("sub/last"), 0, true), Err(libc::ELOOP));
    chown(site.at("sub/file"), Some(OTHER_USER), None).unwrap();
    assert_eq!(open_in_all_ways(&site.at("sub/last"), 0, true).as_deref(), Ok("text"));
}

/// Another thread exchanges a directory for a link at full speed: an opened file is never behind the link.
#[test]
fn the_checked_object_is_the_open_one() {
    let site = Site::new();
    fs::create_dir_all(site.at("secret/deep")).unwrap();
    fs::write(site.at("secret/deep/file"), "secret").unwrap();
    symlink("secret", site.at("trap")).unwrap();
    let same_owner = may_chown();
    if same_owner {
        lchown(site.at("trap"), Some(OTHER_USER), None).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                exchange(&site.at("sub"), &site.at("trap"));
            }
        });
        let _stop = StopAtEnd(&stop);
        let mut seen = [0; 2];
        for round in 0..ROUNDS_MAX {
            for by_kernel in [true, false] {
                let owner = same_owner && round % 2 == 0;
                let path = site.at("sub/deep/file");
                let opened = open::open_checking_links_by(&path, 0, owner, false, by_kernel);
                match opened.map(|file| io::read_to_string(file).unwrap()) {
                    Ok(text) => assert_eq!(text, "deep", "{owner} {by_kernel}"),
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{owner} {by_kernel}");
                        seen[1] += 1;
                        continue;
                    }
                }
                seen[0] += 1;
            }
            if round > ROUNDS_MIN && seen.iter().all(|seen| *seen > 100) {
                break;
            }
        }
        assert!(seen.iter().all(|seen| *seen > 0), "both were met: {seen:?}");
    });
}

/// Ends the other thread even when an assertion fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn exchange(one: &Path, other: &Path) {
    let (cwd, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
    rustix::fs::renameat_with(cwd, one, cwd, other, flags).unwrap();
}

const OTHER_USER: u32 = 4711;
const ROUNDS_MIN: usize = 2000;
const ROUNDS_MAX: usize = 200_000;
