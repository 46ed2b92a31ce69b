//! Sessions: the preread phase, and the context of log lines.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_core::client::ByteStream;
use tidegate_core::exchange::Exchange;
use tidegate_core::session::{Datagrams, Session, SessionClient, log_end, read_more};
use tidegate_core::settings::SessionSettings;
use tidegate_core::step::Step;
use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

use crate::tests::{Bench, wait};

/// A client that sends these parts; an empty part is the end.
#[derive(Default)]
struct Parts(RefCell<VecDeque<Option<&'static str>>>);

impl ByteStream for Parts {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        match self.0.borrow_mut().pop_front() {
            Some(Some(text)) => {
                buffer.extend_from_slice(text.as_bytes());
                Poll::Ready(Ok(text.len()))
            }
            // Nothing has arrived yet.
            Some(None) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(&self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

struct NoDatagrams;

impl Datagrams for NoDatagrams {
    fn poll_receive(&self, _context: &mut Context<'_>) -> Poll<Vec<u8>> {
        Poll::Pending
    }

    fn send(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn release(&self) {}
}

/// Creates an exchange with a session with default settings.
fn session(client: SessionClient) -> (Bench, Exchange) {
    let bench = Bench::new("error_log {dir}/log info; server { }");
    let mut x = bench.exchange();
    x.progress.action = "";
    x.modules.extensions.insert(Session::new(client, "0.0.0.0:5".to_owned()));
    (bench, x)
}

fn stream(parts: &[Option<&'static str>]) -> SessionClient {
    SessionClient::Stream(Rc::new(Parts(RefCell::new(parts.iter().copied().collect()))))
}

/// Reads this number of times, and checks the bytes and the status that ended the session.
fn check(parts: &[Option<&'static str>], times: usize, expected: (&str, Option<u16>)) {
    let (_bench, mut x) = session(stream(parts));
    let reads = async {
        for _ in 0..times {
            match read_more(&mut x).await {
                Ok(()) => {}
                Err(Step::Status(status)) => return Some(status),
                Err(_) => return Some(0),
            }
        }
        None
    };
    let ended = wait(reads);
    let input = &x.session().unwrap().input;
    assert_eq!((String::from_utf8_lossy(input).as_ref(), ended), expected, "{parts:?}");
}

#[test]
fn more_is_read_until_the_end() {
    check(&[Some("ab")], 1, ("ab", None));
    check(&[None, Some("ab"), None, Some("c")], 2, ("abc", None));
    check(&[Some("ab"), Some("")], 2, ("ab", Some(200)));
}

#[test]
fn preread_bytes_and_time_have_a_limit() {
    let (bench, mut x) = session(stream(&[Some("more")]));
    let most = SessionSettings::default().preread_buffer_size;
    x.modules.extensions.of_mut::<Session>().unwrap().input = vec![b'x'; most];
    let Err(Step::Status(status)) = wait(read_more(&mut x)) else { panic!("read more") };
    assert_eq!(status, 400);
    assert!(
        bench.read("log").contains("preread buffer full, client: 192.0.2.7, server: 0.0.0.0:5")
    );
    // The time is limited from the first wait on.
    let (bench, mut x) = session(stream(&[]));
    let late = async {
        let over = Deadline::new();
        over.set(clock::now());
        x.modules.extensions.of_mut::<Session>().unwrap().preread_until = Some(over);
        read_more(&mut x).await
    };
    assert!(matches!(wait(late), Err(Step::Status(200))));
    assert!(bench.read("log").contains("client timed out (110: Connection timed out)"));
    // Datagrams have no further bytes.
    let (_bench, mut x) = session(SessionClient::Datagrams(Rc::new(NoDatagrams)));
    assert!(matches!(wait(read_more(&mut x)), Err(Step::Status(500))));
}

#[test]
fn log_lines_of_sessions_have_the_bytes_of_both_directions() {
    for (client, kind) in
        [(stream(&[]), ""), (SessionClient::Datagrams(Rc::new(NoDatagrams)), "udp ")]
    {
        let (bench, mut x) = session(client);
        let context = format!(", {kind}client: 192.0.2.7, server: 0.0.0.0:5");
        let shown =
            |x: &Exchange| tidegate_core::log_context::with_context(x, format_args!("text"));
        assert_eq!(shown(&x), format!("text{context}"));
        let session = x.session().unwrap();
        assert_eq!(session.is_datagram(), !kind.is_empty());
        session.traffic.received.set(1);
        session.traffic.sent.set(2);
        session.origin_traffic.received.set(3);
        session.origin_traffic.sent.set(4);
        (x.progress.action, x.progress.upstream) = ("proxying connection", "1.1.1.1:5".to_owned());
        let bytes = "bytes from/to client:1/2, bytes from/to upstream:3/4";
        let upstream = format!(", upstream: \"1.1.1.1:5\", {bytes}");
        assert_eq!(shown(&x), format!("text while proxying connection{context}{upstream}"));
        log_end(&x, "client disconnected");
        let log = bench.read("log");
        assert!(
            log.contains("[info]") && log.ends_with(&format!("*1 client disconnected, {bytes}\n")),
            "{log}"
        );
    }
}
