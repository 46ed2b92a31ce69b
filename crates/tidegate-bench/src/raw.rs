//! The least that a server can do: a loop that answers every read with the same bytes, or passes the bytes of
//! pairs of connections. It knows neither HTTP nor limits; what it costs is the kernel's share of a request,
//! below which no server gets that makes the same calls. The load closes all connections when it has ended.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::rc::Rc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// What it does with what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Answers with a body of so many bytes.
    Answer(u64),
    /// Passes it to the origin, and what that sends back.
    Pass,
}

/// First argument of a process that is one.
const COMMAND: &str = "raw-loop";

/// Adds the arguments that make this program such a loop.
pub fn add_arguments(command: &mut Command, work: Work, listen: SocketAddr, origin: SocketAddr) {
    command.arg(COMMAND).arg(listen.to_string());
    match work {
        Work::Answer(bytes) => command.arg(bytes.to_string()),
        Work::Pass => command.arg(origin.to_string()),
    };
}

/// Serves until the process is ended, if the arguments ask for that.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Option<Result<(), String>> {
    let texts: Vec<_> = arguments.map(|text| text.to_string_lossy().into_owned()).collect();
    match texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [COMMAND, listen, what] => Some(serve(listen, what)),
        _ => None,
    }
}

fn serve(listen: &str, what: &str) -> Result<(), String> {
    let listener = TcpListener::bind(listen).map_err(|error| format!("bind() failed: {error}"))?;
    let looped = match (what.parse::<SocketAddr>(), what.parse::<usize>()) {
        (Ok(origin), _) => Loop::new(listener, Some(origin), Vec::new()),
        (_, Ok(bytes)) => Loop::new(listener, None, answer(bytes)),
        _ => return Err(format!("neither an origin nor a number of bytes: {what}")),
    };
    looped.and_then(Loop::run).map_err(|error| error.to_string())
}

/// With the fields that the measured servers send.
fn answer(bytes: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: tidegate-bench\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Content-Type: text/plain\r\nContent-Length: {bytes}\r\nConnection: keep-alive\r\n\r\n"
    );
    [head.into_bytes(), vec![b'x'; bytes]].concat()
}

struct Loop {
    listener: TcpListener,
    origin: Option<SocketAddr>,
    answer: Vec<u8>,
    epoll: OwnedFd,
    /// Where what is read on a descriptor goes: to its own connection, or to the other one of the pair.
    ways: HashMap<u64, (Rc<TcpStream>, Rc<TcpStream>), foldhash::fast::RandomState>,
}

impl Loop {
    fn new(listener: TcpListener, origin: Option<SocketAddr>, answer: Vec<u8>) -> io::Result<Loop> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let looped = Loop { listener, origin, answer, epoll, ways: HashMap::default() };
        looped.watch(&looped.listener, EventFlags::IN)?;
        Ok(looped)
    }

    fn watch(&self, member: &(impl AsFd + AsRawFd), flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(member.as_raw_fd() as u64);
        Ok(epoll::add(&self.epoll, member, data, flags)?)
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(512);
        let mut buffer = vec![0; 16 * 1024];
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            for event in &events {
                let number = event.data.u64();
                if number == self.listener.as_raw_fd() as u64 {
                    self.accept()?;
                } else if self.pass(number, &mut buffer).is_err() {
                    self.close(number);
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((client, _)) = self.listener.accept() {
            let client = Rc::new(client);
            match self.origin {
                None => self.add(&client, &client)?,
                Some(origin) => {
                    let origin = Rc::new(TcpStream::connect(origin)?);
                    self.add(&client, &origin)?;
                    self.add(&origin, &client)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, from: &Rc<TcpStream>, to: &Rc<TcpStream>) -> io::Result<()> {
        from.set_nonblocking(true)?;
        from.set_nodelay(true)?;
        self.watch(&**from, EventFlags::IN | EventFlags::ET)?;
        self.ways.insert(from.as_raw_fd() as u64, (from.clone(), to.clone()));
        Ok(())
    }

    /// An error is the end of the connection. So is an answer that the socket does not take whole.
    fn pass(&self, number: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Some((from, to)) = self.ways.get(&number) else { return Ok(()) };
        let read = match rustix::net::recv(&**from, &mut *buffer, RecvFlags::empty()) {
            Err(Errno::AGAIN) => return Ok(()),
            other => other?.0,
        };
        let bytes = if self.origin.is_some() { &buffer[..read] } else { &self.answer[..] };
        let written = match read {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => rustix::net::send(&**to, bytes, SendFlags::NOSIGNAL)?,
        };
        if written < bytes.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    fn close(&mut self, number: u64) {
        if let Some((_, to)) = self.ways.remove(&number) {
            self.ways.remove(&(to.as_raw_fd() as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A loop that goes on until the tests end.
    fn start(origin: Option<SocketAddr>, bytes: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || Loop::new(listener, origin, answer(bytes)).and_then(Loop::run));
        address
    }

    #[test]
    fn answers_and_passes_as_often_as_it_is_asked() {
        let origin = start(None, 100);
        let passing = start(Some(origin), 0);
        for address in [origin, passing] {
            let mut client = TcpStream::connect(address).unwrap();
            for _ in 0..3 {
                client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                let mut received = vec![0; answer(100).len()];
                client.read_exact(&mut received).unwrap();
                assert_eq!(received, answer(100));
            }
        }
    }

    #[test]
    fn other_arguments_are_not_for_it() {
        let arguments = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(run(arguments(&["quick"]).into_iter()).is_none());
        let wrong = run(arguments(&[COMMAND, "127.0.0.1:0", "all"]).into_iter());
        assert!(wrong.is_some_and(|ended| ended.is_err()));
    }
}
