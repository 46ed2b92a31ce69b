//! Lines: their files, and when they are written.
use std::time::Duration;

use super::buffer::flush_logs;
use super::conf::OpenFilesConf;
use super::format::{escape_default, escape_json};
use super::open_files::OpenFiles;
use crate::testing::Bench;

/// Polls until it holds; the assertions that follow fail if it never does.
fn until(holds: impl Fn() -> bool) {
    let deadline = tidegate_rt::clock::exact_now() + Duration::from_secs(10);
    while !holds() && tidegate_rt::clock::exact_now() < deadline {
        std::thread::yield_now();
    }
}

#[test]
fn values_are_escaped_in_place() {
    let check = |escape: fn(&mut Vec<u8>, usize, bool), value: &[u8], found, expected: &str| {
        let mut out = b"\"kept".to_vec();
        out.extend_from_slice(value);
        escape(&mut out, 5, found);
        assert_eq!(String::from_utf8_lossy(&out), format!("\"kept{expected}"));
    };
    check(escape_default, b"plain", true, "plain");
    check(escape_default, b"", true, "");
    check(escape_default, b"", false, "-");
    check(escape_default, b"\"1 \x1b\x7f\xff\\", true, "\\x221 \\x1B\\x7F\\xFF\\x5C");
    check(escape_json, b"\"1 \x1b\n\r\t\x08\x0c\\", true, "\\\"1 \\u001B\\n\\r\\t\\b\\f\\\\");
    check(escape_json, "é\x7f".as_bytes(), true, "é\x7f");
    check(escape_json, b"", false, "");
}

#[test]
fn lines_of_json_have_values_of_their_kinds() {
    let bench = Bench::new(
        r#"
        log_format j json {
            uri $uri; status $status number; "a \"b\"" "$uri?$args" string;
            n $arg_n number; none $arg_none; text_none "x$arg_none"; gone $arg_none optional; kept $arg_n optional;
            yes $arg_n boolean; no $arg_none boolean;
            o { list $http_x_l list; numbers $http_x_l numbers; empty $arg_none list; deeper { one 1 number; } }
        }
        log_format text json;
        server { location / { access_log j.log j; access_log t.log text; return 200; } }"#,
    );
    bench.get_with("/a?n=1.50", &["X-L: 0.1, - : 7"]);
    bench.get("/b?n=01");
    until(|| bench.read("j.log").lines().count() == 2);
    assert_eq!(
        bench.read("j.log"),
        "{\"uri\":\"/a\",\"status\":200,\"a \\\"b\\\"\":\"/a?n=1.50\",\"n\":1.50,\"none\":null,\"text_none\":\"x\",\
         \"kept\":\"1.50\",\"yes\":true,\"no\":false,\"o\":{\"list\":[\"0.1\",\"-\",\"7\"],\"numbers\":[0.1,null,7],\"empty\":[],\
         \"deeper\":{\"one\":1}}}\n\
         {\"uri\":\"/b\",\"status\":200,\"a \\\"b\\\"\":\"/b?n=01\",\"n\":null,\"none\":null,\"text_none\":\"x\",\
         \"kept\":\"01\",\"yes\":true,\"no\":false,\"o\":{\"list\":[],\"numbers\":[],\"empty\":[],\"deeper\":{\"one\":1}}}\n"
    );
    // Without a block the word is a format like any other.
    assert_eq!(bench.read("t.log"), "json\njson\n");
}

proptest::proptest! {
    #[test]
    fn any_value_is_valid_json(value in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
        super::json::fuzz_json_log(&value);
    }

    #[test]
    fn any_text_of_numbers_is_valid_json(value in "[-+0-9.eE, :]{0,12}") {
        super::json::fuzz_json_log(value.as_bytes());
    }
}

