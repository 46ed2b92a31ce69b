//! The origin of the servers: it accepts uploads, and echoes tunnels, sessions and datagrams.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::busy::step_back;

/// Threads that serve until it is dropped.
pub(super) struct Partner {
    pub address: SocketAddr,
    /// The address that echoes datagrams.
    pub echo: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Partner {
    /// Starts on free ports of the loopback.
    ///
    /// # Errors
    /// No port is available.
    pub(super) fn start() -> io::Result<Partner> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        let (listener, socket) = (TcpListener::bind(any)?, UdpSocket::bind(any)?);
        let (address, echo) = (listener.local_addr()?, socket.local_addr()?);
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (accepts, responses) = (stop.clone(), stop.clone());
        let threads = vec![
            thread::spawn(move || {
                step_back();
                for client in listener.incoming() {
                    if accepts.load(Ordering::Relaxed) {
                        break;
                    }
                    if let Ok(client) = client {
                        let stop = accepts.clone();
                        // It ends with its connection, or soon after the partner.
                        thread::spawn(move || serve(client, &stop));
                    }
                }
            }),
            thread::spawn(move || {
                step_back();
                let mut buffer = [0; 2048];
                while !responses.load(Ordering::Relaxed) {
                    if let Ok((count, from)) = socket.recv_from(&mut buffer) {
                        let _ = socket.send_to(&buffer[..count], from);
                    }
                }
            }),
        ];
        Ok(Partner { address, echo, stop, threads })
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Responds to an upload after its end; echoes a tunnel and any data that is not a request.
fn serve(mut client: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    while !stop.load(Ordering::Relaxed) && filled < buffer.len() {
        match client.read(&mut buffer[filled..])? {
            0 => return Ok(()),
            count => filled += count,
        }
        let input = &buffer[..filled];
        if !input.starts_with(b"POST ") && !input.starts_with(b"GET ") {
            client.write_all(input)?;
            return echo(client, &mut buffer, stop);
        }
        let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
        if head.contains("\r\nupgrade:") {
            client.write_all(SWITCHED)?;
            client.write_all(&input[end + 4..])?;
            return echo(client, &mut buffer, stop);
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let mut received = filled - (end + 4);
        while received < length {
            match client.read(&mut buffer)? {
                0 => return Ok(()),
                count => received += count,
            }
        }
        return client.write_all(TAKEN);
    }
    Ok(())
}

fn echo(mut client: TcpStream, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        match client.read(buffer)? {
            0 => break,
            count => client.write_all(&buffer[..count])?,
        }
    }
    Ok(())
}

const SWITCHED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n";
const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);
