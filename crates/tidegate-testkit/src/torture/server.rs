//! A server that is started, killed and ended.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{self, Pid, Signal};

use crate::bell::Failure;
use crate::guard;

/// Longest wait for a server to accept connections, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct Server {
    child: Child,
    front: SocketAddr,
}

impl Server {
    /// Starts a program with a configuration that listens on `front`, and waits until it serves.
    ///
    /// # Errors
    /// The output of the program instead.
    pub(crate) fn start(
        binary: &Path,
        directory: &Path,
        front: SocketAddr,
        configuration: &str,
    ) -> Result<Server, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("cannot start: {error}"));
        std::fs::write(directory.join("nginx.conf"), configuration).map_err(failed)?;
        let log = std::fs::File::create(directory.join("output.log")).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = Command::new(binary);
        command.arg("-p").arg(directory).arg("-c").arg(directory.join("nginx.conf"));
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        guard::watch(child.id()).map_err(failed)?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(front).is_err() {
            let ended = child.try_wait().map_err(failed)?;
            if Instant::now() > deadline || ended.is_some() {
                let output = std::fs::read_to_string(directory.join("output.log"));
                let log = std::fs::read_to_string(directory.join("error.log"));
                Server { child, front }.kill();
                return Err(Failure::new(format!("the server is not there: {output:?} {log:?}")));
            }
            pause(Duration::from_millis(5));
        }
        Ok(Server { child, front })
    }

    /// Kills master and worker and waits for the end of both: the worker is an orphan then, and
    /// its socket accepts connections until it has ended.
    pub(crate) fn kill(mut self) {
        let _ = process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        let _ = guard::forget(self.child.id());
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.front).is_ok() && Instant::now() < deadline {
            pause(Duration::from_millis(1));
        }
    }

    /// Reloads its configuration.
    pub(crate) fn reload(&self) {
        let _ = process::kill_process(Pid::from_child(&self.child), Signal::HUP);
    }

    /// Ends it gracefully.
    ///
    /// # Errors
    /// A description of the failure.
    pub(crate) fn quit(mut self) -> Result<(), String> {
        let _ = process::kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                let _ = guard::forget(self.child.id());
                return match status.success() {
                    true => Ok(()),
                    false => Err(format!("the server ended with {status}")),
                };
            }
            pause(Duration::from_millis(10));
        }
        self.kill();
        Err("the server does not end".to_owned())
    }
}

/// Lets time pass; the moment of a kill is chosen by time, not by an event.
pub(crate) fn pause(time: Duration) {
    let (sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
    drop(sender);
}
