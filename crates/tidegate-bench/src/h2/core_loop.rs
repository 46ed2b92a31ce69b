//! `tidegate-h2` alone: a server's end that is fed with the recorded bytes of a client, in memory.
//!
//! What a client sends does not depend on the server's bytes, but for the end of its streams: so the bytes of a first
//! run are fed to further server's ends, and only these are measured.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_h2::{Client, Config, Connection, ErrorCode, Event, RequestLine, Server, StreamId};

/// The bytes of a client: one piece for each read of the server.
pub(crate) struct Recorded {
    pieces: Vec<Vec<u8>>,
}

/// Records `pieces` reads of 10 requests each.
///
/// # Errors
/// In words: one of the ends refuses a message of the other.
pub(crate) fn record(pieces: usize) -> Result<Recorded, String> {
    let config = Config { encoder_table_bytes: 4096, huffman: true, ..Config::default() };
    let mut client = Connection::<Client>::new(config.shared());
    let mut server = Looped::new();
    let mut recorded = Recorded { pieces: Vec::with_capacity(pieces) };
    let mut bytes = Vec::new();
    for _ in 0..pieces {
        let mut streams = Vec::with_capacity(STREAMS);
        for _ in 0..STREAMS {
            streams.push(request(&mut client).map_err(|error| error.to_string())?);
        }
        let mut piece = Vec::new();
        client.take_output(&mut piece);
        bytes.clear();
        server.serve(&piece, &mut bytes)?;
        recorded.pieces.push(piece);
        let mut input = bytes.as_slice();
        let mut ended = 0;
        while let Some(event) =
            client.receive(&mut input, Duration::ZERO).map_err(|error| error.to_string())?
        {
            if let Event::Data { stream, bytes, end } = event {
                client.consumed(stream, bytes.len() as u32);
                if end {
                    client.close(stream, ErrorCode::CANCEL);
                    ended += 1;
                }
            }
        }
        if ended != streams.len() {
            return Err(format!("{ended} responses to {} requests", streams.len()));
        }
    }
    Ok(recorded)
}

impl Recorded {
    /// Feeds a new server's end; returns the number of requests. `settled` is called once, when a quarter has been
    /// served: buffers have their sizes then.
    ///
    /// # Errors
    /// In words: the end takes the bytes for invalid.
    pub(crate) fn replay(&self, settled: impl FnOnce()) -> Result<u64, String> {
        let mut server = Looped::new();
        let mut bytes = Vec::new();
        let (first, rest) = self.pieces.split_at(self.pieces.len() / 4);
        for piece in first {
            bytes.clear();
            server.serve(piece, &mut bytes)?;
        }
        settled();
        for piece in rest {
            bytes.clear();
            server.serve(piece, &mut bytes)?;
            black_box(&bytes);
        }
        Ok((rest.len() * STREAMS) as u64)
    }
}

/// A server's end that responds to each request at once.
struct Looped(Connection<Server>);

impl Looped {
    fn new() -> Looped {
        Looped(Connection::<Server>::new(Config::default().shared()))
    }

    fn serve(&mut self, piece: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let server = &mut self.0;
        let mut input = piece;
        while let Some(event) =
            server.receive(&mut input, Duration::ZERO).map_err(|error| error.to_string())?
        {
            if let Event::Head { stream, end: true } = event {
                black_box(server.head().line);
                respond(server, stream).map_err(|error| error.to_string())?;
            }
        }
        server.take_output(output);
        Ok(())
    }
}

fn request(client: &mut Connection<Client>) -> Result<StreamId, tidegate_h2::SendError> {
    let line = RequestLine {
        method: b"GET",
        scheme: b"https",
        authority: b"127.0.0.1:8443",
        path: b"/",
        protocol: None,
    };
    client.request(&line, true, |fields| {
        fields.push(b"user-agent", b"tidegate-bench");
        fields.push(b"accept", b"*/*");
    })
}

fn respond(
    server: &mut Connection<Server>,
    stream: StreamId,
) -> Result<(), tidegate_h2::SendError> {
    server.respond(stream, 200, false, |fields| {
        fields.push(b"server", b"tidegate");
        fields.push(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT");
        fields.push(b"content-type", b"text/plain");
        fields.push(b"content-length", b"12");
    })?;
    server.send_data(stream, b"Hello, world", true)?;
    server.close(stream, ErrorCode::INTERNAL_ERROR);
    Ok(())
}

/// Runs `tidegate-bench h2-core-loop REPLAYS`, for [`crate::instructions`]; `None` for any other command line.
pub(crate) fn run(arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<ExitCode> {
    let texts: Vec<_> = arguments.map(|text| text.to_string_lossy().into_owned()).collect();
    let [name, replays] = texts.as_slice() else { return None };
    let replays: u32 = replays.parse().ok().filter(|_| name == COMMAND)?;
    let ended = record(PIECES)
        .and_then(|recorded| (0..replays).try_for_each(|_| recorded.replay(|| ()).map(|_| ())));
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("tidegate-bench: {reason}");
            ExitCode::FAILURE
        }
    })
}

/// First argument of such a process.
pub(crate) const COMMAND: &str = "h2-core-loop";
/// Requests of one read, as many as h2load has with `-m 10`.
pub(crate) const STREAMS: usize = 10;
/// Reads that are recorded.
pub(crate) const PIECES: usize = 400;
/// Requests of a replay of them.
pub(crate) const REPLAYED: u64 = (PIECES * STREAMS) as u64;
