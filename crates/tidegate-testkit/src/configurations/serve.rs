//! The scratch directory of one configuration, and a server that runs in it.

use super::client::{Response, exchange};
use super::logs::Logs;
use super::places::Places;
use super::requests::Request;
use crate::bell::{Bell, Deadline, Failure};
use crate::origin::Shared;
use crate::server::Program;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Longest time of one server for one configuration: start, all requests, end.
const SERVER_TIME: Duration = Duration::from_secs(60);

/// Seconds since 1970 at which all sample files were changed: 2024-01-01, 12:00.
const CHANGED: u64 = 1_704_110_400;

/// Parameters for Diffie-Hellman: the group ffdhe2048 of RFC 7919.
const DHPARAM: &[u8] = include_bytes!("dhparam.pem");

/// Sample files below every root.
const FILES: [(&str, &str); 20] = [
    ("a.txt", "0123456789 a file of text\n"),
    ("a b.txt", "a name with a space\n"),
    (
        "index.html",
        "<html><head><title>one</title></head><body>an index with some words in it</body></html>\n",
    ),
    ("index.php", "<?php echo 'script'; ?>\n"),
    ("app.js", "function one() { return 'a script that is long enough to be packed'; }\n"),
    ("style.css", "body { color: black; background: white; margin: 0 auto; }\n"),
    ("data.json", "{\"one\": 1}\n"),
    ("img.png", "\u{1}PNG no picture\n"),
    ("favicon.ico", "icon\n"),
    ("robots.txt", "User-agent: *\n"),
    ("404.html", "<p>our own page for what is not found</p>\n"),
    ("50x.html", "<p>our own page for what went wrong</p>\n"),
    (".htaccess", "deny from all\n"),
    (".git/config", "[core]\n"),
    (".well-known/acme-challenge/token", "challenge\n"),
    ("dir/index.html", "<p>an index below</p>\n"),
    ("dir/b.txt", "b\n"),
    ("empty/.keep", ""),
    ("wp-content/uploads/a.php", "<?php ?>\n"),
    ("static/a.css", "a { b: c }\n"),
];

/// Writes the files that the adapted configurations name.
pub(super) fn prepare(places: &Places) -> Result<(), Failure> {
    let scratch = &places.scratch;
    let failed = |error: String| Failure::new(format!("{}: {error}", scratch.display()));
    let names = vec!["localhost".to_owned()];
    let pair =
        rcgen::generate_simple_self_signed(names).map_err(|error| failed(error.to_string()))?;
    let files: [(&str, Vec<u8>); 5] = [
        ("cert.pem", pair.cert.pem().into_bytes()),
        ("key.pem", pair.signing_key.serialize_pem().into_bytes()),
        ("dhparam.pem", DHPARAM.to_vec()),
        ("ticket.key", vec![b'k'; 80]),
        ("htpasswd", b"user:{PLAIN}secret\n".to_vec()),
    ];
    set_mode(scratch, 0o755);
    for (name, bytes) in files {
        std::fs::write(scratch.join(name), bytes).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// Documents, logs and caches as they are before each start: both servers find the same.
pub(super) fn refill(places: &Places) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("sample files: {error}"));
    for directory in ["root", "html", "logs", "cache"] {
        let _ = std::fs::remove_dir_all(places.scratch.join(directory));
    }
    for file in ["start.log", "output.log"] {
        let _ = std::fs::remove_file(places.scratch.join(file));
    }
    for directory in ["logs", "cache"] {
        let path = places.scratch.join(directory);
        std::fs::create_dir_all(&path).map_err(failed)?;
        set_mode(&path, 0o777);
    }
    for root in &places.roots {
        for (name, text) in FILES {
            // Odd roots (one below a file of another) stay without files.
            let _ = write(&root.join(name), text.as_bytes());
        }
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let _ = packed.write_all(b"packed before");
        let _ = write(&root.join("style.css.gz"), &packed.finish().unwrap_or_default());
    }
    for file in &places.files {
        let _ = write(file, b"one file\n");
    }
    settle(&places.scratch.join("root"));
    settle(&places.scratch.join("html"));
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::fs::write(path, bytes)
}

/// Sets one modification time for all files below.
fn settle(directory: &Path) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(CHANGED);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            settle(&entry.path());
        }
        let _ = std::fs::File::open(entry.path()).and_then(|file| file.set_modified(moment));
    }
}

fn set_mode(path: &Path, mode: u32) {
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
}

/// Returns whether the program accepts `nginx.conf` in the scratch directory, and its output.
pub(super) fn check(program: &Program, scratch: &Path) -> Result<(bool, String), Failure> {
    let (exit, output) = program.run(scratch, &["-t".to_owned()], Deadline::after(SERVER_TIME))?;
    Ok((exit == 0, String::from_utf8_lossy(&output).into_owned()))
}

/// Whether the program says that it is nginx 1.29 or newer, which `docs/differences.md` compares with.
pub(super) fn is_recent(program: &Program, scratch: &Path) -> Result<bool, Failure> {
    let (_, output) = program.run(scratch, &["-v".to_owned()], Deadline::after(SERVER_TIME))?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let minor = text.split("nginx/1.").nth(1).and_then(|rest| rest.split('.').next());
    Ok(minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 29))
}

/// The responses and logs of one server.
#[derive(Debug)]
pub(super) struct Said {
    pub responses: Vec<Response>,
    /// Lines that it logged about itself and that no server should log.
    pub complaints: Vec<String>,
    pub logs: Logs,
}

/// Starts the program, sends all requests and ends it.
pub(super) fn serve(
    program: &Program,
    places: &Places,
    requests: &[Request],
) -> Result<Said, Failure> {
    refill(places)?;
    let deadline = Deadline::after(SERVER_TIME);
    let shared = Arc::new(Shared {
        bell: Bell::default(),
        gates: Mutex::new(BTreeSet::new()),
        failures: Mutex::new(Vec::new()),
        over: AtomicBool::new(false),
        deadline,
    });
    let server = program.start(&places.scratch, shared, &[])?;
    let fronts: Vec<SocketAddr> = places.listens.values().map(|listen| listen.address).collect();
    let mut responses: Vec<Response> = Vec::new();
    let ready = server.wait_ready(&fronts, false);
    if ready.is_ok() {
        for request in requests {
            if deadline.remaining().is_err() {
                break;
            }
            let last = |name| responses.last().and_then(|last| last.field(name)).unwrap_or("none");
            let modified = last("last-modified").to_owned();
            responses.push(exchange(&request.again(last("etag"), &modified)));
        }
    }
    let ended = server.finish();
    let log = ["logs/error.log", "output.log", "start.log"]
        .map(|name| std::fs::read(places.scratch.join(name)).unwrap_or_default())
        .concat();
    let log = String::from_utf8_lossy(&log);
    if let Err(failure) = ready {
        let said: Vec<&str> = log.lines().rev().take(3).collect();
        return Err(Failure::new(format!("{failure}: {}", said.join(" / "))));
    }
    ended?;
    let bad = ["[alert]", "[emerg]", "panicked"];
    let complaints = log.lines().filter(|line| bad.iter().any(|word| line.contains(word)));
    let ports = responses.iter().map(|response| response.port).collect();
    let logs = Logs::read(&places.scratch.join("logs"), &ports);
    let complaints = complaints.map(str::to_owned).collect();
    Ok(Said { responses, complaints, logs })
}
