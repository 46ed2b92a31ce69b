//! A started server with its directory, and requests as bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Limit for every wait; a server starts in a second.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub directory: tempfile::TempDir,
    pub address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts the server; `{port}` of the configuration is a free one. `prepare` makes its files.
    pub(crate) fn start(configuration: &str, prepare: impl FnOnce(&Path)) -> Server {
        let directory = tempfile::tempdir().unwrap();
        for name in ["conf", "logs", "html", "temp"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        prepare(directory.path());
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = configuration.replace("{port}", &address.port().to_string());
        std::fs::write(directory.path().join("conf/nginx.conf"), text).unwrap();
        let child = Command::new(binary()).args(arguments(directory.path())).spawn().unwrap();
        let mut server = Server { directory, address, child };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < LIMIT, "the server does not response");
            assert!(server.child.try_wait().unwrap().is_none(), "the server ended at its start");
        }
        server
    }

    /// Sends a signal by the command line.
    pub(crate) fn order(&self, order: &str) {
        let mut command = Command::new(binary());
        let sent = command.args(arguments(self.directory.path())).args(["-s", order]).status();
        assert!(sent.unwrap().success(), "-s {order} failed");
    }

    /// Ends the server by `-s quit`.
    pub(crate) fn quit(mut self) {
        self.order("quit");
        assert!(self.child.wait().unwrap().success());
    }

    /// Sends one request on a connection of its own: returns status and all bytes of the response; 0 when there is
    /// none.
    pub(crate) fn request(&self, request: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(request).unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let status = response.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        (status.and_then(|digits| digits.parse().ok()).unwrap_or(0), response)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments(directory: &Path) -> [PathBuf; 4] {
    ["-p".into(), directory.to_owned(), "-c".into(), "conf/nginx.conf".into()]
}

/// Returns the path of the program beside the directory of this test.
pub(crate) fn binary() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("tidegate.exe")
}
