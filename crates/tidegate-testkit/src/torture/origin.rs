//! The origin: `/NUMBER` is the object of that number.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{object, pause};

/// Bytes sent at a time.
const PIECE_BYTES: u64 = 16 * 1024;

/// Starts the origin; it ends with the process.
pub(super) fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves, or was killed, is not an error.
            std::thread::spawn(move || drop(serve(&stream)));
        }
    });
    Ok(address)
}

/// Responds to requests until the connection ends.
fn serve(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut tag, mut range) = (String::new(), String::new(), None);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        loop {
            let mut field = String::new();
            if reader.read_line(&mut field)? == 0 {
                return Ok(());
            }
            let Some((name, value)) = field.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "if-none-match" => tag = value.trim().to_owned(),
                "range" => range = part(value),
                _ => {}
            }
        }
        let number =
            line.split(' ').nth(1).and_then(|target| target.trim_matches('/').parse().ok());
        match number {
            Some(number) => respond(stream, number, &tag, range)?,
            None => (&*stream).write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")?,
        }
    }
}

/// First byte and, if it is given, the last.
fn part(value: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = value.trim().strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()))
}

fn respond(
    mut stream: &TcpStream,
    number: u64,
    tag: &str,
    range: Option<(u64, Option<u64>)>,
) -> std::io::Result<()> {
    let age = if object::is_short_lived(number) { 1 } else { 3600 };
    let fields = format!("ETag: \"{number}\"\r\nCache-Control: max-age={age}\r\n");
    if tag == format!("\"{number}\"") {
        let head = format!("HTTP/1.1 304 Same\r\n{fields}\r\n");
        return stream.write_all(head.as_bytes());
    }
    let length = object::length(number);
    let is_chunked = object::is_chunked(number);
    let part = range.filter(|(first, _)| *first < length).map(|(first, last)| {
        (first, last.map_or(length, |last| last.saturating_add(1).min(length)))
    });
    let (mut offset, end) = part.unwrap_or((0, length));
    let status = match part {
        Some((first, end)) => {
            format!("206 Part\r\nContent-Range: bytes {first}-{}/{length}", end - 1)
        }
        None => "200 Good".to_owned(),
    };
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", end - offset),
    };
    stream.write_all(format!("HTTP/1.1 {status}\r\n{framing}\r\n{fields}\r\n").as_bytes())?;
    while offset < end {
        let piece = object::bytes(number, offset, PIECE_BYTES.min(end - offset) as usize);
        offset += piece.len() as u64;
        if is_chunked {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        stream.write_all(&piece)?;
        if is_chunked {
            stream.write_all(b"\r\n")?;
        }
        if object::is_slow(number) {
            pause(Duration::from_millis(3));
        }
    }
    if is_chunked {
        stream.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}
