//! The files that the master reads, and passes on.

use super::*;

#[test]
fn a_file_is_read_once() {
    let directory = std::env::temp_dir().join(format!("tidegate-resources-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("key.pem");
    std::fs::write(&file, "before").expect("a file");
    let logs = LogFiles::default();
    let kept = KeptFiles::default();
    let opened = MasterResources::new(&logs, &kept, 1);
    assert_eq!(opened.read(&file).expect("its content"), b"before");
    std::fs::write(&file, "after").expect("a change");
    assert_eq!(opened.read(&file).expect("what is known"), b"before");
    assert!(opened.read(&directory.join("absent.pem")).is_err());
    let (_, findings, _) = opened.into_parts();
    assert_eq!(findings.contents, [(file, b"before".to_vec())]);
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn findings_are_not_queried_again() {
    let logs = LogFiles::default();
    let kept = KeptFiles::default();
    let opened = MasterResources::new(&logs, &kept, 1);
    assert!(!opened.addresses("localhost").expect("a name that every system has").is_empty());
    assert!(opened.addresses("no such name").is_err());
    let (_, mut found, _) = opened.into_parts();
    assert_eq!(found.machine, Machine::look());
    // Meanwhile the system would give other results: another user, another name, other addresses.
    let machine = Machine {
        privileged: !found.machine.privileged,
        host_name: "before".to_owned(),
        ipv6: !found.machine.ipv6,
    };
    let address = IpAddr::from([192, 0, 2, 1]);
    found.machine = machine.clone();
    found.names.sort();
    assert_eq!(found.names[1], ("no such name".to_owned(), Vec::new()));
    found.names[0].1 = vec![address];
    let received = WorkerResources::new(&logs, found, Vec::new());
    assert_eq!(received.machine(), machine);
    assert_eq!(received.addresses("localhost").expect("what the master found"), [address]);
    assert!(received.addresses("no such name").is_err());
}

#[test]
fn a_log_that_cannot_be_opened_is_reported_once() {
    let logs = LogFiles::default();
    let kept = KeptFiles::default();
    let opened = MasterResources::new(&logs, &kept, 1);
    let (absent, other) =
        (Path::new("/no/such/directory/a.log"), Path::new("/no/such/directory/b.log"));
    let reported: Vec<bool> =
        [absent, absent, other, absent].iter().map(|path| opened.log_file(path).is_err()).collect();
    assert_eq!(reported, [true, false, true, false]);
}

#[test]
fn a_file_is_read_again_only_if_it_has_changed() {
    let directory = std::env::temp_dir().join(format!("tidegate-kept-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let (file, new) = (directory.join("key.pem"), directory.join("new.pem"));
    let time = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_millis(seconds);
    let write = |path: &Path, text: &str, millis| {
        std::fs::write(path, text).expect("written");
        File::options()
            .write(true)
            .open(path)
            .expect("opened")
            .set_modified(time(millis))
            .expect("set");
    };
    let kept = KeptFiles::default();
    let logs = LogFiles::default();
    let read = |generation| {
        kept.begin(generation);
        let resources = MasterResources::new(&logs, &kept, generation);
        let content = resources.read_unless_unchanged(&file).expect("its content");
        String::from_utf8(content).expect("a text")
    };
    write(&file, "one", 1500);
    assert_eq!(read(1), "one");
    write(&file, "two", 1500);
    assert_eq!(read(2), "one", "the same time");
    write(&file, "three", 1000);
    assert_eq!(read(3), "one", "the same second, without a fraction");
    write(&file, "four", 1600);
    assert_eq!(read(4), "four", "another fraction");
    write(&file, "five", 2600);
    assert_eq!(read(5), "five");
    write(&new, "six", 2600);
    std::fs::rename(&new, &file).expect("renamed");
    assert_eq!(read(6), "six", "another file");
    write(&file, "seven", 2600);
    assert_eq!(read(8), "seven", "no generation before has used it");
    let _ = std::fs::remove_dir_all(directory);
}

#[cfg(unix)]
#[test]
fn a_reload_does_not_wait_for_the_reader_of_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe.log");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (logs, kept) = (LogFiles::default(), KeptFiles::default());
    let open = |generation| MasterResources::new(&logs, &kept, generation).log_file(&path);
    assert_eq!(open(2).unwrap_err().raw_os_error(), Some(6));
    // At the start the server and the reader may come in any order.
    let reader = std::thread::spawn({
        let path = path.clone();
        move || File::open(path).unwrap()
    });
    drop(open(1).unwrap());
    drop(reader.join().unwrap());
}
