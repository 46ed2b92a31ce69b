//! A server under test: the binary with its own directory and port. All its messages are on its standard error, so that
//! tests wait for events instead of time.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_os::process::{Signal, kill};

/// Far more than any step takes; reached only when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_tidegate");

/// A directory with a configuration.
pub(crate) struct Site {
    directory: TempDir,
    pub port: u16,
    pub second_port: u16,
}

impl Site {
    pub(crate) fn new() -> Site {
        let ports: Vec<TcpListener> =
            (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |index: usize| ports[index].local_addr().unwrap().port();
        Site {
            directory: tempfile::Builder::new().prefix("tidegate-test").tempdir().unwrap(),
            port: port(0),
            second_port: port(1),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the configuration; `http` is the content of that block, and `{port}`, `{second}` and `{dir}` are
    /// replaced.
    pub(crate) fn configure(&self, main: &str, http: &str) {
        let text = format!(
            "daemon off;\nerror_log stderr notice;\npid {{dir}}/nginx.pid;\n{main}\nevents {{ }}\n\
             http {{\naccess_log off;\n{}\n{http}\n}}\n",
            temporary(http)
        );
        self.write(&text);
    }

    /// Writes the whole configuration file.
    pub(crate) fn write(&self, text: &str) {
        let text = text
            .replace("{dir}", &self.directory.path().to_string_lossy())
            .replace("{port}", &self.port.to_string())
            .replace("{second}", &self.second_port.to_string());
        fs::write(self.path("nginx.conf"), text).unwrap();
    }

    /// Returns the command that runs the binary with this site's configuration.
    pub(crate) fn command(&self) -> Command {
        self.command_of(Path::new(BINARY))
    }

    /// As [`Site::command`], by another name of the binary.
    pub(crate) fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("-p").arg(self.directory.path()).args(["-c", "nginx.conf", "-e", "stderr"]);
        command
    }

    /// Runs the binary with more arguments to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Starts the server and waits until its worker has been started.
    pub(crate) fn start(&self) -> Server {
        Server::of(self.command())
    }

    pub(crate) fn connect(&self) -> Connection {
        connect(self.port).unwrap()
    }

    /// As [`Site::get`]; `None` where nothing listens yet.
    pub(crate) fn try_get(&self, port: u16) -> Option<String> {
        connect(port).ok().map(|mut connection| connection.get("/"))
    }

    /// Sends a request on a connection of its own; returns the response's body.
    pub(crate) fn get(&self, port: u16) -> String {
        connect(port).unwrap().get("/")
    }
}

/// Returns directives with directories for temporary files that the configuration does not name itself.
fn temporary(http: &str) -> String {
    let names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let lines = names.map(|name| (format!("{name}_temp_path"), name));
    let lines = lines.into_iter().filter(|(directive, _)| !http.contains(directive.as_str()));
    lines.map(|(directive, name)| format!("{directive} {{dir}}/temp_{name};\n")).collect()
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    /// Other masters to end, whatever the result of the test.
    more: Vec<u32>,
}

impl Server {
    /// Starts a command whose log is its standard error.
    pub(crate) fn of(mut command: Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Server { child, lines, more: Vec::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of the log that contains a text.
    #[track_caller]
    pub(crate) fn wait_log(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line with {text:?} after:\n{}", seen.join("\n"));
    }

    /// Waits for a line that ends with a number: `start worker process 123`.
    #[track_caller]
    pub(crate) fn wait_number(&self, text: &str) -> u32 {
        let line = self.wait_log(text);
        line.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn also_end(&mut self, pid: u32) {
        self.more.push(pid);
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn quit(mut self) {
        self.signal(Signal::Quit);
        assert!(self.wait().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A worker ends by itself when its master has ended.
        for pid in &self.more {
            let _ = kill(*pid, Signal::Kill);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a pipe, once its reader has opened it.
pub(crate) fn opened_to_write(path: &Path) -> fs::File {
    let (sender, opened) = channel();
    let path = path.to_owned();
    std::thread::spawn(move || sender.send(fs::File::options().write(true).open(path)));
    opened.recv_timeout(DEADLINE).unwrap().unwrap()
}

/// A client's connection.
pub(crate) struct Connection(BufReader<TcpStream>);

pub(crate) fn connect(port: u16) -> std::io::Result<Connection> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(Connection(BufReader::new(stream)))
}

impl Connection {
    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Reads one response with a length; returns its body.
    #[track_caller]
    pub(crate) fn body(&mut self) -> String {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection was closed");
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.body()
    }

    /// Whether the server closes.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}
