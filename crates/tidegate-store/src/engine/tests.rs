//! The queue of an engine, and its connection beside a double that sends what a test says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::net::{Addr, ListenOptions, Listener, Stream};
use tidegate_rt::{block_on, clock, spawn_local, timer, yield_now};

use super::{CallError, Engine, EngineSettings, QUEUE_BYTES_MAX, QUEUE_MAX, State};
use crate::address::{Address, Sentinel};
use crate::command::{Command, Script};
use crate::resp::Value;
use crate::run;

static SCRIPT: Script = Script::new("return 1");
/// Limit for what has to happen.
const LONG: Duration = Duration::from_secs(20);

fn engine(url: &str, timeout: Duration) -> Arc<Engine> {
    let address = Address::parse(url).expect("a URL");
    Arc::new(Engine::new(EngineSettings { address, timeout, tls: None }))
}

/// As [`engine`], where the host is a Sentinel.
fn engine_of_sentinel(url: &str, sentinel: &str) -> Arc<Engine> {
    let sentinel = Sentinel::parse(sentinel).expect("a name");
    let address = Address::parse_sentinels(url, sentinel).expect("a URL");
    Arc::new(Engine::new(EngineSettings { address, timeout: LONG, tls: None }))
}

fn get() -> Command {
    Command::new("GET").arg(b"a")
}

#[test]
fn the_queue_is_bounded() {
    let engine = engine("redis://h", LONG);
    let mut replies: Vec<_> = (0..QUEUE_MAX).map(|_| engine.begin(get())).collect();
    let full = block_on(engine.begin(get()).wait()).expect("a loop");
    assert_eq!(full, Err(CallError::Full));
    engine.set_broken("gone".into(), clock::exact_now());
    let first = block_on(replies.remove(0).wait()).expect("a loop");
    assert_eq!(first, Err(CallError::Unavailable("gone".into())));
    let next = block_on(engine.begin(get()).wait()).expect("a loop");
    assert_eq!(next, Err(CallError::Unavailable("gone".into())));
    engine.set_connecting();
    let _waiting = engine.begin(Command::new("SET").arg(&vec![0; QUEUE_BYTES_MAX - 100]));
    let full = block_on(engine.begin(Command::new("SET").arg(&[0; 200])).wait()).expect("a loop");
    assert_eq!(full, Err(CallError::Full));
    assert_eq!((engine.queued(), engine.figures().failures), (1, 1));
}

/// A double of an engine: for each connection, what it sends for the commands that it receives in turn.
struct Double {
    listener: Listener,
    address: SocketAddr,
}

