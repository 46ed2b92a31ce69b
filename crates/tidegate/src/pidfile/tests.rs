//! Tests of the pid file.

use super::*;

#[test]
fn a_new_binary_has_the_name_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = (directory.path().join("n.pid"), directory.path().join("n.pid.oldbin"));
    let mut file = PidFile::create(&path).unwrap();
    assert_eq!(read(&path).unwrap(), std::process::id());
    file.set_aside().unwrap();
    assert!(!path.exists() && old.exists());
    // The configuration may name another file meanwhile: the old one stays under its name.
    file.move_to(&directory.path().join("other.pid")).unwrap();
    assert!(old.exists());
    file.restore();
    assert!(path.exists() && !old.exists());
    let other = directory.path().join("other.pid");
    file.move_to(&other).unwrap();
    assert!(!path.exists() && other.exists());
    file.set_aside().unwrap();
    file.remove();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn nonsense_is_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("n.pid");
    for text in ["", "x", "0", "-1", "1 2"] {
        std::fs::write(&path, text).unwrap();
        let message = format!("invalid PID number \"{text}\" in \"{}\"", path.display());
        assert_eq!(read(&path).unwrap_err().to_string(), message);
    }
    std::fs::remove_file(&path).unwrap();
    check(&path).unwrap();
    assert!(!path.exists(), "a check leaves no file");
    std::fs::write(&path, "12\n").unwrap();
    check(&path).unwrap();
    assert_eq!(read(&path).unwrap(), 12);
    let absent = directory.path().join("absent/n.pid");
    let message = format!("open() \"{}\" failed (2: No such file or directory)", absent.display());
    for failed in [read(&absent).map(drop), check(&absent), PidFile::create(&absent).map(drop)] {
        assert_eq!(failed.unwrap_err().to_string(), message);
    }
}
