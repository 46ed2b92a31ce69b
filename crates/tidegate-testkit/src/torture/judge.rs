//! One request for an object in one of several forms, and the check of its response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flate2::read::MultiGzDecoder;

use super::object::{self, Random};
use super::pause;

/// Longest silence of the server.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Bytes that a client reads at a time.
const READ_BYTES: usize = 64 * 1024;

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResponseCheck {
    /// Complete, and equal to the object.
    Correct,
    /// A visible failure: no response, or an incomplete one.
    Refused,
    /// Complete for the client, with other bytes than the object's.
    Wrong(String),
}

/// A request, and how the client takes its response.
#[derive(Debug)]
pub(super) struct TestRequest {
    pub number: u64,
    /// First part of the path, which selects the configuration.
    pub way: &'static str,
    method: &'static str,
    /// A field besides `Host`.
    field: String,
    /// The requested range: first byte, and the one after the last.
    part: Option<(u64, u64)>,
    /// Pauses between reads.
    is_slow: bool,
}

impl TestRequest {
    pub(super) fn any(number: u64, ways: &[&'static str], random: &mut Random) -> TestRequest {
        let way = ways.get(random.below(ways.len() as u64) as usize).copied().unwrap_or("");
        let length = object::length(number);
        let mut ask =
            TestRequest { way, is_slow: random.below(8) == 0, ..TestRequest::whole(number) };
        match random.below(12) {
            0 => ask.method = "HEAD",
            1 => ask.field = format!("If-None-Match: \"{number}\"\r\n"),
            2 | 3 if length > 0 => {
                let first = random.below(length);
                let end = first + 1 + random.below(length - first);
                ask.part = Some((first, end));
                ask.field = format!("Range: bytes={first}-{}\r\n", end - 1);
            }
            4 if random.below(8) == 0 => ask.method = "PURGE",
            5..=8 => ask.field = "Accept-Encoding: gzip\r\n".to_owned(),
            _ => {}
        }
        ask
    }

    /// Returns the simplest request for the whole object.
    pub(super) fn whole(number: u64) -> TestRequest {
        let field = String::new();
        TestRequest { number, way: "", method: "GET", field, part: None, is_slow: false }
    }

    /// Sends the request and reads until the end of the connection.
    pub(super) fn send(&self, front: SocketAddr) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(front)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let TestRequest { number, way, method, field, .. } = self;
        let request = format!(
            "{method} {way}/{number} HTTP/1.1\r\nHost: h\r\n{field}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut response = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        // A reset leaves a part of a response.
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            response.extend_from_slice(&buffer[..count]);
            if self.is_slow {
                pause(Duration::from_millis(2));
            }
        }
        Ok(response)
    }

    /// Whether a response was fetched for this request or during it: it is read from a file in progress.
    pub(super) fn is_fetched(response: &[u8]) -> bool {
        let status =
            split(response).and_then(|(head, _)| field(&head, "x-cache").map(str::to_owned));
        status.is_none_or(|status| matches!(&*status, "MISS" | "EXPIRED" | "BYPASS"))
    }

    /// Checks received bytes; `object` are those of the object.
    pub(super) fn judge(&self, response: &[u8], object: &[u8]) -> ResponseCheck {
        let Some((head, body)) = split(response) else { return ResponseCheck::Refused };
        let status = head.split(' ').nth(1).unwrap_or("");
        let length = field(&head, "content-length").and_then(|text| text.parse::<usize>().ok());
        match (self.method, status) {
            ("PURGE", _) => return ResponseCheck::Correct,
            (_, "304") if self.field.starts_with("If-None-Match") => return ResponseCheck::Correct,
            (_, "502" | "504") => return ResponseCheck::Refused,
            ("HEAD", "200") => return judge_head(&head, length, object.len()),
            (_, "200" | "206") => {}
            _ => return ResponseCheck::Wrong(format!("status {status}")),
        }
        let is_chunked = field(&head, "transfer-encoding").is_some();
        let body = match (is_chunked, length) {
            (true, _) => dechunked(body),
            (false, Some(length)) => (body.len() >= length).then(|| body[..length].to_vec()),
            (false, None) => Some(body.to_vec()),
        };
        let Some(body) = body else { return ResponseCheck::Refused };
        let body = match field(&head, "content-encoding") {
            None => body,
            Some(_) => {
                let mut plain = Vec::new();
                if MultiGzDecoder::new(&body[..]).read_to_end(&mut plain).is_err() {
                    return ResponseCheck::Wrong("no whole gzip".to_owned());
                }
                plain
            }
        };
        match self.part.filter(|_| status == "206") {
            Some((first, end)) => compare(&object[first as usize..end as usize], &body),
            None => compare(object, &body),
        }
    }
}

fn judge_head(head: &str, length: Option<usize>, right: usize) -> ResponseCheck {
    match length {
        Some(length) if length != right && field(head, "content-encoding").is_none() => {
            ResponseCheck::Wrong(format!("length {length} of {right}"))
        }
        _ => ResponseCheck::Correct,
    }
}

fn compare(right: &[u8], body: &[u8]) -> ResponseCheck {
    if right == body {
        return ResponseCheck::Correct;
    }
    let same = right.iter().zip(body).take_while(|(a, b)| a == b).count();
    ResponseCheck::Wrong(format!("byte {same} of {}, {} received", right.len(), body.len()))
}

fn split(response: &[u8]) -> Option<(String, &[u8])> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&response[..end]).into_owned(), &response[end + 4..]))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// `None` without the last chunk.
fn dechunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let length = std::str::from_utf8(&body[..end]).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        body = &body[end + 2..];
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(..length)?);
        body = body.get(length + 2..)?;
    }
}
