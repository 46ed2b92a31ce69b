//! Tests that might wait for a disk are made by a pool thread: those of names that were never looked up.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::{Exchange, Phase, Step, file_path};

use super::handler;
use crate::testing::Bench;

const FILES: &[(&str, &str)] =
    &[("html/file", "plain"), ("html/packed", "plain"), ("html/packed.gz", "packed")];

fn bench(config: &str) -> Bench {
    Bench::with_files(&format!("server {{ root {{dir}}/html; {config} }}"), FILES)
}

/// Returns how often the server's handlers of a phase wait, and the status that they end with: 0 for none.
async fn phase(x: &mut Exchange, phase: Phase) -> (usize, u16) {
    let plan = x.plan.clone();
    let mut waits = 0;
    for handler in plan.location(x.routing.location).handlers(phase) {
        let step = match handler(x) {
            Step::Wait(future) => {
                waits += 1;
                future.await
            }
            Step::Decline => Step::Decline,
            Step::Status(status) => Step::Status(status),
            Step::Respond(body) => Step::Respond(body),
            Step::Jump(jump) => Step::Jump(jump),
            Step::Next | Step::Close => panic!("not a handler of files"),
        };
        match step {
            Step::Decline => {}
            Step::Status(status) => return (waits, status),
            Step::Respond(_) => return (waits, 200),
            _ => return (waits, 302),
        }
    }
    (waits, 0)
}

#[test]
fn a_pool_tests_names_that_the_kernel_does_not_have_in_memory() {
    let table = [
        ("try_files $uri =404;", Phase::Precontent, "/file", (0, 0)),
        ("try_files $uri =404;", Phase::Precontent, "/none", (1, 404)),
        ("try_files $uri /no $uri/no =404;", Phase::Precontent, "/none", (1, 404)),
        ("index file;", Phase::Content, "/", (0, 302)),
        ("index none;", Phase::Content, "/", (1, 0)),
        ("index none;", Phase::Content, "/no/", (1, 404)),
        ("if (-f $document_root/file) { return 204; }", Phase::ServerRewrite, "/", (0, 200)),
        ("if (-f $document_root/none) { return 204; }", Phase::ServerRewrite, "/", (1, 0)),
        ("if (!-e $document_root/none) { return 404; }", Phase::ServerRewrite, "/", (1, 404)),
        ("gzip_static always;", Phase::Content, "/packed", (0, 200)),
        ("gzip_static always;", Phase::Content, "/file", (1, 200)),
        ("brotli_static always; zstd_static always;", Phase::Content, "/file", (1, 200)),
        ("", Phase::Content, "/file", (0, 200)),
        ("", Phase::Content, "/none", (1, 404)),
    ];
    for (config, of, target, expected) in table {
        let bench = bench(config);
        let mut x = bench.received(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let found = tidegate_rt::block_on(phase(&mut x, of)).unwrap();
        assert_eq!(found, expected, "{config} {target}");
    }
}

#[test]
fn a_program_continues_at_the_test_that_interrupted_it() {
    let bench = bench(
        "set $n \"${n}a\";
         if (-f $document_root/none) { return 500; }
         set $n \"${n}b\";
         if (!-e $document_root/no) { set $n \"${n}c\"; }
         if (-f $document_root/file) { set $n \"${n}d\"; }
         set $n \"${n}e\";
         return 200 $n;",
    );
    for round in 0..3 {
        assert_eq!(bench.text("/"), "abcde", "round {round}");
    }
}

#[test]
fn what_was_said_of_one_sibling_is_not_said_again_for_the_next() {
    let bench = bench("gzip_static always; brotli_static always;");
    symlink("file.br", bench.dir.path().join("html/file.br")).unwrap();
    assert_eq!(bench.text("/file"), "plain");
    let log = bench.read("logs/error.log");
    assert_eq!(log.matches("file.br\" failed (40:").count(), 1, "{log}");
}

#[test]
fn each_run_gets_further_whatever_is_tested() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let bench = bench("");
    let handler = handler(|x, probe| {
        RUNS.fetch_add(1, Ordering::Relaxed);
        for _ in 0..3 {
            let name = NAMES.fetch_add(1, Ordering::Relaxed);
            let directory = file_path::map(x).unwrap();
            let path = [directory, name.to_string().into_bytes()].concat();
            assert!(probe.test(x, &path)?.is_err());
        }
        Ok(Step::Status(404))
    });
    let mut x = bench.received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let end = async {
        match handler(&mut x) {
            Step::Wait(future) => future.await,
            _ => panic!("the first name is not known"),
        }
    };
    assert!(matches!(tidegate_rt::block_on(end).unwrap(), Step::Status(404)));
    assert_eq!(RUNS.load(Ordering::Relaxed), 4);
}