#[test]
fn lines_go_where_they_should() {
    let bench = Bench::new(
        r#"
        log_format test "$uri:$status";
        log_format two 'a "$uri"' ' b';
        log_format default escape=default $uri$arg_b$arg_c;
        log_format none escape=none $uri$arg_b$arg_c;
        log_format json escape=json $uri$arg_b$arg_c;
        server {
            location /plain { return 200 OK; }
            location /combined { access_log {dir}/combined.log; return 200 OK;
                location /combined/off { access_log off; return 200 OK; } }
            location /filtered { access_log filtered.log test if=$arg_a$arg_b; return 200; }
            location /multi { access_log one.log test; access_log two.log two; return 200; }
            location /var { root {dir}; access_log var_$arg_n test; return 200; }
            location /noroot { root /nonexistent; access_log var_$arg_n test; return 200; }
            location /escape { access_log d.log default; access_log n.log none; access_log j.log json; return 200; }
        }"#,
    );
    for target in [
        "/plain",
        "/combined",
        "/combined/off",
        "/filtered",
        "/filtered/zero?a=0",
        "/filtered/yes?a=1",
        "/filtered/both?a=0&b=0",
        "/multi",
        "/var?n=x",
        "/noroot?n=y",
        "/escape/%221%20%1B?c=2",
    ] {
        assert_eq!(bench.get(target).status, 200, "{target}");
    }
    let combined = bench.read("combined.log");
    assert!(combined.starts_with("192.0.2.7 - - ["), "{combined}");
    assert!(combined.ends_with("] \"GET /combined HTTP/1.1\" 200 2 \"-\" \"-\"\n"), "{combined}");
    assert!(bench.read("logs/access.log").contains("GET /plain "));
    assert_eq!(bench.read("filtered.log"), "/filtered/yes:200\n/filtered/both:200\n");
    assert_eq!(
        (bench.read("one.log"), bench.read("two.log")),
        ("/multi:200\n".into(), "a \"/multi\" b\n".into())
    );
    // A pool thread creates it.
    until(|| !bench.read("var_x").is_empty());
    assert_eq!((bench.read("var_x"), bench.read("var_y")), ("/var:200\n".into(), String::new()));
    assert_eq!(bench.read("d.log"), "/escape/\\x221 \\x1B-2\n");
    assert_eq!(bench.read("n.log"), "/escape/\"1 \x1b2\n");
    assert_eq!(bench.read("j.log"), "/escape/\\\"1 \\u001B2\n");
}

#[cfg(unix)]
#[test]
fn requests_do_not_wait_for_a_file_and_lines_keep_their_order() {
    use std::io::{BufRead, BufReader};

    let bench = Bench::new(
        r#"
        log_format test "$uri";
        server { root {dir}; access_log log_$arg_n test; return 200; }"#,
    );
    let path = bench.dir.path().join("log_a");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    // Its name leads nowhere until there is a reader.
    for target in ["/1?n=a", "/2?n=b", "/3?n=a"] {
        assert_eq!(bench.get(target).status, 200);
    }
    assert_eq!(bench.read("log_b"), "");
    let reader = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    assert_eq!((lines.next(), lines.next()), (Some("/1".into()), Some("/3".into())));
    assert_eq!(bench.read("log_b"), "/2\n");
}

#[test]
fn lines_wait_for_the_iterations_end_but_not_longer_than_their_connection() {
    let worker = tidegate_rt::Worker::run("log", None, |_| async {
        let bench = Bench::new("server { access_log a.log; }");
        let mut x = bench.exchange();
        x.routing.location = bench.plan.server(x.routing.server).location;
        let mut lines = |keep_alive| {
            match keep_alive {
                true => x.disposition.keep_connection(),
                false => x.disposition.close_connection(),
            }
            bench
                .plan
                .location(x.routing.location)
                .loggers
                .iter()
                .for_each(|logger| logger(&mut x));
            bench.read("a.log").lines().count()
        };
        assert_eq!([true, true, false, true].map(&mut lines), [0, 0, 3, 3]);
    });
    worker.unwrap().join().unwrap();
}

#[test]
fn buffers_are_written_when_full_and_on_demand() {
    let bench = Bench::new(
        r#"
        log_format test "$uri";
        server {
            location /buf { access_log buf.log test buffer=16; return 200; }
            location /gz { access_log gz.log test gzip=9; return 200; }
            location /timed { access_log timed.log test buffer=1k flush=1ms; return 200; }
            location /long { access_log long.log test buffer=4; return 200; }
        }"#,
    );
    let lines = |name: &str| bench.read(name);
    bench.get("/buf1");
    bench.get("/buf2");
    assert_eq!(lines("buf.log"), "");
    bench.get("/buf3");
    assert_eq!(lines("buf.log"), "/buf1\n/buf2\n");
    bench.get("/long");
    assert_eq!(lines("long.log"), "/long\n");
    bench.get("/gz");
    bench.get("/timed");
    let service = bench.plan.services.iter().find(|service| service.name() == "access log flush");
    let service = service.unwrap();
    until(|| {
        service.step();
        !lines("timed.log").is_empty()
    });
    assert_eq!(lines("timed.log"), "/timed\n");
    flush_logs();
    assert_eq!(lines("buf.log"), "/buf1\n/buf2\n/buf3\n");
    let bytes = std::fs::read(bench.dir.path().join("gz.log")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text)
        .unwrap();
    assert_eq!(text, "/gz\n");
}

