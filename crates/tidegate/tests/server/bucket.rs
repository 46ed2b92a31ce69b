//! A store that speaks enough of S3 for a tier: GET, ranges, PUT on conditions; and in all the ways in which one can fail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How it responds to requests for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Right,
    /// This status, with this text.
    Status(u16, &'static str),
    /// It reads the request and says nothing.
    Silent,
    /// It closes the connection.
    Close,
    /// Bytes that are no response.
    Garbage,
    /// An object of 512 MB is announced, and does not come.
    Huge,
    /// The head, and then a byte now and then.
    Trickle,
    /// The connection ends in the middle of the object.
    Cut,
    /// A bit of the object is another one: at this byte.
    Flipped(usize),
    /// What is sent is no object of a cache.
    Foreign,
    /// Nothing may be written.
    ReadOnly,
}

struct State {
    objects: BTreeMap<String, (Vec<u8>, u64)>,
    manner: Manner,
    version: u64,
    requests: Vec<String>,
}

/// A running store.
#[derive(Clone)]
pub(crate) struct Bucket {
    pub port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Bucket {
    pub(crate) fn start() -> Bucket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (objects, requests) = (BTreeMap::new(), Vec::new());
        let state = State { objects, manner: Manner::Right, version: 0, requests };
        let bucket = Bucket { port, state: Arc::new((Mutex::new(state), Condvar::new())) };
        let own = bucket.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let own = own.clone();
                std::thread::spawn(move || own.serve(stream.unwrap()));
            }
        });
        bucket
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }

    /// Changes how it responds from now on.
    pub(crate) fn set(&self, manner: Manner) {
        self.state().manner = manner;
    }

    /// Returns the paths of all objects but the lists of purges.
    pub(crate) fn objects(&self) -> Vec<String> {
        let state = self.state();
        state.objects.keys().filter(|path| !path.ends_with("/purges")).cloned().collect()
    }

    /// Removes an object.
    pub(crate) fn forget(&self, path: &str) {
        self.state().objects.remove(path);
    }

    /// Returns the length of an object.
    pub(crate) fn length(&self, path: &str) -> usize {
        self.state().objects[path].0.len()
    }

    /// Waits until there are this many objects besides the lists of purges.
    pub(crate) fn wait_objects(&self, count: usize) {
        let mut state = self.state();
        while state.objects.keys().filter(|path| !path.ends_with("/purges")).count() < count {
            let (next, waited) =
                self.state.1.wait_timeout(state, crate::support::DEADLINE).unwrap();
            assert!(!waited.timed_out(), "{:?}", next.objects.keys());
            state = next;
        }
    }

    /// Returns the number of requests with this method for objects other than the lists of purges.
    pub(crate) fn requests(&self, method: &str) -> usize {
        let state = self.state();
        let lines = state.requests.iter().filter(|line| line.starts_with(method));
        lines.filter(|line| !line.ends_with("/purges")).count()
    }

    /// Returns the number of attempts to write a list of purges.
    pub(crate) fn list_writes(&self) -> usize {
        let state = self.state();
        let is_write = |line: &&String| line.starts_with("PUT") && line.ends_with("/purges");
        state.requests.iter().filter(is_write).count()
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut out = stream;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let mut words = line.split(' ');
            let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
            let mut fields = BTreeMap::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok()?;
                let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                fields.insert(name.to_owned(), value.to_owned());
            }
            let length = fields.get("content-length").map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let signed = fields.get("authorization").is_some_and(|value| {
                let date = &fields["x-amz-date"][..8];
                value.starts_with(&format!(
                    "AWS4-HMAC-SHA256 Credential=AK/{date}/r-1/s3/aws4_request,"
                ))
            });
            let manner = {
                let mut state = self.state();
                state.requests.push(format!("{method} {path}"));
                let is_list = path.ends_with("/purges") && state.manner == Manner::Foreign;
                if is_list { Manner::Right } else { state.manner.clone() }
            };
            let manner = match manner {
                _ if !signed => Manner::Status(403, "<Code>AccessDenied</Code>"),
                // What is read back of a list is right, as far as the store itself is.
                Manner::Cut | Manner::Flipped(_) | Manner::Trickle | Manner::Huge
                    if path.ends_with("/purges") || method == "PUT" =>
                {
                    Manner::Right
                }
                Manner::ReadOnly if method == "PUT" => {
                    Manner::Status(403, "<Code>AccessDenied</Code>")
                }
                manner => manner,
            };
            self.respond(&mut out, &manner, (&method, &path), &fields, body)?;
        }
    }

    fn respond(
        &self,
        out: &mut TcpStream,
        manner: &Manner,
        (method, path): (&str, &str),
        fields: &BTreeMap<String, String>,
        body: Vec<u8>,
    ) -> Option<()> {
        let send = |out: &mut TcpStream, status: u16, fields: &str, body: &[u8]| {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{fields}\r\n");
            out.write_all(&[head.as_bytes(), body].concat()).ok()
        };
        match manner {
            Manner::Status(status, text) => return send(out, *status, "", text.as_bytes()),
            Manner::Silent => {
                // Until the client gives up.
                let _ = out.read(&mut [0; 1]);
                return None;
            }
            Manner::Close => return None,
            Manner::Garbage => {
                let _ = out.write_all(b"\0\x01\x02 no response\r\n\r\n");
                return None;
            }
            Manner::Huge => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 536870912\r\n\r\n\x89TGTIER\n";
                out.write_all(head).ok()?;
                let _ = out.read(&mut [0; 1]);
                return None;
            }
            Manner::Foreign => return send(out, 200, "", b"<html>not found</html>"),
            _ => {}
        }
        if method == "PUT" {
            return match self.put(path, fields, body) {
                true => send(out, 200, "", b""),
                false => send(out, 412, "", b"<Code>PreconditionFailed</Code>"),
            };
        }
        let found = self.state().objects.get(path).cloned();
        let Some((mut object, version)) = found else {
            return send(out, 404, "", b"<Error><Code>NoSuchKey</Code></Error>");
        };
        let etag = format!("ETag: \"{version}\"\r\n");
        if let Some(range) = fields.get("range") {
            let last: usize = range.rsplit_once('-')?.1.parse().ok()?;
            object.truncate(last + 1);
            return send(out, 206, &etag, &object);
        }
        match manner {
            Manner::Flipped(at) => {
                let at = at % object.len();
                object[at] ^= 1 << (at % 8);
            }
            Manner::Cut | Manner::Trickle => {
                let length = object.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{etag}\r\n");
                out.write_all(head.as_bytes()).ok()?;
                return match manner {
                    Manner::Cut => out.write_all(&object[..length / 2]).ok().filter(|()| false),
                    _ => trickle(out, &object),
                };
            }
            _ => {}
        }
        send(out, 200, &etag, &object)
    }

    /// Stores an object, if the condition holds.
    fn put(&self, path: &str, fields: &BTreeMap<String, String>, body: Vec<u8>) -> bool {
        let mut state = self.state();
        let known = state.objects.get(path).map(|(_, version)| format!("\"{version}\""));
        let holds = match (fields.get("if-none-match"), fields.get("if-match")) {
            (Some(_), _) => known.is_none(),
            (_, Some(etag)) => known.as_ref() == Some(etag),
            _ => true,
        };
        if holds {
            state.version += 1;
            let version = state.version;
            state.objects.insert(path.to_owned(), (body, version));
            self.state.1.notify_all();
        }
        holds
    }
}

/// Sends a byte now and then, until the client closes.
fn trickle(out: &mut TcpStream, object: &[u8]) -> Option<()> {
    out.set_read_timeout(Some(Duration::from_millis(20))).ok()?;
    for byte in object {
        out.write_all(&[*byte]).ok()?;
        if out.read(&mut [0; 1]).is_ok() {
            break;
        }
    }
    None
}
