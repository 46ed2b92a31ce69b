//! The operations of clients and origins and their syntax: the parts between the `|` of a
//! `client` or `origin` line, and rows (`GET /x -> 200 "body"`).

use crate::bell::Failure;
use crate::client::http3::words::{QuicOp, quic_op, wait_quic};
pub(crate) use crate::place::Place;
use crate::words::{Cursor, Matcher, Word, contains};

/// A condition on a received head.
#[derive(Debug, Clone)]
pub enum HeadCheck {
    /// `header Name: value`
    Field(String, Matcher),
    /// `no header Name`
    NoField(String),
    /// `trailer Name: value`
    Trailer(String, Matcher),
    /// `line "HTTP/1.1 200 OK"`
    Line(Matcher),
    /// `body …`, over the body read so far
    Body(Matcher),
    /// `length N`, of the body read so far
    Length(usize),
}

/// One operation of a client.
#[derive(Debug, Clone)]
pub enum ClientOp {
    /// `connect [[h2 | stream] front2 | unix NAME]`
    Connect(Place),
    /// `GET /path …`, or `send "bytes"`; the method is needed to know HEAD.
    Send { bytes: Vec<u8>, method: Option<String> },
    /// `wait head N`
    WaitHead(u16),
    /// `wait body "prefix"`
    WaitBody(Vec<u8>),
    /// `wait end [body]`
    WaitEnd(Option<Matcher>),
    /// `wait broken`: the body ends before its framing says so
    WaitBroken,
    /// `wait failed`: an error status, a cut response, or none: anything but a success
    WaitFailed,
    /// `sip N`: N bytes of the body, one a second
    Sip(u32),
    /// `drip "bytes"`: byte by byte, until the peer closes
    Drip(Vec<u8>),
    /// `flood "bytes"`: from now on, again and again
    Flood(Vec<u8>),
    /// `still floods`: the connection of the flood is still open
    StillFloods,
    /// `wait raw "bytes"`
    WaitRaw(Vec<u8>),
    /// `wait past "bytes"`: discards bytes up to and with these
    WaitPast(Vec<u8>),
    /// `wait close`
    WaitClose,
    /// `wait reset`
    WaitReset,
    /// `wait gone`: closed or reset
    WaitGone,
    /// `quic …`, `wait quic …`: on the connection of HTTP/3
    Quic(QuicOp),
    /// a condition on the response at hand
    Check(HeadCheck),
    /// `half-close`
    HalfClose,
    /// `close`
    Close,
    /// `reset`
    Reset,
}

/// One operation of an origin.
#[derive(Debug, Clone)]
pub enum OriginOp {
    /// `expect connection`: at accept, before anything is read
    ExpectConnection,
    /// `expect METHOD target`; `any` and `*` match all
    Expect { method: String, target: Matcher },
    /// a condition on the request; `body` reads the body first
    Check(HeadCheck),
    /// `wait body "prefix"`
    WaitBody(Vec<u8>),
    /// `wait raw "bytes"`
    WaitRaw(Vec<u8>),
    /// `wait past "bytes"`: discards bytes up to and with these
    WaitPast(Vec<u8>),
    /// `wait close`: the server ended the connection
    WaitClose,
    /// `send …`, `respond …`
    Send(Vec<u8>),
    /// `flood "bytes"`: again and again until the server closes
    Flood(Vec<u8>),
    /// `hold GATE`
    Hold(String),
    /// `close`
    Close,
    /// `reset`
    Reset,
}

/// A line of an origin: an exchange, or a change of the origin.
#[derive(Debug, Clone)]
pub enum OriginLine {
    /// A script for one exchange; `always` makes it reusable, `maybe` optional.
    Script { always: bool, maybe: bool, ops: Vec<OriginOp> },
    /// The lines so far are over, used or not.
    Forget,
    /// Responds to each request with its name, method and target.
    Serve,
    /// Responds to each request with the request as received.
    Echo,
    /// Stops listening.
    Down,
    /// Listens again.
    Up,
}

/// A request on its own connection and the expected response.
#[derive(Debug, Clone)]
pub struct Row {
    /// Where to connect.
    pub place: Place,
    /// The operations of a client that the row stands for.
    pub ops: Vec<ClientOp>,
}