impl Double {
    fn new() -> Double {
        let address = Addr::Inet(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = Listener::bind(&address, &ListenOptions::default()).expect("a port");
        let Ok(Addr::Inet(address)) = listener.local_addr() else { panic!("no address") };
        Double { listener, address }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Accepts a connection and sends each text when a command that contains the word beside it has arrived.
    async fn serve(&mut self, script: &[(&str, &[u8])]) -> Stream {
        let stream = self.listener.accept().await.expect("a connection");
        let mut received = Vec::new();
        for (word, text) in script {
            while !contains(&received, word.as_bytes()) {
                received.reserve(4096);
                let count = stream.read_append(&mut received).await.expect("bytes");
                assert!(count > 0, "closed before {word}");
            }
            received.clear();
            stream.write_all(text).await.expect("written");
        }
        stream
    }
}

/// Lets the other tasks of the event loop run until they have brought this about.
async fn until(done: impl Fn() -> bool) {
    while !done() {
        yield_now().await;
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Runs a test with a double, and the task of an engine beside it.
fn with_double<F: Future<Output = ()>>(
    timeout: Duration,
    test: impl FnOnce(Double, Arc<Engine>) -> F,
) {
    let work = async {
        let double = Double::new();
        let engine = engine(&double.url(), timeout);
        let task = spawn_local(run(engine.clone(), "s".into(), ErrorLog::stderr(Level::Emerg)));
        timer::timeout(LONG, test(double, engine)).await.expect("in time");
        task.abort();
    };
    block_on(work).expect("a loop");
}

#[test]
fn replies_come_in_the_order_of_commands() {
    with_double(LONG, |mut double, engine| async move {
        let (one, two) = (engine.begin(get()), engine.begin(Command::new("PING")));
        let connection = double
            .serve(&[("HELLO", b"%1\r\n+role\r\n+master\r\n"), ("PING", b"$1\r\n7\r\n+PONG\r\n")]);
        let connection = connection.await;
        assert_eq!(one.wait().await, Ok(Value::Text(b"7".to_vec())));
        assert_eq!(two.wait().await, Ok(Value::Text(b"PONG".to_vec())));
        assert_eq!(engine.state(), State::Ready);
        let figures = engine.figures();
        assert_eq!((figures.commands, figures.replies, figures.connections), (2, 2, 1));
        drop(connection);
    });
}

#[test]
fn an_old_engine_is_used_and_gets_scripts_as_text_once() {
    with_double(LONG, |mut double, engine| async move {
        let reply = engine.begin(Command::script(&SCRIPT, 0));
        let _connection = double
            .serve(&[
                ("HELLO", b"-ERR unknown command `HELLO`\r\n"),
                ("EVALSHA", b"-NOSCRIPT No matching script\r\n"),
                ("return 1", b":1\r\n"),
            ])
            .await;
        assert_eq!(reply.wait().await, Ok(Value::Integer(1)));
    });
}

#[test]
fn refusals_are_results_and_the_connection_stays() {
    with_double(LONG, |mut double, engine| async move {
        let reply = engine.begin(get());
        let connection = double.serve(&[("HELLO", b"*0\r\n"), ("GET", b"-OOM too much\r\n")]).await;
        assert_eq!(reply.wait().await, Err(CallError::Refused("OOM too much".into())));
        let again = engine.begin(Command::new("PING"));
        connection.write_all(b"+PONG\r\n").await.expect("written");
        assert_eq!(again.wait().await, Ok(Value::Text(b"PONG".to_vec())));
        assert_eq!(engine.figures().refused, 1);
    });
}

#[test]
fn after_a_failure_there_is_another_attempt() {
    for lie in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"$536870912\r\n", b"+1\r\n+2\r\n", b""] {
        with_double(LONG, |mut double, engine| async move {
            let reply = engine.begin(get());
            let connection = double.serve(&[("HELLO", b"*0\r\n"), ("GET", lie)]).await;
            drop(connection);
            // Two replies for a command: the first one is delivered.
            if !lie.starts_with(b"+") {
                assert!(matches!(reply.wait().await, Err(CallError::Lost(_))), "{lie:?}");
            }
            let _connection = double.serve(&[("HELLO", b"*0\r\n")]).await;
            until(|| engine.figures().connections == 2).await;
        });
    }
}

#[test]
fn a_late_reply_ends_the_connection() {
    with_double(Duration::from_millis(20), |mut double, engine| async move {
        let connection = double.serve(&[("HELLO", b"*0\r\n")]).await;
        until(|| engine.state() == State::Ready).await;
        let reply = engine.begin(get()).wait().await;
        assert!(matches!(reply, Err(CallError::TimedOut | CallError::Lost(_))), "{reply:?}");
        let _connection = double.serve(&[("HELLO", b"*0\r\n")]).await;
        assert_eq!(engine.figures().failures, 1);
        drop(connection);
    });
}

#[test]
fn sentinels_are_asked_again_after_a_failure() {
    let work = async {
        // The Sentinel and the engine at once.
        let mut double = Double::new();
        let engine = engine_of_sentinel(&double.url(), "main");
        let task = spawn_local(run(engine.clone(), "s".into(), ErrorLog::stderr(Level::Emerg)));
        let port = double.address.port().to_string();
        let here = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
        let here = [("main", here.as_bytes())];
        let hello: (&str, &[u8]) = ("HELLO", b"%1\r\n+role\r\n+master\r\n");
        let reply = engine.begin(get());
        double.serve(&here).await;
        // It has become a replica.
        let connection = double.serve(&[hello, ("GET", b"-READONLY no writes\r\n")]).await;
        assert!(matches!(reply.wait().await, Err(CallError::Refused(_))));
        drop(connection);
        let wrong: [&[u8]; 5] = [
            b"*-1\r\n",
            b"-ERR unknown command\r\n",
            b"*2\r\n$1\r\nh\r\n$1\r\n0\r\n",
            b"*1\r\n$1\r\nh\r\n",
            b"",
        ];
        for text in wrong {
            double.serve(&[("main", text)]).await;
        }
        double.serve(&here).await;
        let replica = b"%1\r\n+role\r\n+replica\r\n";
        double.serve(&[("HELLO", replica)]).await;
        double.serve(&here).await;
        let _connection = double.serve(&[hello]).await;
        until(|| engine.state() == State::Ready).await;
        assert_eq!(engine.figures().connections, 2);
        task.abort();
    };
    block_on(async { timer::timeout(LONG, work).await.expect("in time") }).expect("a loop");
}

#[test]
fn sentinels_are_asked_behind_their_own_login() {
    let work = async {
        let mut double = Double::new();
        let engine = engine_of_sentinel(&double.url(), "watcher:p%40ss@main");
        let task = spawn_local(run(engine.clone(), "s".into(), ErrorLog::stderr(Level::Emerg)));
        let login = "*3\r\n$4\r\nAUTH\r\n$7\r\nwatcher\r\n$4\r\np@ss\r\n";
        let reply = engine.begin(get());
        let refused = double.serve(&[(login, b"-WRONGPASS invalid password\r\n")]).await;
        let Err(CallError::Unavailable(reason)) = reply.wait().await else { panic!("a reply") };
        assert!(reason.ends_with("refuses the login: WRONGPASS invalid password"), "{reason}");
        drop(refused);
        let port = double.address.port().to_string();
        let here = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
        double.serve(&[(login, b"+OK\r\n"), ("main", here.as_bytes())]).await;
        // The engine needs no login.
        let hello = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
        let _connection = double.serve(&[(hello, b"%1\r\n+role\r\n+master\r\n")]).await;
        until(|| engine.state() == State::Ready).await;
        task.abort();
    };
    block_on(async { timer::timeout(LONG, work).await.expect("in time") }).expect("a loop");
}

#[test]
fn a_refused_login_is_the_reason() {
    with_double(LONG, |mut double, engine| async move {
        let reply = engine.begin(get());
        let text = b"-WRONGPASS invalid username-password pair\r\n";
        let _connection = double.serve(&[("HELLO", text)]).await;
        let Err(CallError::Unavailable(reason)) = reply.wait().await else { panic!("a reply") };
        assert!(reason.ends_with("refuses the login: WRONGPASS invalid username-password pair"));
    });
}
