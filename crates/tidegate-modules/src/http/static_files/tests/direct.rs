//! Files read past the page cache: which bytes arrive, whatever the alignment.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tidegate_core::file_read::{read, warm};
use tidegate_core::{Body, Chunk, FileRange, Resident};
use tidegate_os::Nowait;
use tidegate_os::file::{self, Advice};
use tidegate_rt::blocking::{Pool, ThreadPool};

use super::super::LinkRule;
use super::super::direct::{direct_file, read_for_tests};
use crate::testing::Bench;

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 / 7) as u8).collect()
}

proptest! {
    #[test]
    fn reads_begin_where_they_should(
        length in 1_usize..40_000,
        at in 0_usize..40_000,
        span in 1_usize..40_000,
        alignment in 1_usize..10_000,
        block in 1_usize..20_000,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content = content(length);
        std::fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        let offset = at % length;
        let end = (offset + span).min(length);
        let mut at = offset;
        while at < end {
            let bytes =
                read_for_tests(&file, at as u64, end as u64, alignment, block).unwrap();
            prop_assert!(!bytes.is_empty());
            prop_assert_eq!(&bytes[..], &content[at..at + bytes.len()]);
            at += bytes.len();
        }
        prop_assert_eq!(at, end);
        prop_assert!(read_for_tests(&file, length as u64, length as u64 + 1, alignment, block).unwrap().is_empty());
    }
}

#[test]
fn large_files_are_streams_that_can_be_cut() {
    let bench = Bench::new(
        "root {dir}; server { directio 10k; output_buffers 1 8k; location /off/ { directio off; }
         location /large/ { directio_alignment 16k; } }",
    );
    let content = content(50_000);
    for directory in ["", "off/", "large/"] {
        std::fs::create_dir_all(bench.dir.path().join(directory)).unwrap();
        std::fs::write(bench.dir.path().join(directory).join("f"), &content).unwrap();
        std::fs::write(bench.dir.path().join(directory).join("small"), &content[..10_239]).unwrap();
    }
    for target in ["/f", "/off/f", "/large/f"] {
        let whole = bench.get(target);
        assert_eq!((whole.status, whole.broken), (200, false));
        assert!(whole.body == content, "{target}");
        assert_eq!(whole.x.response.content_length.is_some(), target != "/off/f");
        let part = bench.get_with(target, &["Range: bytes=9999-20001"]);
        assert!(part.status == 206 && part.body == content[9999..20002], "{target}");
        let last = bench.get_with(target, &["Range: bytes=-1"]);
        assert_eq!(last.body, content[49_999..]);
        let parts = bench.get_with(target, &["Range: bytes=5-6,40000-40001"]);
        assert_eq!((parts.status, parts.broken), (206, false));
        let wanted = &content[40_000..40_002];
        assert!(parts.body.windows(2).any(|pair| pair == wanted), "{target}");
    }
    let small = bench.get("/small");
    assert!(small.x.response.content_length.is_none() && small.body == content[..10_239]);
}

#[test]
fn parts_of_videos_and_compressed_files_too() {
    let bench = Bench::new(
        "root {dir}; server { directio 1k; location /off/ { directio off; flv; }
         location /on/ { flv; } location /packed/ { gzip_static always; } }",
    );
    let content = content(20_000);
    for name in ["on/f", "off/f", "packed/f.gz"] {
        let path = bench.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &content).unwrap();
    }
    for fields in [&[][..], &["Range: bytes=5-20"], &["Range: bytes=0-4,9000-9001"]] {
        let direct = bench.get_with("/on/f?start=7000", fields);
        let usual = bench.get_with("/off/f?start=7000", fields);
        assert_eq!((direct.status, direct.broken), (usual.status, usual.broken), "{fields:?}");
        // The boundaries of several parts are random.
        assert_eq!(direct.body.len(), usual.body.len(), "{fields:?}");
        assert!(direct.body == usual.body || fields.iter().any(|field| field.contains(',')));
    }
    let packed = bench.get("/packed/f");
    assert!(packed.body == content && packed.x.response.content_length == Some(20_000));
}

#[test]
fn another_file_than_that_of_the_head_is_not_sent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, "text").unwrap();
    let modified = std::fs::metadata(&path).unwrap().mtime();
    let first = |size: u64, modified: i64| {
        let path = path.as_os_str().as_bytes().to_vec();
        let file = direct_file(
            path,
            LinkRule::default(),
            (size, modified),
            (4096, 4096),
            tidegate_core::blocking::pool(tidegate_core::blocking::DEFAULT),
        );
        let mut body = Body::Stream(Box::new(file));
        tidegate_rt::block_on(async move { body.next().await }).unwrap()
    };
    assert!(matches!(first(4, modified), Some(Ok(Chunk::Bytes(bytes))) if bytes == "text"));
    assert!(matches!(first(5, modified), Some(Err(_))));
    assert!(matches!(first(4, modified + 1), Some(Err(_))));
}

