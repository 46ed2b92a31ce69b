//! One reader: sends requests, reads responses, and has them checked.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::judge::{Consistency, Response};
use super::subject::Subject;
use super::{CoherenceReport, LINKED, OWNER};
use crate::torture::object::Random;

/// Longest silence of the server.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A client that keeps its connection.
pub(super) struct Reader {
    pub report: CoherenceReport,
    front: SocketAddr,
    random: Random,
    stream: Option<BufReader<TcpStream>>,
}

impl Reader {
    pub(super) fn new(front: SocketAddr, random: Random) -> Reader {
        Reader { report: CoherenceReport::default(), front, random, stream: None }
    }

    /// Requests a subject by one of its names.
    pub(super) fn visit(&mut self, subjects: &[Subject]) {
        let which = self.random.below(subjects.len() as u64) as usize;
        let prefix = match self.random.below(4) {
            0 => OWNER,
            1 => LINKED,
            _ => "",
        };
        if let Some(subject) = subjects.get(which) {
            self.ask(subject, prefix);
        }
    }

    /// Sends one request and checks its response.
    pub(super) fn ask(&mut self, subject: &Subject, prefix: &str) {
        let target = format!("{prefix}{}", subject.target);
        let oldest = subject.history.done();
        let response = self.exchange(&target);
        let consistency = match response {
            Ok(response) => {
                self.report.bytes += response.body.len() as u64;
                subject.history.judge(oldest, &response)
            }
            Err(error) => Err(format!("no response: {error}")),
        };
        match consistency {
            Ok(Consistency::Complete) => self.report.whole += 1,
            Ok(Consistency::Absent) => {
                self.report.whole += 1;
                self.report.absent += 1;
            }
            Ok(Consistency::Truncated) => self.report.cut += 1,
            Err(mistake) => self.report.mistakes.push(format!("{target}: {mistake}")),
        }
    }

    fn exchange(&mut self, target: &str) -> io::Result<Response> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.front)?;
                stream.set_read_timeout(Some(SILENCE_MAX))?;
                stream.set_nodelay(true)?;
                BufReader::with_capacity(READ_BYTES, stream)
            }
        };
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes())?;
        let (mut response, closes) = read_head(&mut stream)?;
        (&mut stream).take(response.length).read_to_end(&mut response.body).or_else(|error| {
            match error.kind() {
                io::ErrorKind::ConnectionReset => Ok(0),
                _ => Err(error),
            }
        })?;
        if !closes && response.body.len() as u64 == response.length {
            self.stream = Some(stream);
        }
        Ok(response)
    }
}

fn read_head(reader: &mut impl BufRead) -> io::Result<(Response, bool)> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if line.is_empty() {
        return Ok((Response { status: 0, length: 0, body: Vec::new() }, true));
    }
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(wrong)?;
    let (mut length, mut closes) = (None, false);
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field)? == 0 {
            return Err(wrong());
        }
        let Some((name, value)) = field.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok(),
            "connection" => closes = value == "close",
            _ => {}
        }
    }
    let length = length.ok_or_else(wrong)?;
    Ok((Response { status, length, body: Vec::new() }, closes))
}

const READ_BYTES: usize = 32 * 1024;
