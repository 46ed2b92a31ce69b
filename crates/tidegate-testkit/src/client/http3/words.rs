//! The words of a script about a connection of QUIC: `connect h3 …`, `quic …` and `wait quic …`.

use std::net::IpAddr;

use super::payload::{code, number, payload};
use crate::bell::Failure;
use crate::conditions::{Comparison, comparison};
use crate::words::Cursor;

/// How a connection is opened: the words after `connect h3 NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `alpn NAME`
    pub alpn: String,
    /// `bare`: without streams and settings of its own
    pub is_bare: bool,
    /// `resume`: with a ticket of an earlier connection
    pub resumes: bool,
    /// `early`: the same, and requests in the first flight
    pub is_early: bool,
    /// `chacha20`: that cipher alone
    pub is_chacha20: bool,
    /// `table`: fields by the dynamic table of QPACK
    pub uses_table: bool,
    /// `ipv6`: to the same port of `::1`
    pub is_ipv6: bool,
    /// `name NAME`: the server name
    pub name: String,
    /// `certificate FILE`: the client's, with its key
    pub certificate: Option<String>,
    /// `window N`: bytes that each stream may receive before they are read
    pub window: u32,
}

/// An operation on a connection. Streams have names; `request` is the newest request of the client.
#[derive(Debug, Clone)]
pub enum QuicOp {
    /// `quic open NAME [uni] PAYLOAD [fin]`
    Open { name: String, is_uni: bool, bytes: Vec<u8>, ends: bool },
    /// `quic request PAYLOAD [fin]`: a request by hand, whose response is read as any other
    Request { bytes: Vec<u8>, ends: bool },
    /// `quic send NAME PAYLOAD [fin]`
    Send { name: String, bytes: Vec<u8>, ends: bool },
    /// `quic reset NAME CODE`
    Reset { name: String, code: u64 },
    /// `quic stop NAME CODE`
    Stop { name: String, code: u64 },
    /// `quic burst N PAYLOAD [fin] [reset CODE] [stop CODE]`: this number of such requests
    Burst { count: u32, bytes: Vec<u8>, ends: bool, reset: Option<u64>, stop: Option<u64> },
    /// `quic close CODE ["reason"]`
    Close { code: u64, reason: Vec<u8> },
    /// `quic rebind [ADDRESS]`: goes on from another port
    Rebind(Option<IpAddr>),
    /// `quic update-keys`
    UpdateKeys,
    /// `quic ping`
    Ping,
    /// `quic abandon`: ends here, and sends nothing about it
    Abandon,
    /// `wait quic data NAME "bytes"`
    WaitData { name: String, bytes: Vec<u8> },
    /// `wait quic fin NAME`: and nothing before it
    WaitFin(String),
    /// `wait quic reset NAME [CODE]`
    WaitReset { name: String, code: Option<u64> },
    /// `wait quic stop NAME [CODE]`
    WaitStop { name: String, code: Option<u64> },
    /// `wait quic close CODE | transport CODE | timeout | reset`
    WaitClose(Closing),
    /// `wait quic goaway [N]`
    WaitGoAway(Option<u64>),
    /// `wait quic setting ID == N`
    WaitSetting(u64, Comparison, i64),
    /// `wait quic connected`
    WaitConnected,
    /// `wait quic COUNT == N`, `quic COUNT == N`
    Count { name: Count, comparison: Comparison, number: i64, waits: bool },
}

/// How the server ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// By the application, with this code.
    Application(u64),
    /// By QUIC, with this code.
    Transport(u64),
    /// After silence.
    Timeout,
    /// By a stateless reset.
    Reset,
}

/// Numbers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Retry packets received.
    Retries,
    /// Packets of version negotiation received.
    Negotiations,
    /// Datagrams received.
    Datagrams,
    /// 1 if the server accepted early data.
    Early,
    /// Tickets received.
    Tickets,
    /// Tokens received for later connections (NEW_TOKEN).
    Tokens,
    /// Challenges of paths received.
    Challenges,
    /// Connection ids received in frames.
    Ids,
    /// Times at which the client found that the path is congested: packets were lost, or the server reports marks.
    Congestions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alpn: "h3".to_owned(),
            is_bare: false,
            resumes: false,
            is_early: false,
            is_chacha20: false,
            uses_table: false,
            is_ipv6: false,
            name: "localhost".to_owned(),
            certificate: None,
            window: 64 << 10,
        }
    }
}

impl Options {
    /// Parses the words that follow.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Failure> {
        let mut options = Self::default();
        while cursor.peek_word().is_some() {
            match cursor.bare("an option")? {
                "bare" => options.is_bare = true,
                "resume" => options.resumes = true,
                "early" => (options.resumes, options.is_early) = (true, true),
                "chacha20" => options.is_chacha20 = true,
                "table" => options.uses_table = true,
                "ipv6" => options.is_ipv6 = true,
                "alpn" => options.alpn = cursor.string("a protocol")?,
                "name" => options.name = cursor.string("a server name")?,
                "certificate" => options.certificate = Some(cursor.string("a file's name")?),
                "window" => options.window = cursor.number("a number of bytes")?,
                other => {
                    return Err(Failure::new(format!("a connection has no option `{other}`")));
                }
            }
        }
        Ok(options)
    }
}

