//! A collector of traces that takes what it gets.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Listens on loopback. Returns the address, and the number of exports that it has taken. Its threads end with the process.
pub(super) fn start() -> io::Result<(SocketAddr, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let taken = Arc::<AtomicUsize>::default();
    let counted = taken.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counted = counted.clone();
            // A connection that fails is seen by the server that has made it.
            thread::spawn(move || take(stream, &counted));
        }
    });
    Ok((address, taken))
}

/// Responds to each request of a connection, until it ends.
fn take(stream: TcpStream, taken: &AtomicUsize) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        io::copy(&mut (&mut reader).take(length), &mut io::sink())?;
        taken.fetch_add(1, Ordering::Relaxed);
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}
