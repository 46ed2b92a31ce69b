//! The origin of the configurations: it speaks HTTP, FastCGI, SCGI and uwsgi on one address and echoes
//! requests; and a name server that resolves every name to this machine.

use crate::bell::Failure;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Longest time that a connection of the origin may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Most bytes of a request that the origin reads.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// Silence of a silent origin: longer than the configured timeouts.
const SILENT: Duration = Duration::from_secs(3);

/// Bytes of a large response: more than the buffers of servers hold.
const LARGE_BYTES: usize = 150_000;

/// The addresses of both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stubs {
    pub origin: SocketAddr,
    pub names: SocketAddr,
}

impl Stubs {
    /// Starts both. They end with the program.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("no stubs: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let stubs = Self {
            origin: listener.local_addr().map_err(failed)?,
            names: names.local_addr().map_err(failed)?,
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream));
            }
        });
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = names.recv_from(&mut question) {
                if let Some(response) = name_response(&question[..length]) {
                    let _ = names.send_to(&response, from);
                }
            }
        });
        Ok(stubs)
    }
}

/// Serves one connection, in the protocol of its first byte.
fn serve(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(SILENCE_MAX));
    let mut input = Vec::new();
    while more(&mut stream, &mut input) {
        let done = match input[0] {
            1 => fastcgi(&mut stream, &mut input),
            0 => uwsgi(&mut stream, &input),
            b'0'..=b'9' => scgi(&mut stream, &input),
            _ => http(&mut stream, &mut input),
        };
        if done {
            return;
        }
    }
}

/// Reads more; false at the end, when it fails and when there is too much.
fn more(stream: &mut TcpStream, input: &mut Vec<u8>) -> bool {
    let mut piece = [0; 16 * 1024];
    match stream.read(&mut piece) {
        Ok(length) if length > 0 && input.len() < REQUEST_BYTES_MAX => {
            input.extend_from_slice(&piece[..length]);
            true
        }
        _ => false,
    }
}

/// Requests follow each other here; true when the connection is over.
fn http(stream: &mut TcpStream, input: &mut Vec<u8>) -> bool {
    while let Some(end) = find(input, b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&input[..end]).into_owned();
        let Some((body, used)) = http_body(&head, &input[end + 4..]) else { return false };
        let body = body.to_vec();
        input.drain(..end + 4 + used);
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        let line = lines.remove(0);
        lines.sort_unstable();
        let closes = lines.iter().any(|line| line.eq_ignore_ascii_case("connection: close"))
            || line.ends_with("HTTP/1.0");
        let target = line.split(' ').nth(1).unwrap_or_default();
        let said = format!("{line}\n{}\n\n{}", lines.join("\n"), String::from_utf8_lossy(&body));
        let asked = Asked { line, fields: &lines, target, said: &said, closes };
        match asked.serve(stream) {
            Ok(true) => {}
            _ => return true,
        }
        if closes {
            return true;
        }
    }
    false
}

/// The body and its length on the wire, once it is there.
fn http_body<'a>(head: &str, rest: &'a [u8]) -> Option<(&'a [u8], usize)> {
    let field = |name: &str| {
        head.split("\r\n").find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    if field("transfer-encoding").is_some() {
        let end = find(rest, b"0\r\n\r\n")? + 5;
        return Some((&rest[..end], end));
    }
    let length = field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    rest.get(..length).map(|body| (body, length))
}

/// A request as received by the origin.
struct Asked<'a> {
    line: &'a str,
    fields: &'a [&'a str],
    target: &'a str,
    said: &'a str,
    closes: bool,
}

