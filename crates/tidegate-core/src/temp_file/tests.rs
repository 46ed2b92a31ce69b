//! Names of temporary files and their levels of directories.

use std::io::{Read, Seek, Write};

use super::*;

#[test]
fn names_are_spread_by_their_last_digits() {
    for (levels, expected) in [
        (&[][..], "/t/0123456789"),
        (&[1], "/t/9/0123456789"),
        (&[1, 2], "/t/9/78/0123456789"),
        (&[2, 1, 3], "/t/89/7/456/0123456789"),
        (&[3, 3, 3], "/t/789/456/123/0123456789"),
        (&[3, 3, 3, 3], "/t/789/456/123/0/0123456789"),
    ] {
        assert_eq!(
            place(Path::new("/t"), "0123456789", levels),
            PathBuf::from(expected),
            "{levels:?}"
        );
    }
}

#[test]
fn files_are_new_and_their_directories_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, path) = create(&dir.path().join("a/b"), &[1, 2]).unwrap();
    let (_, other) = create(&dir.path().join("a/b"), &[1, 2]).unwrap();
    assert!(path != other && path.starts_with(dir.path().join("a/b")) && path.exists());
    first.write_all(b"text").unwrap();
    first.rewind().unwrap();
    let mut text = String::new();
    first.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(create(&dir.path().join("file"), &[]).is_err());
}

#[test]
fn names_that_were_left_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (_, path) = create(dir.path(), &[]).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let number: u64 = name.parse().unwrap();
    for left in number + 1..number + 1 + 3 * ATTEMPTS_MAX as u64 {
        std::fs::write(dir.path().join(format!("{left:010}")), "").unwrap();
    }
    create(dir.path(), &[]).unwrap();
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_them() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (_, path) = create(&dir.path().join("a"), &[1]).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}