/// Parses the words after `quic`.
pub(crate) fn quic_op(cursor: &mut Cursor<'_>) -> Result<QuicOp, Failure> {
    if let Some(name) = cursor.peek().and_then(count_name) {
        cursor.word();
        return count(cursor, name, false);
    }
    Ok(match cursor.bare("an operation of QUIC")? {
        "open" => QuicOp::Open {
            name: stream(cursor)?,
            is_uni: cursor.accept("uni"),
            bytes: payload(cursor)?,
            ends: cursor.accept("fin"),
        },
        "request" => QuicOp::Request { bytes: payload(cursor)?, ends: cursor.accept("fin") },
        "send" => QuicOp::Send {
            name: stream(cursor)?,
            bytes: payload(cursor)?,
            ends: cursor.accept("fin"),
        },
        "reset" => QuicOp::Reset { name: stream(cursor)?, code: code(cursor)? },
        "stop" => QuicOp::Stop { name: stream(cursor)?, code: code(cursor)? },
        "burst" => QuicOp::Burst {
            count: cursor.number("a number of streams")?,
            bytes: payload(cursor)?,
            ends: cursor.accept("fin"),
            reset: cursor.accept("reset").then(|| code(cursor)).transpose()?,
            stop: cursor.accept("stop").then(|| code(cursor)).transpose()?,
        },
        "close" => QuicOp::Close { code: code(cursor)?, reason: payload(cursor)? },
        "rebind" => QuicOp::Rebind(match cursor.peek_word() {
            None => None,
            Some(_) => {
                let address = cursor.string("an address")?;
                let parsed = address.parse();
                Some(parsed.map_err(|_| Failure::new(format!("`{address}` is no address")))?)
            }
        }),
        "update-keys" => QuicOp::UpdateKeys,
        "ping" => QuicOp::Ping,
        "abandon" => QuicOp::Abandon,
        other => return Err(Failure::new(format!("QUIC cannot `{other}`"))),
    })
}

/// Parses the words after `wait quic`.
pub(crate) fn wait_quic(cursor: &mut Cursor<'_>) -> Result<QuicOp, Failure> {
    if let Some(name) = cursor.peek().and_then(count_name) {
        cursor.word();
        return count(cursor, name, true);
    }
    let some_code = |cursor: &mut Cursor<'_>| match cursor.peek_word() {
        None => Ok(None),
        Some(_) => code(cursor).map(Some),
    };
    Ok(match cursor.bare("an event of QUIC")? {
        "data" => QuicOp::WaitData { name: stream(cursor)?, bytes: payload(cursor)? },
        "fin" => QuicOp::WaitFin(stream(cursor)?),
        "reset" => QuicOp::WaitReset { name: stream(cursor)?, code: some_code(cursor)? },
        "stop" => QuicOp::WaitStop { name: stream(cursor)?, code: some_code(cursor)? },
        "close" if cursor.accept("timeout") => QuicOp::WaitClose(Closing::Timeout),
        "close" if cursor.accept("reset") => QuicOp::WaitClose(Closing::Reset),
        "close" if cursor.accept("transport") => {
            QuicOp::WaitClose(Closing::Transport(number(cursor)?))
        }
        "close" => QuicOp::WaitClose(Closing::Application(code(cursor)?)),
        "goaway" => QuicOp::WaitGoAway(some_code(cursor)?),
        "setting" => {
            let id = number(cursor)?;
            let comparison = comparison(cursor)?;
            QuicOp::WaitSetting(id, comparison, cursor.number("a number")?)
        }
        "connected" => QuicOp::WaitConnected,
        other => return Err(Failure::new(format!("QUIC has no event `{other}`"))),
    })
}

fn stream(cursor: &mut Cursor<'_>) -> Result<String, Failure> {
    Ok(cursor.bare("a stream's name")?.to_owned())
}

fn count_name(word: &str) -> Option<Count> {
    Some(match word {
        "retries" => Count::Retries,
        "negotiations" => Count::Negotiations,
        "datagrams" => Count::Datagrams,
        "early" => Count::Early,
        "tickets" => Count::Tickets,
        "tokens" => Count::Tokens,
        "challenges" => Count::Challenges,
        "ids" => Count::Ids,
        "congestions" => Count::Congestions,
        _ => return None,
    })
}

fn count(cursor: &mut Cursor<'_>, name: Count, waits: bool) -> Result<QuicOp, Failure> {
    let comparison = comparison(cursor)?;
    Ok(QuicOp::Count { name, comparison, number: cursor.number("a number")?, waits })
}