#[test]
fn pools_that_read_files_must_be_there() {
    for config in ["aio off;", "aio on;", "aio threads; aio_write on;", "aio threads=default;"] {
        Bench::new(&format!("{config} server {{ location / {{ }} }}"));
    }
    let check = |config: &str, message: &str| assert_eq!(Bench::errors(config), [message]);
    check("aio threads=x; server { }", "unknown thread pool \"x\"");
    check("server { location / { aio threads=x; } }", "unknown thread pool \"x\"");
    check("server { aio threads=; }", "invalid value");
    check("server { aio yes; }", "invalid value");
}

#[test]
fn what_the_page_cache_lacks_is_read_on_the_ranges_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, [7; 300_000]).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    let pool = Arc::new(ThreadPool::new("cold", 1, 10).unwrap());
    let range = FileRange { pool: Some(pool.clone()), ..FileRange::new(file.clone(), 0, 300_000) };
    let drop_pages = || {
        file.sync_all().unwrap();
        file::fadvise(&file, 0, 0, Advice::DontNeed);
    };
    tidegate_rt::block_on(async {
        assert_eq!(warm(&range, 0, 300_000).await.unwrap(), 300_000);
        assert_eq!((pool.figures().finished, pool.queued() + pool.running()), (0, 0));
        drop_pages();
        // A file system in memory drops no pages.
        let cold = file::pread_nowait(&file, &mut [0], 0).unwrap() == Nowait::WouldBlock;
        assert_eq!(warm(&range, 0, 300_000).await.unwrap(), 300_000);
        for at in [0, 150_000, 299_999] {
            assert_eq!(file::pread_nowait(&file, &mut [0], at).unwrap(), Nowait::Read(1));
        }
        // A read that must not wait may still begin to fetch the pages, so that they are there before the pool is
        // used.
        let (tries, before) = (if cold { 100 } else { 0 }, pool.figures().finished);
        for _ in 0..tries {
            drop_pages();
            assert_eq!(read(&range, 100, 1000).await.unwrap(), [7; 1000]);
            if pool.figures().finished > before {
                break;
            }
        }
        assert!(!cold || pool.figures().finished > before);
        assert!(warm(&range, 100, u64::MAX).await.unwrap() > 0);
        pool.drain();
        let mut refused = false;
        for _ in 0..tries {
            drop_pages();
            refused = refused || read(&range, 100, 1000).await.is_err();
        }
        assert!(refused || !cold, "the pool is closed");
    })
    .unwrap();
}

#[test]
fn a_small_file_that_was_just_in_the_page_cache_is_not_checked_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, [7; 50_000]).unwrap();
    let range = |file: &Arc<File>, offset, length, resident: &Arc<Resident>| FileRange {
        resident: Some(resident.clone()),
        ..FileRange::new(file.clone(), offset, length)
    };
    let readable = Arc::new(File::open(&path).unwrap());
    // Reading its pages fails.
    let blind = Arc::new(File::options().write(true).open(&path).unwrap());
    let resident = || Arc::new(Resident::new(Bytes::from(vec![7; 50_000])));
    tidegate_rt::block_on(async {
        let part = resident();
        assert_eq!(warm(&range(&readable, 0, 40_000, &part), 0, 40_000).await.unwrap(), 40_000);
        assert!(warm(&range(&blind, 0, 50_000, &part), 0, 50_000).await.is_err());
        // The same when the whole is to be sent, of which only the beginning was checked.
        assert_eq!(warm(&range(&readable, 0, 50_000, &part), 0, 10_000).await.unwrap(), 10_000);
        assert!(warm(&range(&blind, 0, 50_000, &part), 0, 50_000).await.is_err());
        let (mut tries, mut seen) = (0, false);
        while !seen && tries < 100 {
            // On a busy machine more than the time limit may pass between the two checks.
            let whole = resident();
            warm(&range(&readable, 0, 50_000, &whole), 0, 50_000).await.unwrap();
            seen = matches!(warm(&range(&blind, 9, 100, &whole), 9, 100).await, Ok(100));
            tries += 1;
        }
        assert!(seen);
    })
    .unwrap();
}

#[test]
fn the_bytes_of_a_range_are_cut_out_of_the_copy_in_memory() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let resident = Some(Arc::new(Resident::new(Bytes::from_static(b"0123456789"))));
    let cut = |offset, length| {
        FileRange { resident: resident.clone(), ..FileRange::new(file.clone(), offset, length) }
            .in_memory()
    };
    assert_eq!(cut(0, 10).unwrap(), "0123456789");
    assert_eq!(cut(3, 4).unwrap(), "3456");
    assert_eq!((cut(3, 8), cut(u64::MAX, 2)), (None, None));
    assert_eq!(FileRange::new(file.clone(), 0, 1).in_memory(), None);
}