impl Asked<'_> {
    /// Responds as the target asks: `s=404` is a status, `s=302` with a place, `o=cut` and the like a way to
    /// behave, anything else 200 with fields that proxies treat in particular ways. False when the connection is over.
    fn serve(&self, stream: &mut TcpStream) -> std::io::Result<bool> {
        let upgrades = self
            .fields
            .iter()
            .any(|line| line.to_ascii_lowercase().starts_with("upgrade: websocket"));
        let joined =
            self.fields.iter().any(|line| line.eq_ignore_ascii_case("connection: upgrade"));
        if upgrades && joined {
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nother words")?;
            return Ok(false);
        }
        let length = |length: usize| format!("Content-Length: {length}\r\n");
        let said = self.said.as_bytes();
        match behaviour(self.target) {
            "close" => return Ok(false),
            "wrong" => {
                stream.write_all(b"no response at all\r\n\r\n")?;
                return Ok(false);
            }
            "silent" => {
                std::thread::sleep(SILENT);
                return Ok(false);
            }
            "cut" => {
                self.respond(stream, &length(said.len() + 100), said)?;
                return Ok(false);
            }
            "early" => {
                stream.write_all(
                    b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
                )?;
                self.respond(stream, &length(said.len()), said)?;
            }
            "chunked" => {
                let mut body = format!("{:x}\r\n", said.len()).into_bytes();
                body.extend_from_slice(said);
                body.extend_from_slice(b"\r\n0\r\n\r\n");
                self.respond(stream, "Transfer-Encoding: chunked\r\n", &body)?;
            }
            "gzip" => {
                let mut packer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                packer.write_all(said)?;
                let body = packer.finish()?;
                let fields = format!("Content-Encoding: gzip\r\n{}", length(body.len()));
                self.respond(stream, &fields, &body)?;
            }
            "accel" => {
                let fields = format!(
                    "X-Accel-Redirect: /a.txt?o=after\r\nX-Accel-Expires: 60\r\n{}",
                    length(said.len())
                );
                self.respond(stream, &fields, said)?;
            }
            "large" => {
                let body = said.repeat(LARGE_BYTES / said.len().max(1) + 1);
                self.respond(stream, &length(body.len()), &body)?;
            }
            "empty" => self.respond(stream, &length(0), b"")?,
            _ => self.respond(stream, &length(said.len()), said)?,
        }
        Ok(true)
    }

    fn respond(
        &self,
        stream: &mut TcpStream,
        fields_more: &str,
        body: &[u8],
    ) -> std::io::Result<()> {
        let mut response = format!("HTTP/1.1 {}\r\n", status(self.target)).into_bytes();
        let host =
            self.fields.iter().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
        let own = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
        let mut fields = fields(self.target, host, &own);
        fields.push_str("Content-Type: text/plain\r\nServer: origin/1\r\nX-Powered-By: origin\r\n");
        fields.push_str("Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n");
        fields.push_str(if self.closes {
            "Connection: close\r\n"
        } else {
            "Connection: keep-alive\r\n"
        });
        fields.push_str(fields_more);
        fields.push_str("\r\n");
        response.extend_from_slice(fields.as_bytes());
        if !self.line.starts_with("HEAD ") && !status(self.target).starts_with("304") {
            response.extend_from_slice(body);
        }
        stream.write_all(&response)
    }
}

/// Returns the word after `o=`.
fn behaviour(target: &str) -> &str {
    let after = target.split("?o=").nth(1).or(target.split("&o=").nth(1)).unwrap_or_default();
    after.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default()
}

fn status(target: &str) -> String {
    let after = target.split("s=").nth(1).and_then(|rest| rest.get(..3));
    match after.filter(|code| code.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(code) if code > "199" && code != "204" => format!("{code} Said"),
        _ => "200 OK".into(),
    }
}

/// Fields of a response that configurations like to hide, rewrite or obey.
fn fields(target: &str, host: &str, own: &str) -> String {
    let mut fields = String::new();
    if target.contains("s=301") {
        fields.push_str(&format!("Location: http://{own}/moved/here?a=b\r\n"));
    } else if target.contains("s=307") {
        fields.push_str(&format!("Location: http://{host}/moved/here?a=b\r\n"));
    } else if target.contains("s=30") {
        fields.push_str("Location: /moved/here?a=b\r\nRefresh: 5; url=/refreshed\r\n");
    }
    if target.contains("s=401") {
        fields.push_str("WWW-Authenticate: Basic realm=\"origin\"\r\n");
    }
    if target.contains("cookie") || target.contains("s=2") {
        fields.push_str("Set-Cookie: one=1; Path=/; Domain=origin.test\r\nSet-Cookie: two=2\r\n");
        fields.push_str("Vary: Cookie\r\nCache-Control: no-cache\r\nX-Frame-Options: DENY\r\n");
    } else {
        fields.push_str("ETag: \"one\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n");
    }
    fields
}

/// The response of every application: the parameters in order, without those that must differ.
fn gateway_response(parameters: Vec<(String, String)>, body: &[u8]) -> String {
    let value = |name: &str| {
        parameters.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
    };
    let target = value("REQUEST_URI").to_owned();
    let mut lines: Vec<String> = parameters
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "REMOTE_PORT" | "SERVER_SOFTWARE"))
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    lines.sort_unstable();
    let (host, own) = (value("HTTP_HOST").to_owned(), "origin.test");
    let more = match behaviour(&target) {
        "accel" => "X-Accel-Redirect: /a.txt?o=after\r\n",
        "early" => "X-Accel-Expires: 60\r\nX-Accel-Buffering: no\r\n",
        "wrong" => return "no response at all\n\n".into(),
        "close" => return String::new(),
        "silent" => {
            std::thread::sleep(SILENT);
            return String::new();
        }
        _ => "",
    };
    let said = format!("{}\n{}", lines.concat(), String::from_utf8_lossy(body));
    let said = match behaviour(&target) {
        "empty" => String::new(),
        "large" => said.repeat(LARGE_BYTES / said.len() + 1),
        _ => said,
    };
    format!(
        "Status: {}\r\n{}{more}Content-Type: text/html\r\nX-Powered-By: origin\r\n\r\n{said}",
        status(&target),
        fields(&target, &host, own),
    )
}