/// Whether a word can be a request method.
pub(crate) fn is_method(word: &str) -> bool {
    word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// `a | b | c`, each read by `one`.
pub(crate) fn piped<T>(
    words: &[Word],
    one: impl Fn(&mut Cursor<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let parts = words.split(|word| matches!(word, Word::Bar));
    parts
        .map(|part| {
            let mut cursor = Cursor::new(part);
            let op = one(&mut cursor)?;
            cursor.finish()?;
            Ok(op)
        })
        .collect()
}

/// One operation of a client.
pub(crate) fn client_op(cursor: &mut Cursor<'_>) -> Result<ClientOp, Failure> {
    if cursor.peek().is_some_and(is_method) {
        return request(cursor);
    }
    if let Some(check) = head_check(cursor)? {
        return Ok(ClientOp::Check(check));
    }
    match cursor.bare("an operation")? {
        "connect" => Ok(ClientOp::Connect(Place::of_connect(cursor)?)),
        "send" => {
            let bytes = sent(cursor)?;
            let text = String::from_utf8_lossy(&bytes);
            let method = text.split(' ').next().filter(|word| is_method(word)).map(str::to_owned);
            Ok(ClientOp::Send { method, bytes })
        }
        "wait" if cursor.accept("quic") => Ok(ClientOp::Quic(wait_quic(cursor)?)),
        "wait" => client_wait(cursor),
        "quic" => Ok(ClientOp::Quic(quic_op(cursor)?)),
        "sip" => Ok(ClientOp::Sip(cursor.number("a number of seconds")?)),
        "drip" => Ok(ClientOp::Drip(sent(cursor)?)),
        "flood" => Ok(ClientOp::Flood(sent(cursor)?)),
        "still" => match cursor.bare("what it still does")? {
            "floods" => Ok(ClientOp::StillFloods),
            other => Err(Failure::new(format!("a client does not still `{other}`"))),
        },
        "half-close" => Ok(ClientOp::HalfClose),
        "close" => Ok(ClientOp::Close),
        "reset" => Ok(ClientOp::Reset),
        other => Err(Failure::new(format!("a client cannot `{other}`"))),
    }
}

fn client_wait(cursor: &mut Cursor<'_>) -> Result<ClientOp, Failure> {
    match cursor.bare("what to wait for")? {
        "head" => Ok(ClientOp::WaitHead(cursor.number("a status")?)),
        "body" => Ok(ClientOp::WaitBody(cursor.text("the body so far")?)),
        "end" if cursor.peek_word().is_none() => Ok(ClientOp::WaitEnd(None)),
        "end" => Ok(ClientOp::WaitEnd(Some(cursor.matcher("the body")?))),
        "raw" => Ok(ClientOp::WaitRaw(cursor.text("bytes")?)),
        "past" => Ok(ClientOp::WaitPast(cursor.text("bytes")?)),
        "broken" => Ok(ClientOp::WaitBroken),
        "failed" => Ok(ClientOp::WaitFailed),
        "close" => Ok(ClientOp::WaitClose),
        "reset" => Ok(ClientOp::WaitReset),
        "gone" => Ok(ClientOp::WaitGone),
        other => Err(Failure::new(format!("a client cannot wait for `{other}`"))),
    }
}

/// `GET /path [HTTP/1.0] [Name: value]… [body "…"]`
fn request(cursor: &mut Cursor<'_>) -> Result<ClientOp, Failure> {
    let method = cursor.bare("a method")?.to_owned();
    let target = cursor.string("a target")?;
    let version = match cursor.peek() {
        Some(word) if word.starts_with("HTTP/") => cursor.bare("a version")?,
        _ => "HTTP/1.1",
    };
    let mut head = format!("{method} {target} {version}\r\n").into_bytes();
    let fields = fields(cursor)?;
    if !contains(&fields.to_ascii_lowercase(), b"host:") {
        head.extend_from_slice(b"Host: localhost\r\n");
    }
    head.extend_from_slice(&fields);
    if cursor.accept("body") {
        let body = cursor.text("a body")?;
        head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        head.extend_from_slice(&body);
    } else {
        head.extend_from_slice(b"\r\n");
    }
    Ok(ClientOp::Send { bytes: head, method: Some(method) })
}

/// `Name: value …` or `Name=value …` as header lines.
fn fields(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Failure> {
    let mut lines = Vec::new();
    loop {
        let (name, value) = if let Some(name) = cursor.field_name() {
            (name, cursor.text("a field value")?)
        } else if let Some((name, value)) = cursor.peek().and_then(|word| word.split_once('=')) {
            cursor.word();
            (name, value.as_bytes().to_vec())
        } else {
            return Ok(lines);
        };
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(&value);
        lines.extend_from_slice(b"\r\n");
    }
}

fn head_check(cursor: &mut Cursor<'_>) -> Result<Option<HeadCheck>, Failure> {
    let check = match cursor.peek() {
        Some("header") => {
            cursor.word();
            let (name, matcher) = field_matcher(cursor)?;
            HeadCheck::Field(name, matcher)
        }
        Some("trailer") => {
            cursor.word();
            let (name, matcher) = field_matcher(cursor)?;
            HeadCheck::Trailer(name, matcher)
        }
        Some("no") => {
            cursor.word();
            if !cursor.accept("header") {
                return Err(Failure::new("`no` is followed by `header NAME`"));
            }
            HeadCheck::NoField(cursor.bare("a header's name")?.to_owned())
        }
        Some("line") => {
            cursor.word();
            HeadCheck::Line(cursor.matcher("a start line")?)
        }
        Some("body") => {
            cursor.word();
            HeadCheck::Body(cursor.matcher("a body")?)
        }
        Some("length") => {
            cursor.word();
            HeadCheck::Length(cursor.number("a length")?)
        }
        _ => return Ok(None),
    };
    Ok(Some(check))
}

fn field_matcher(cursor: &mut Cursor<'_>) -> Result<(String, Matcher), Failure> {
    let name = cursor.field_name().ok_or_else(|| Failure::new("`Name:` is missing"))?.to_owned();
    Ok((name, cursor.matcher("a field value")?))
}

/// After `send`: `"bytes"`, `chunk "data"`, `last-chunk [Name: value]`, `head 200 …`.
fn sent(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Failure> {
    if cursor.accept("chunk") {
        let data = cursor.text("a chunk's data")?;
        let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(b"\r\n");
        return Ok(bytes);
    }
    if cursor.accept("last-chunk") {
        return Ok([b"0\r\n", fields(cursor)?.as_slice(), b"\r\n"].concat());
    }
    if cursor.accept("head") {
        let status: u16 = cursor.number("a status")?;
        return Ok([&status_line(status), fields(cursor)?.as_slice(), b"\r\n"].concat());
    }
    if cursor.accept("record") {
        return record(cursor);
    }
    cursor.accept("raw");
    cursor.text("bytes")
}

/// After `send record`: `stdout "…"`, `stderr "…"` or `end`, a record of FastCGI.
fn record(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Failure> {
    let (kind, content) = match cursor.bare("a kind of record")? {
        "stdout" => (6, cursor.text("its content")?),
        "stderr" => (7, cursor.text("its content")?),
        "end" => (3, vec![0; 8]),
        other => return Err(Failure::new(format!("there is no record `{other}`"))),
    };
    let Ok(length) = u16::try_from(content.len()) else {
        return Err(Failure::new("a record takes at most 65535 bytes"));
    };
    let [high, low] = length.to_be_bytes();
    // Padding to a multiple of eight, as the specification recommends.
    let padding = (8 - content.len() % 8) % 8;
    let mut bytes = vec![1, kind, 0, 1, high, low, padding as u8, 0];
    bytes.extend_from_slice(&content);
    bytes.resize(bytes.len() + padding, 0);
    Ok(bytes)
}

fn status_line(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} Status {status}\r\n").into_bytes()
}

/// One operation of an origin.
pub(crate) fn origin_op(cursor: &mut Cursor<'_>) -> Result<OriginOp, Failure> {
    if let Some(check) = head_check(cursor)? {
        return Ok(OriginOp::Check(check));
    }
    match cursor.bare("an operation")? {
        "expect" | "next" => {
            if cursor.accept("connection") {
                return Ok(OriginOp::ExpectConnection);
            }
            let method = cursor.bare("a method")?.to_owned();
            let target = match cursor.peek_word() {
                None => Matcher::Contains(Vec::new()),
                Some(_) => cursor.matcher("a target")?,
            };
            Ok(OriginOp::Expect { method, target })
        }
        "send" => Ok(OriginOp::Send(sent(cursor)?)),
        "respond" => Ok(OriginOp::Send(responded(cursor)?)),
        "first" => Ok(OriginOp::Send(first_part(cursor)?)),
        "flood" => Ok(OriginOp::Flood(sent(cursor)?)),
        "hold" => Ok(OriginOp::Hold(cursor.bare("a gate's name")?.to_owned())),
        "wait" if cursor.accept("close") => Ok(OriginOp::WaitClose),
        "wait" if cursor.accept("body") => Ok(OriginOp::WaitBody(cursor.text("bytes")?)),
        "wait" if cursor.accept("raw") => Ok(OriginOp::WaitRaw(cursor.text("bytes")?)),
        "wait" if cursor.accept("past") => Ok(OriginOp::WaitPast(cursor.text("bytes")?)),
        "close" => Ok(OriginOp::Close),
        "reset" => Ok(OriginOp::Reset),
        other => Err(Failure::new(format!("an origin cannot `{other}`"))),
    }
}

/// After `respond`: `200 ["body"] [Name: value]…` with the body's length.
fn responded(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Failure> {
    let status: u16 = cursor.number("a status")?;
    let body = match cursor.peek_word() {
        Some(Word::Text(body)) => {
            cursor.word();
            body.clone()
        }
        _ => Vec::new(),
    };
    let length = format!("Content-Length: {}\r\n", body.len()).into_bytes();
    let fields = fields(cursor)?;
    Ok([&status_line(status), &*length, &fields, b"\r\n", &body].concat())
}

/// After `first`: `N respond …` or `N/M send …`, that number or part of the bytes that would be sent.
fn first_part(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Failure> {
    let part = cursor.bare("a number of bytes or a fraction")?;
    let number = |digits: &str| {
        let number = digits.parse::<usize>();
        number.map_err(|_| Failure::new(format!("`{part}` is neither a number nor a fraction")))
    };
    let (count, parts) = match part.split_once('/') {
        Some((count, parts)) => (number(count)?, Some(number(parts)?)),
        None => (number(part)?, None),
    };
    let mut bytes = match cursor.bare("`send` or `respond`")? {
        "respond" => responded(cursor)?,
        "send" => sent(cursor)?,
        other => return Err(Failure::new(format!("`first N` cannot `{other}`"))),
    };
    let length = match parts {
        Some(parts) if count < parts => bytes.len() * count / parts,
        None if count < bytes.len() => count,
        _ => {
            return Err(Failure::new(format!(
                "`{part}` leaves nothing of {} bytes out",
                bytes.len()
            )));
        }
    };
    bytes.truncate(length);
    Ok(bytes)
}

/// Parses the words after `origin NAME`.
pub(crate) fn origin_line(words: &[Word]) -> Result<OriginLine, Failure> {
    let mut cursor = Cursor::new(words);
    let line = match cursor.peek() {
        Some("forget") => OriginLine::Forget,
        Some("serve") => OriginLine::Serve,
        Some("echo") => OriginLine::Echo,
        Some("down") => OriginLine::Down,
        Some("up") => OriginLine::Up,
        first => {
            let (always, maybe) = (first == Some("always"), first == Some("maybe"));
            let words = if always || maybe { &words[1..] } else { words };
            let ops = piped(words, origin_op)?;
            if !matches!(ops[0], OriginOp::Expect { .. } | OriginOp::ExpectConnection) {
                return Err(Failure::new("an origin's line begins with `expect`"));
            }
            return Ok(OriginLine::Script { always, maybe, ops });
        }
    };
    cursor.word();
    cursor.finish()?;
    Ok(line)
}

/// `[h2 | h3] [@front2] GET /x [Name: value]… -> 200 ["body"] [Name: value]… [-Name]…`; `raw "…"` in place
/// of a request; `-> close` for no response at all; `-> raw "…"` for bytes without a head.
pub(crate) fn row(words: &[Word]) -> Result<Row, Failure> {
    let arrow = words.iter().position(|word| matches!(word, Word::Arrow));
    let arrow = arrow.ok_or_else(|| Failure::new("`->` is missing"))?;
    let (mut left, mut right) = (Cursor::new(&words[..arrow]), Cursor::new(&words[arrow + 1..]));
    let place = Place::of_row(&mut left);
    let mut ops = vec![if left.accept("raw") {
        let bytes = left.text("bytes")?;
        let text = String::from_utf8_lossy(&bytes);
        let method = text.split(' ').next().filter(|word| is_method(word)).map(str::to_owned);
        ClientOp::Send { method, bytes }
    } else {
        request(&mut left)?
    }];
    left.finish()?;
    if right.accept("close") {
        ops.push(ClientOp::WaitClose);
    } else if right.accept("raw") {
        ops.push(ClientOp::WaitRaw(right.text("bytes")?));
        ops.push(ClientOp::WaitClose);
    } else {
        response(&mut right, &mut ops)?;
    }
    right.finish()?;
    Ok(Row { place, ops })
}

fn response(right: &mut Cursor<'_>, ops: &mut Vec<ClientOp>) -> Result<(), Failure> {
    ops.push(ClientOp::WaitHead(right.number("a status")?));
    let mut body = None;
    let mut checks = Vec::new();
    while let Some(word) = right.peek_word() {
        if let Some(name) = right.field_name() {
            let matcher = right.matcher("a field value")?;
            checks.push(ClientOp::Check(HeadCheck::Field(name.to_owned(), matcher)));
            continue;
        }
        match word {
            Word::Text(_) | Word::Match(_) if body.is_none() => body = Some(right.matcher("")?),
            Word::Bare(name) if name.starts_with('-') => {
                right.word();
                checks.push(ClientOp::Check(HeadCheck::NoField(name[1..].to_owned())));
            }
            _ => break,
        }
    }
    ops.push(ClientOp::WaitEnd(body));
    ops.append(&mut checks);
    Ok(())
}
