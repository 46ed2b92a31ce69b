//! Copies of bodies; which responses are copied is tested by the end-to-end cases.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate_core::body::{BodyError, BodyStream};
use tidegate_core::error_log::ErrorLog;
use tidegate_core::generated::generate;
use tidegate_core::{Body, Chunk};
use tidegate_rt::sync::mpsc;
use tidegate_upstream::LogContext;

use super::super::settings::SpoolSettings;
use super::StoreCopy;
use crate::testing::Bench;
use tidegate_conf::file_mode::of_directory;

fn spool(path: PathBuf) -> Arc<SpoolSettings> {
    let (memory_bytes_max, file_bytes_max) = (0, 0);
    Arc::new(SpoolSettings { memory_bytes_max, file_bytes_max, path, levels: Vec::new() })
}

fn copy(directory: &Path, name: &str) -> StoreCopy {
    StoreCopy {
        target: directory.join(name),
        mode: 0o640,
        modified: Some(1_000_000_000),
        length: None,
        spool: spool(directory.join("temporary")),
        log: LogContext::detached(ErrorLog::default()),
    }
}

/// Returns a body of pieces from a channel; an empty piece breaks it off.
fn body() -> (mpsc::Sender<&'static str>, Body) {
    let (to, mut from) = mpsc::channel::<&'static str>(8);
    let body = generate(|out| async move {
        while let Some(piece) = from.recv().await {
            if piece.is_empty() {
                return Err(BodyError::Incomplete);
            }
            out.put(Chunk::Bytes(Bytes::from_static(piece.as_bytes()))).await;
        }
        Ok(())
    });
    (to, body)
}

async fn text(body: &mut Body) -> Result<String, BodyError> {
    let mut text = String::new();
    while let Some(chunk) = body.next().await {
        if let Chunk::Bytes(bytes) = chunk? {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
    Ok(text)
}

fn leftovers(directory: &Path) -> usize {
    fs::read_dir(directory.join("temporary")).map_or(0, Iterator::count)
}

#[test]
fn a_complete_body_becomes_a_file_with_its_time_and_mode() {
    let directory = tempfile::tempdir().unwrap();
    tidegate_rt::block_on(async {
        let (to, source) = body();
        let mut copied: Body = Body::Stream(Box::new(copy(directory.path(), "a/b").of(source)));
        to.send("one ").await.unwrap();
        to.send("two").await.unwrap();
        drop(to);
        assert_eq!(text(&mut copied).await.unwrap(), "one two");
    })
    .unwrap();
    // The end of the body arrives once the file is in place.
    let file = directory.path().join("a/b");
    assert_eq!(fs::read_to_string(&file).unwrap(), "one two");
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    assert_eq!(metadata.modified().unwrap(), time);
    assert_eq!(leftovers(directory.path()), 0);
}

#[test]
fn the_last_piece_of_a_known_length_is_given_when_the_file_is_there() {
    let directory = tempfile::tempdir().unwrap();
    tidegate_rt::block_on(async {
        let (to, source) = body();
        let mut copy = copy(directory.path(), "a");
        copy.length = Some(7);
        let mut copied: Body = Body::Stream(Box::new(copy.of(source)));
        to.send("one ").await.unwrap();
        to.send("two").await.unwrap();
        drop(to);
        assert!(matches!(copied.next().await, Some(Ok(Chunk::Bytes(bytes))) if bytes == "one "));
        assert!(!directory.path().join("a").exists());
        assert!(matches!(copied.next().await, Some(Ok(Chunk::Bytes(bytes))) if bytes == "two"));
        assert!(directory.path().join("a").exists());
        assert!(copied.next().await.is_none());
    })
    .unwrap();
}

#[test]
fn an_empty_body_becomes_an_empty_file() {
    let directory = tempfile::tempdir().unwrap();
    tidegate_rt::block_on(async {
        let mut copied = copy(directory.path(), "empty").of(Body::Empty);
        let end = std::future::poll_fn(|context| copied.poll_chunk(context)).await;
        assert!(end.is_none());
    })
    .unwrap();
    assert_eq!(fs::read(directory.path().join("empty")).unwrap(), b"");
}

#[test]
fn a_body_that_breaks_off_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    tidegate_rt::block_on(async {
        let (to, source) = body();
        let mut copied: Body = Body::Stream(Box::new(copy(directory.path(), "a").of(source)));
        to.send("one").await.unwrap();
        to.send("").await.unwrap();
        assert!(text(&mut copied).await.is_err());
    })
    .unwrap();
    assert!(!directory.path().join("a").exists());
    assert_eq!(leftovers(directory.path()), 0);
}

#[test]
fn the_rest_is_read_when_the_client_leaves() {
    let directory = tempfile::tempdir().unwrap();
    tidegate_rt::block_on(async {
        let (to, source) = body();
        let mut copied: Body = Body::Stream(Box::new(copy(directory.path(), "a").of(source)));
        to.send("one ").await.unwrap();
        assert!(copied.next().await.is_some());
        drop(copied);
        to.send("two").await.unwrap();
        drop(to);
        let target = directory.path().join("a");
        while !target.exists() {
            tidegate_rt::worker::yield_now().await;
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "one two");
    })
    .unwrap();
}

#[test]
fn a_disk_that_fails_takes_nothing_from_the_client() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("temporary"), "in the way").unwrap();
    fs::write(directory.path().join("file"), "in the way").unwrap();
    for (name, temporary) in [("a", "temporary"), ("file/a", "elsewhere")] {
        tidegate_rt::block_on(async {
            let (to, source) = body();
            let mut copy = copy(directory.path(), name);
            copy.spool = spool(directory.path().join(temporary));
            let mut copied: Body = Body::Stream(Box::new(copy.of(source)));
            to.send("one ").await.unwrap();
            to.send("two").await.unwrap();
            drop(to);
            assert_eq!(text(&mut copied).await.unwrap(), "one two", "{name}");
        })
        .unwrap();
        assert!(!directory.path().join(name).exists(), "{name}");
    }
    assert_eq!(fs::read_dir(directory.path().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn directories_may_be_entered_by_those_who_may_read() {
    for (file, directory) in [(0o600, 0o700), (0o664, 0o775), (0o660, 0o770), (0o604, 0o705)] {
        assert_eq!(of_directory(file), directory, "{file:o}");
    }
}

#[test]
fn permissions_and_conflicts() {
    for wrong in ["user", "user:", "user:x", "other:r", ":r"] {
        let errors = Bench::errors(&format!("proxy_store_access {wrong}; server {{ }}"));
        assert_eq!(errors, [format!("invalid value \"{wrong}\"")]);
    }
    let cache = "proxy_cache_path {dir}/c keys_zone=z:1m; server { location / {
        proxy_pass http://127.0.0.1:1; proxy_cache z; proxy_store on; } }";
    assert_eq!(
        Bench::errors(cache),
        ["\"proxy_store\" directive is incompatible with \"proxy_cache\""]
    );
    // The innermost wins, whichever it is.
    Bench::new(
        "proxy_cache_path {dir}/c keys_zone=z:1m; proxy_cache z; server { proxy_store on;
            location /a { proxy_pass http://127.0.0.1:1; }
            location /b { proxy_pass http://127.0.0.1:1; proxy_cache z; } }",
    );
}
