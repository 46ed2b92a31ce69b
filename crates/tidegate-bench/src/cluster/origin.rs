//! The origin: each target has a version, which is its body.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The versions by target; a target without one has version 0.
#[derive(Clone, Default)]
pub(super) struct Origin {
    versions: Arc<Mutex<HashMap<String, u64>>>,
    requests: Arc<AtomicU64>,
}

impl Origin {
    /// Listens; the thread ends with the process.
    pub(super) fn start(address: &str) -> std::io::Result<Origin> {
        let (origin, listener) = (Origin::default(), TcpListener::bind(address)?);
        let serving = origin.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A connection that fails is seen by the server that has made it.
                let _ = serving.serve(stream);
            }
        });
        Ok(origin)
    }

    /// Serves one request.
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let version = self.version(line.split(' ').nth(1).unwrap_or_default());
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let body = version.to_string();
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        reader.get_mut().write_all((head + &body).as_bytes())
    }

    pub(super) fn version(&self, target: &str) -> u64 {
        self.lock().get(target).copied().unwrap_or(0)
    }

    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Changes a target; returns its new version.
    pub(super) fn change(&self, target: &str) -> u64 {
        let mut versions = self.lock();
        let version = versions.entry(target.to_owned()).or_default();
        *version += 1;
        *version
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