#[test]
fn open_files_are_kept_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
    let conf = OpenFilesConf {
        max: 1,
        inactive: Duration::from_secs(20),
        valid: Duration::from_secs(60),
        min_uses: 2,
    };
    let files = OpenFiles::new(conf);
    let start = tidegate_rt::clock::exact_now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let write = |seconds: u64| {
        use std::io::Write;
        let file = files.open(&path, at(seconds)).unwrap();
        (&*file).write_all(b"x").unwrap();
    };
    let length = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |m| m.len());
    write(0);
    write(1);
    std::fs::rename(&path, &moved).unwrap();
    for second in [10, 25, 40, 55] {
        write(second);
    }
    assert_eq!((length(&path), length(&moved)), (0, 6));
    // The name is checked again after `valid`, and a name of another file evicts this one.
    write(70);
    assert_eq!((length(&path), length(&moved)), (1, 6));
    files.open(&moved, at(71)).unwrap();
    std::fs::rename(&path, dir.path().join("again")).unwrap();
    write(72);
    assert_eq!(length(&path), 1);
}

#[test]
fn errors() {
    for (config, expected) in [
        ("access_log x nope;", "unknown log format \"nope\""),
        ("access_log off x;", "invalid parameter \"x\""),
        ("access_log x combined buffer=0;", "invalid buffer size \"0\""),
        ("access_log x combined buffer=1k flush=0;", "invalid flush time \"0\""),
        ("access_log x combined flush=1s;", "no buffer is defined for access_log \"x\""),
        ("access_log x$uri combined buffer=1k;", "buffered logs cannot have variables in name"),
        ("access_log x combined gzip=11;", "invalid compression level \"11\""),
        ("access_log x combined foo=1;", "invalid parameter \"foo=1\""),
        (
            "access_log syslog:server=127.0.0.1 combined buffer=1k;",
            "logs to syslog cannot be buffered",
        ),
        ("log_format a x; log_format a y;", "duplicate \"log_format\" name \"a\""),
        ("log_format a x { }", "unexpected \"{\" in \"log_format\""),
        ("log_format a json x { }", "unexpected \"{\" in \"log_format\""),
        ("log_format a json { b; }", "the member \"b\" needs a value, or a block alone"),
        ("log_format a json { b $uri { } }", "the member \"b\" needs a value, or a block alone"),
        ("log_format a json { b $uri integer; }", "invalid kind \"integer\" in \"log_format\""),
        ("log_format a json { b $uri number list; }", "two kinds of a value in \"log_format\""),
        ("log_format a json { b 1; c { } b 2; }", "duplicate member \"b\" of \"log_format\""),
        ("log_format a json { b $nothing; }", "unknown \"nothing\" variable"),
        ("log_format combined x;", "duplicate \"log_format\" name \"combined\""),
        ("log_format a escape=foo x;", "unknown log format escaping \"foo\""),
        ("log_format a $nope;", "unknown \"nope\" variable"),
        ("open_log_file_cache min_uses=2;", "\"open_log_file_cache\" must have \"max\" parameter"),
        ("open_log_file_cache foo;", "invalid \"open_log_file_cache\" parameter \"foo\""),
    ] {
        let errors = Bench::errors(&format!("{config} server {{ }}"));
        assert_eq!(errors.first().map(String::as_str), Some(expected), "{config}");
    }
    let conflict = "access_log x combined buffer=1k; access_log x combined buffer=2k;";
    let errors = Bench::errors(&format!("{conflict} server {{ }}"));
    assert!(errors[0].ends_with("already defined with conflicting parameters"), "{errors:?}");
}