/// Keeps the connection where the request says so.
fn fastcgi(stream: &mut TcpStream, input: &mut Vec<u8>) -> bool {
    let (mut at, mut parameters, mut body, mut ended) = (0, Vec::new(), Vec::new(), false);
    let mut keeps = false;
    while let Some(head) = input.get(at..at + 8) {
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let Some(content) = input.get(at + 8..at + 8 + length) else { return false };
        match head[1] {
            1 => keeps = content.get(2).is_some_and(|flags| flags & 1 == 1),
            4 => parameters.extend_from_slice(content),
            5 => {
                body.extend_from_slice(content);
                ended = length == 0;
            }
            _ => {}
        }
        at += 8 + length + usize::from(head[6]);
    }
    if !ended {
        return false;
    }
    let said = gateway_response(pairs(&parameters), &body);
    if said.is_empty() {
        return true;
    }
    let mut response = Vec::new();
    for piece in said.as_bytes().chunks(usize::from(u16::MAX)) {
        response.extend_from_slice(&[1, 6, 0, 1]);
        response.extend_from_slice(&(piece.len() as u16).to_be_bytes());
        response.extend_from_slice(&[0, 0]);
        response.extend_from_slice(piece);
    }
    response.extend_from_slice(&[
        1, 6, 0, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    input.clear();
    stream.write_all(&response).is_err() || !keeps
}

/// FastCGI's names and values: lengths of one or of four bytes before them.
fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let first = *bytes.first()?;
        if first < 0x80 {
            *bytes = &bytes[1..];
            return Some(usize::from(first));
        }
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        *bytes = &bytes[4..];
        Some((u32::from_be_bytes(four) & 0x7fff_ffff) as usize)
    }
    let mut rest = bytes;
    let mut found = Vec::new();
    while let (Some(name), Some(value)) = (length(&mut rest), length(&mut rest)) {
        let (Some(key), Some(text)) = (rest.get(..name), rest.get(name..name + value)) else {
            break;
        };
        found.push((text_of(key), text_of(text)));
        rest = &rest[name + value..];
    }
    found
}

fn scgi(stream: &mut TcpStream, input: &[u8]) -> bool {
    let Some(colon) = find(input, b":") else { return false };
    let length: usize = text_of(&input[..colon]).parse().unwrap_or(0);
    let Some(head) = input.get(colon + 1..colon + 1 + length) else { return false };
    let mut words = head.split(|byte| *byte == 0).map(text_of);
    let mut parameters = Vec::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        parameters.push((name, value));
    }
    let body = input.get(colon + 2 + length..).unwrap_or_default();
    gateway_end(stream, parameters, body)
}

fn uwsgi(stream: &mut TcpStream, input: &[u8]) -> bool {
    let Some(head) = input.get(..4) else { return false };
    let length = usize::from(u16::from_le_bytes([head[1], head[2]]));
    let Some(mut rest) = input.get(4..4 + length) else { return false };
    let mut words = Vec::new();
    while let Some(size) = rest.get(..2) {
        let end = 2 + usize::from(u16::from_le_bytes([size[0], size[1]]));
        words.push(text_of(rest.get(2..end).unwrap_or_default()));
        rest = rest.get(end..).unwrap_or_default();
    }
    let parameters = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    gateway_end(stream, parameters, &input[4 + length..])
}

/// Responds once the announced body has arrived.
fn gateway_end(stream: &mut TcpStream, parameters: Vec<(String, String)>, body: &[u8]) -> bool {
    let announced = parameters.iter().find(|(name, _)| name == "CONTENT_LENGTH");
    let announced = announced.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    if body.len() < announced {
        return false;
    }
    let _ = stream.write_all(gateway_response(parameters, body).as_bytes());
    true
}

/// Resolves every name to the address of this machine, without an IPv6 address.
fn name_response(question: &[u8]) -> Option<Vec<u8>> {
    let mut at = 12;
    while *question.get(at)? != 0 {
        at += 1 + usize::from(question[at]);
    }
    let kind = question.get(at + 1..at + 3)?;
    let known = kind == [0, 1];
    let mut response = question.get(..at + 5)?.to_vec();
    response[2..4].copy_from_slice(&[0x81, 0x80]);
    response[6..12].copy_from_slice(&[0, u8::from(known), 0, 0, 0, 0]);
    if known {
        response.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(response)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
