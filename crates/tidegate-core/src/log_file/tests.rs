//! Lines of an event-loop iteration are gathered, and each path has one file.

use std::time::Duration;

use tidegate_rt::timer::sleep;
use tidegate_rt::{Worker, spawn_local};

use super::*;

fn log() -> (tempfile::TempDir, Arc<LogFile>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let file = open_append(&path).unwrap();
    (directory, Arc::new(LogFile::new(path, file)))
}

fn text(log: &LogFile) -> String {
    std::fs::read_to_string(log.path()).unwrap()
}

#[test]
fn lines_of_an_iteration_are_written_at_its_end() {
    let ((_one, first), (_other, second)) = (log(), log());
    let logs = (first.clone(), second.clone());
    let worker = Worker::run("log", None, move |_| async move {
        let (first, second) = logs;
        let written = (first.clone(), second.clone());
        let task = spawn_local(async move {
            written.0.write_at_iteration_end(b"a\n");
            written.1.write_at_iteration_end(b"b\n");
            written.0.write_at_iteration_end(b"c\n");
            assert_eq!(text(&written.0) + &text(&written.1), "");
            // A task that waits for nothing continues in the same iteration.
            tidegate_rt::yield_now().await;
            assert_eq!(text(&written.0), "");
            // A thread without an event loop writes at once.
            let elsewhere = written.0.clone();
            std::thread::spawn(move || elsewhere.write_at_iteration_end(b"d\n")).join().unwrap();
            assert_eq!(text(&written.0), "d\n");
        });
        task.await.unwrap();
        // A timer elapses between iterations only.
        sleep(Duration::from_millis(1)).await;
        assert_eq!((text(&first), text(&second)), ("d\na\nc\n".to_owned(), "b\n".to_owned()));
        first.write_at_iteration_end(b"last\n");
    });
    worker.unwrap().join().unwrap();
    assert_eq!(text(&first), "d\na\nc\nlast\n");
}

#[test]
fn each_path_has_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let logs = LogFiles::default();
    let open = |name: usize| logs.open(&directory.path().join(name.to_string()), open_append);
    let kept = open(0).unwrap();
    for name in 1..3 * KNOWN_MIN {
        drop(open(name).unwrap());
    }
    assert!(Arc::ptr_eq(&kept, &open(0).unwrap()));
    assert_eq!((logs.in_use().len(), logs.by_path().contains_key(kept.path())), (1, true));
    // Entries of closed files are removed; the files are opened again.
    assert!(logs.files.lock().unwrap().by_path.len() <= KNOWN_MIN);
    let again = open(1).unwrap();
    assert_eq!(logs.in_use().len(), 2);
    drop(again);
}

#[test]
fn gathered_lines_are_few() {
    let (_directory, log) = log();
    let written = log.clone();
    let worker = Worker::run("log", None, move |_| async move {
        let mut before = 0;
        for _ in 0..100 {
            written.write_at_iteration_end(&[b'x'; 1000]);
            let now = text(&written).len();
            assert!(now - before <= PENDING_BYTES_MAX);
            before = now;
        }
        assert_eq!(before, 96_000);
        write_pending_lines();
        assert_eq!(text(&written).len(), 100_000);
        written.write_at_iteration_end(&[b'y'; 10_000]);
        written.write_at_iteration_end(b"z");
        assert_eq!(text(&written).len(), 110_000);
    });
    worker.unwrap().join().unwrap();
    assert!(text(&log).ends_with("yz"));
}

/// A file with secrets is its owner's alone, also the one that follows it after a rotation.
#[cfg(unix)]
#[test]
fn private_files_stay_private() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let logs = LogFiles::default();
    let mode = |name: &str| {
        let metadata = std::fs::metadata(directory.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    logs.make_private(&directory.path().join("keys"));
    let open = |name: &str| logs.open(&directory.path().join(name), |path| logs.append(path));
    let (_keys, _access) = (open("keys").unwrap(), open("access").unwrap());
    for name in ["keys", "access"] {
        let path = directory.path().join(name);
        std::fs::rename(&path, directory.path().join(format!("{name}.old"))).unwrap();
    }
    assert!(logs.reopen().is_empty());
    assert_eq!(["keys.old", "keys"].map(mode), [0o600; 2]);
    assert_eq!(["access.old", "access"].map(mode), [0o644; 2]);
}

#[cfg(unix)]
#[test]
fn a_log_that_cannot_be_opened_again_goes_on() {
    use std::io::{BufRead, BufReader};

    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("log"), directory.path().join("moved"));
    let logs = LogFiles::default();
    let log = logs.open(&path, open_append).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let failure = |number: i32| {
        let failed = logs.reopen();
        log.write(b"line\n");
        assert_eq!(failed.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&path]);
        assert_eq!(failed[0].1.raw_os_error(), Some(number), "{:?}", failed[0].1);
    };
    std::fs::create_dir(&path).unwrap();
    failure(21);
    std::fs::remove_dir(&path).unwrap();
    // It has no reader.
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    failure(6);
    assert_eq!(std::fs::read_to_string(&moved).unwrap(), "line\nline\n");
    let reader = File::options().read(true).write(true).open(&path).unwrap();
    assert!(logs.reopen().is_empty());
    // More than a pipe has room for: the writer waits.
    let writer = std::thread::spawn(move || (0..20_000).for_each(|_| log.write(b"of a pipe\n")));
    let lines = BufReader::new(reader).lines().map(Result::unwrap).take(20_000);
    assert!(lines.into_iter().all(|line| line == "of a pipe"));
    writer.join().unwrap();
}
