//! The slow origin: an HTTP server that sends thirty lines in three seconds.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use tidegate_os::{ListenAddr, ListenOptions};
use tidegate_rt::net::{Listener, Stream};
use tidegate_rt::timer::{sleep, timeout};
use tidegate_rt::{Worker, spawn_local};

const LINES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// Longest request head (bytes), and longest wait for it.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Most connections at once: a demonstration is not a load test.
const CONNECTIONS_MAX: u32 = 256;

/// Starts the origin on a free port of this machine; returns the port.
///
/// # Errors
/// No thread or socket is available.
pub(super) fn start() -> io::Result<u16> {
    let (sender, receiver) = sync_channel(1);
    // The thread lives as long as the process.
    let _worker = Worker::run("origin", None, move |_| async move {
        let any = ListenAddr::Inet(([127, 0, 0, 1], 0).into());
        match Listener::bind(&any, &ListenOptions::default()) {
            Ok(listener) => {
                let _ = sender.send(listener.local_addr());
                accept(&listener).await;
            }
            Err(error) => drop(sender.send(Err(error))),
        }
    })?;
    match receiver.recv() {
        Ok(Ok(ListenAddr::Inet(address))) => Ok(address.port()),
        Ok(Err(error)) => Err(error),
        _ => Err(io::Error::other("the origin has no port")),
    }
}

async fn accept(listener: &Listener) {
    let requests = Rc::new(Cell::new(0));
    let live = Rc::new(Cell::new(0_u32));
    loop {
        let Ok(stream) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        if live.get() >= CONNECTIONS_MAX {
            continue;
        }
        let (requests, live) = (requests.clone(), live.clone());
        live.set(live.get() + 1);
        spawn_local(async move {
            // A client that closes ends only its connection.
            let _ = respond(&stream, &requests).await;
            live.set(live.get() - 1);
        });
    }
}

async fn respond(stream: &Stream, requests: &Cell<u32>) -> io::Result<()> {
    let mut head = Vec::new();
    let read = timeout(HEAD_TIME, read_head(stream, &mut head)).await;
    read.map_err(|_| io::ErrorKind::TimedOut)??;
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).replace(|c: char| c.is_control(), " ");
    requests.set(requests.get() + 1);
    let number = requests.get();
    println!("origin: request {number}: {line}");
    let only_head = line.starts_with("HEAD ");

    let lines: Vec<String> = (1..=LINES)
        .map(|index| format!("line {index:2} of {LINES} of the response to request {number}\n"))
        .collect();
    let length: usize = lines.iter().map(String::len).sum();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Cache-Control: max-age=60\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if !only_head {
        for line in &lines {
            sleep(PAUSE).await;
            stream.write_all(line.as_bytes()).await?;
        }
    }
    stream.shutdown_write()
}

async fn read_head(stream: &Stream, head: &mut Vec<u8>) -> io::Result<()> {
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.reserve(1024);
        if stream.read_append(head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}
