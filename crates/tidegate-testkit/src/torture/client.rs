//! One request, and the check of its response, byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::object::{self, Random};

/// Longest silence of the server.
const SILENCE_MAX: Duration = Duration::from_secs(20);

const READ_BYTES: usize = 32 * 1024;

/// The result of a request.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub name: String,
    pub has_head: bool,
    /// The response ended as its framing says.
    pub is_whole: bool,
    pub is_hit: bool,
    /// Bytes of the body that were compared.
    pub bytes: u64,
    pub mistake: Option<String>,
}

/// The parsed fields of a head.
struct Head {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    is_hit: bool,
    /// First and last byte of the part, if it is one.
    part: Option<(u64, u64)>,
}

/// Requests an object. Some requests are for a range; with `leaves` some clients leave before the end.
pub(super) fn request_object(
    front: SocketAddr,
    number: u64,
    random: &mut Random,
    leaves: bool,
) -> Outcome {
    let length = object::length(number);
    let wanted = (random.below(6) == 0 && length > 0).then(|| {
        let first = random.below(length);
        (first, first + random.below(length - first))
    });
    let name = format!("/{number} {wanted:?}");
    let mut outcome = Outcome { name, ..Outcome::default() };
    let enough = if leaves && random.below(10) == 0 { random.below(length + 1) } else { u64::MAX };
    // Errors are closed connections: wrong bytes are in the outcome.
    let _ = exchange(front, number, wanted, enough, &mut outcome);
    outcome
}

fn exchange(
    front: SocketAddr,
    number: u64,
    wanted: Option<(u64, u64)>,
    enough: u64,
    outcome: &mut Outcome,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(front)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let range =
        wanted.map_or(String::new(), |(first, last)| format!("Range: bytes={first}-{last}\r\n"));
    let request = format!("GET /{number} HTTP/1.1\r\nHost: h\r\n{range}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::with_capacity(READ_BYTES, stream);
    let head = read_head(&mut reader)?;
    outcome.has_head = true;
    outcome.is_hit = head.is_hit;
    let whole = object::length(number);
    let (first, end) = match (head.status, head.part) {
        (200, _) => (0, whole),
        (206, Some((first, last))) if wanted == Some((first, last)) => (first, last + 1),
        _ => {
            outcome.mistake = Some(format!("status {} with part {:?}", head.status, head.part));
            return Ok(());
        }
    };
    if head.length.is_some_and(|length| length != end - first) {
        outcome.mistake = Some(format!("length {:?} of {}", head.length, end - first));
        return Ok(());
    }
    let mut body = Body { number, offset: first, end, outcome };
    if head.is_chunked {
        return body.chunks(&mut reader, enough);
    }
    let ended = body.bytes(&mut reader, (end - first).min(enough));
    let (offset, is_all) = (body.offset, body.offset == end);
    // A response without framing ends with the connection: there it must be complete.
    if head.length.is_none() && ended.is_ok() && !is_all && enough == u64::MAX {
        outcome.mistake = Some(format!("ends at {offset} of {end}"));
    }
    outcome.is_whole = is_all && outcome.mistake.is_none();
    ended
}

struct Body<'a> {
    number: u64,
    offset: u64,
    end: u64,
    outcome: &'a mut Outcome,
}

impl Body<'_> {
    /// Compares N bytes; an error when they do not arrive.
    fn bytes(&mut self, reader: &mut impl Read, count: u64) -> std::io::Result<()> {
        let mut left = count;
        let mut buffer = vec![0; READ_BYTES];
        while left > 0 {
            let most = left.min(READ_BYTES as u64) as usize;
            let read = reader.read(&mut buffer[..most])?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let expected = object::bytes(self.number, self.offset, read);
            if self.offset + read as u64 > self.end || expected != buffer[..read] {
                let at = expected.iter().zip(&buffer).take_while(|(a, b)| a == b).count();
                let at = self.offset + at as u64;
                self.outcome.mistake = Some(format!("wrong byte at {at} of {}", self.end));
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            self.offset += read as u64;
            self.outcome.bytes += read as u64;
            left -= read as u64;
        }
        Ok(())
    }

    fn chunks(&mut self, reader: &mut impl BufRead, enough: u64) -> std::io::Result<()> {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Ok(length) = u64::from_str_radix(line.trim_end(), 16) else {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            };
            if length == 0 {
                if self.offset == self.end {
                    self.outcome.is_whole = true;
                } else {
                    let (at, end) = (self.offset, self.end);
                    self.outcome.mistake = Some(format!("ends at {at} of {end} as if whole"));
                }
                return Ok(());
            }
            self.bytes(reader, length)?;
            if self.offset > enough {
                return Ok(());
            }
            reader.read_line(&mut String::new())?;
        }
    }
}

fn read_head(reader: &mut impl BufRead) -> std::io::Result<Head> {
    let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(cut)?;
    let mut head = Head { status, length: None, is_chunked: false, is_hit: false, part: None };
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field)? == 0 {
            return Err(cut());
        }
        let Some((name, value)) = field.trim_end().split_once(": ") else { return Ok(head) };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = value.parse().ok(),
            "transfer-encoding" => head.is_chunked = true,
            "x-cache" => head.is_hit = value == "HIT",
            "content-range" => head.part = part(value),
            _ => {}
        }
    }
}

fn part(value: &str) -> Option<(u64, u64)> {
    let (first, rest) = value.strip_prefix("bytes ")?.split_once('-')?;
    let (last, _) = rest.split_once('/')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}
