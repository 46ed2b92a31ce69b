//! The lower bound of a server's cost: a loop that responds to each read with the same bytes or the same file, or passes
//! the bytes of pairs of connections on. It has neither HTTP nor limits; its cost is the kernel's share of a request,
//! the minimum for any server with the same system calls. The load closes all connections at its end.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::rc::Rc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// The response to each read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A body of this number of bytes.
    Respond(u64),
    /// A file of this number of bytes, by `sendfile`.
    SendFile(u64),
    /// Passed to the origin, and the origin's bytes back.
    Pass,
}

/// First argument of such a process.
const COMMAND: &str = "raw-loop";
/// Prefix of the length of a file.
const FILE: &str = "file:";
/// Connections within one machine are not paced, as Tidegate's.
const CONGESTION_CONTROL: &str = "reno";

/// Adds the arguments that make this program such a loop.
pub(crate) fn add_arguments(
    command: &mut Command,
    work: Work,
    listen: SocketAddr,
    origin: SocketAddr,
) {
    command.arg(COMMAND).arg(listen.to_string());
    match work {
        Work::Respond(bytes) => command.arg(bytes.to_string()),
        Work::SendFile(bytes) => command.arg(format!("{FILE}{bytes}")),
        Work::Pass => command.arg(origin.to_string()),
    };
}

/// Serves until the process is ended, if the arguments ask for that.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Option<Result<(), String>> {
    let texts: Vec<_> = arguments.map(|text| text.to_string_lossy().into_owned()).collect();
    match texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [COMMAND, listen, what] => Some(serve(listen, what)),
        _ => None,
    }
}

fn serve(listen: &str, what: &str) -> Result<(), String> {
    let listener = TcpListener::bind(listen).map_err(|error| format!("bind() failed: {error}"))?;
    let number = |text: &str| text.parse::<usize>().ok();
    let reply = if let Ok(origin) = what.parse::<SocketAddr>() {
        Ok(Reply::Pass(origin))
    } else if let Some(bytes) = what.strip_prefix(FILE).and_then(number) {
        file(bytes)
    } else if let Some(bytes) = number(what) {
        Ok(Reply::Bytes(response(bytes)))
    } else {
        return Err(format!("neither an origin nor a number of bytes: {what}"));
    };
    let looped = reply.and_then(|reply| Loop::new(listener, reply));
    looped.and_then(Loop::run).map_err(|error| error.to_string())
}

/// The destination of received bytes.
enum Reply {
    Pass(SocketAddr),
    Bytes(Vec<u8>),
    /// A head, and a file of this number of bytes.
    File(Vec<u8>, File, u64),
}

fn file(bytes: usize) -> io::Result<Reply> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![b'x'; bytes])?;
    Ok(Reply::File(head(bytes), file, bytes as u64))
}

fn response(bytes: usize) -> Vec<u8> {
    [head(bytes), vec![b'x'; bytes]].concat()
}

/// With the fields that the measured servers send.
fn head(bytes: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: tidegate-bench\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Content-Type: text/plain\r\nContent-Length: {bytes}\r\nConnection: keep-alive\r\n\r\n"
    );
    head.into_bytes()
}

struct Loop {
    listener: TcpListener,
    reply: Reply,
    epoll: OwnedFd,
    /// Sends the bytes of a descriptor on: to its own connection, or to the other one of the pair.
    ways: HashMap<u64, (Rc<TcpStream>, Rc<TcpStream>), foldhash::fast::RandomState>,
}

impl Loop {
    fn new(listener: TcpListener, reply: Reply) -> io::Result<Loop> {
        listener.set_nonblocking(true)?;
        rustix::net::sockopt::set_tcp_congestion(&listener, CONGESTION_CONTROL)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let looped = Loop { listener, reply, epoll, ways: HashMap::default() };
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
            match self.reply {
                Reply::Bytes(_) | Reply::File(..) => self.add(&client, &client)?,
                Reply::Pass(origin) => {
                    let origin = Rc::new(TcpStream::connect(origin)?);
                    rustix::net::sockopt::set_tcp_congestion(&*origin, CONGESTION_CONTROL)?;
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

    /// An error is the end of the connection. So is a response that the socket does not accept completely.
    fn pass(&self, number: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Some((from, to)) = self.ways.get(&number) else { return Ok(()) };
        let read = match rustix::net::recv(&**from, &mut *buffer, RecvFlags::empty()) {
            Err(Errno::AGAIN) => return Ok(()),
            other => other?.0,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &self.reply {
            Reply::Pass(_) => send(to, &buffer[..read], SendFlags::NOSIGNAL),
            Reply::Bytes(bytes) => send(to, bytes, SendFlags::NOSIGNAL),
            Reply::File(head, file, bytes) => {
                send(to, head, SendFlags::NOSIGNAL | SendFlags::MORE)?;
                send_file(to, file, *bytes)
            }
        }
    }

    fn close(&mut self, number: u64) {
        if let Some((_, to)) = self.ways.remove(&number) {
            self.ways.remove(&(to.as_raw_fd() as u64));
        }
    }
}

fn send(to: &TcpStream, bytes: &[u8], flags: SendFlags) -> io::Result<()> {
    match rustix::net::send(to, bytes, flags)? {
        written if written < bytes.len() => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(()),
    }
}

/// Waits for room, which a young connection may lack.
fn send_file(to: &TcpStream, file: &File, bytes: u64) -> io::Result<()> {
    let mut offset = 0;
    while offset < bytes {
        let rest = usize::try_from(bytes - offset).unwrap_or(usize::MAX);
        match rustix::fs::sendfile(to, file, Some(&mut offset), rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN) => {
                rustix::event::poll(&mut [PollFd::new(to, PollFlags::OUT)], None)?;
            }
            other => drop(other?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A loop that runs until the tests end.
    fn start(reply: Reply) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || Loop::new(listener, reply).and_then(Loop::run));
        address
    }

    #[test]
    fn responds_and_passes_on_each_request() {
        let origin = start(Reply::Bytes(response(100)));
        let passing = start(Reply::Pass(origin));
        // More than a socket takes at once.
        let large = 20 << 20;
        for (address, bytes) in
            [(origin, 100), (passing, 100), (start(file(large).unwrap()), large)]
        {
            let mut client = TcpStream::connect(address).unwrap();
            for _ in 0..3 {
                client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                let mut received = vec![0; response(bytes).len()];
                client.read_exact(&mut received).unwrap();
                assert!(received == response(bytes), "{bytes}");
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
