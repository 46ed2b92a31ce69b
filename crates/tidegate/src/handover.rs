//! Messages between master and worker over their socket pair.
//!
//! A message is a kind (one byte) and fields: numbers of 64 bits, little endian, and byte strings with their length in
//! front. Open descriptors are passed beside it, in the order in which the fields name them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tidegate_conf::Bundle;
use tidegate_core::client::Address;
use tidegate_core::error_log::Level;
use tidegate_core::listen::ListenerKey;
use tidegate_os::Credentials;
use tidegate_os::pass::{self, Received};
use tidegate_plan::Machine;

use crate::configuration::Origin;
use crate::generation::Generation;
use crate::listening::Listening;
use crate::report::open_failed;
use crate::resources::{Contents, Findings, Names};
use crate::rights::Rights;

/// Longest message, bytes: a configuration's files may have 256 MiB, and the files that it names as much again.
const MESSAGE_BYTES_MAX: usize = 1 << 29;

/// Everything that a worker needs to serve a generation.
#[derive(Debug)]
pub(crate) struct Handover {
    pub generation: u64,
    pub origin: Origin,
    pub rights: Rights,
    /// The configuration's files.
    pub bundle: Bundle,
    pub findings: Findings,
    pub logs: Vec<(PathBuf, File)>,
    pub listening: Vec<Listening>,
}

/// A message from the master.
#[derive(Debug)]
pub(crate) enum ToWorker {
    Serve(Box<Handover>),
    /// To a process that was forked with its generation: it may serve.
    Begin,
    /// Logs that were opened again.
    Reopen(Vec<(PathBuf, File)>),
    /// Received in the place of a generation, or (`None`) of logs, whose descriptors this process has no room for.
    Lost(Option<u64>),
    /// Another process is to receive the packets of QUIC, or (`false`) this one again.
    LeaveQuic(bool),
    /// [`ToMaster::Alive`] is expected once every event loop has responded.
    AreYouAlive,
    Quit,
    Terminate,
}

/// A message from the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToMaster {
    /// It serves this generation now.
    Ready(u64),
    /// It cannot serve this generation and continues as before.
    Failed(u64, String),
    /// The last request of this generation has ended.
    Retired(u64),
    /// Every event loop has responded since [`ToWorker::AreYouAlive`].
    Alive,
}

const SERVE: u8 = 1;
const REOPEN: u8 = 2;
const QUIT: u8 = 3;
const TERMINATE: u8 = 4;
const READY: u8 = 5;
const FAILED: u8 = 6;
const RETIRED: u8 = 7;
const LEAVE_QUIC: u8 = 8;
const RESUME_QUIC: u8 = 9;
const ARE_YOU_ALIVE: u8 = 10;
const ALIVE: u8 = 11;
const BEGIN: u8 = 12;

impl Generation {
    /// Makes the message for a worker. A log that cannot be opened is reported and replaced by the null device; the
    /// rest continues.
    pub(crate) fn handover(&self, origin: &Origin) -> Handover {
        let mut logs = Vec::new();
        for path in &self.log_paths {
            let opened = self.logs.append_at_once(path).or_else(|error| {
                self.log().say(Level::Emerg, format_args!("{}", open_failed(path, &error)));
                File::options().append(true).open(tidegate_os::platform::NULL)
            });
            if let Ok(file) = opened {
                logs.push((path.clone(), file));
            }
        }
        Handover {
            generation: self.number,
            origin: origin.clone(),
            rights: self.rights.clone(),
            bundle: self.bundle.clone(),
            findings: self.findings.clone(),
            logs,
            listening: self.listening.clone(),
        }
    }

    /// Stops listening in this process; the files of Unix sockets are removed when the master ends.
    pub(crate) fn close_sockets(&mut self) {
        for listening in &mut self.listening {
            listening.sockets.clear();
        }
    }
}

impl ToWorker {
    /// Sends the message; waits while the socket is full.
    ///
    /// # Errors
    /// The worker has ended. `InvalidInput`: the configuration is too large, and nothing was sent.
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<()> {
        let mut writer = Writer::default();
        match self {
            ToWorker::Serve(handover) => {
                writer.bytes.push(SERVE);
                writer.handover(handover);
            }
            ToWorker::Reopen(logs) => {
                writer.bytes.push(REOPEN);
                writer.logs(logs);
            }
            ToWorker::Lost(_) => return Err(malformed()),
            ToWorker::LeaveQuic(leave) => {
                writer.bytes.push(if *leave { LEAVE_QUIC } else { RESUME_QUIC });
            }
            ToWorker::Begin => writer.bytes.push(BEGIN),
            ToWorker::AreYouAlive => writer.bytes.push(ARE_YOU_ALIVE),
            ToWorker::Quit => writer.bytes.push(QUIT),
            ToWorker::Terminate => writer.bytes.push(TERMINATE),
        }
        if writer.bytes.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the configuration is too large",
            ));
        }
        pass::send_with_fds(socket, &writer.bytes, &writer.descriptors)
    }

    /// Waits for a message; `None` when the master has ended.
    ///
    /// # Errors
    /// The message is malformed: the two processes have different versions.
    pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<ToWorker>> {
        let Some(mut reader) = Reader::receive(socket)? else { return Ok(None) };
        let kind = reader.kind()?;
        if reader.is_short {
            return match kind {
                SERVE => Ok(Some(ToWorker::Lost(Some(reader.number()?)))),
                REOPEN => Ok(Some(ToWorker::Lost(None))),
                _ => Err(malformed()),
            };
        }
        let message = match kind {
            SERVE => ToWorker::Serve(Box::new(reader.handover()?)),
            REOPEN => ToWorker::Reopen(reader.logs()?),
            LEAVE_QUIC => ToWorker::LeaveQuic(true),
            RESUME_QUIC => ToWorker::LeaveQuic(false),
            BEGIN => ToWorker::Begin,
            ARE_YOU_ALIVE => ToWorker::AreYouAlive,
            QUIT => ToWorker::Quit,
            TERMINATE => ToWorker::Terminate,
            _ => return Err(malformed()),
        };
        Ok(Some(message))
    }
}

impl ToMaster {
    /// Sends the message.
    ///
    /// # Errors
    /// The master has ended.
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<()> {
        let mut writer = Writer::default();
        let (kind, generation, text) = match self {
            ToMaster::Ready(generation) => (READY, generation, ""),
            ToMaster::Failed(generation, text) => (FAILED, generation, text.as_str()),
            ToMaster::Retired(generation) => (RETIRED, generation, ""),
            ToMaster::Alive => (ALIVE, &0, ""),
        };
        writer.bytes.push(kind);
        writer.number(*generation);
        writer.piece(text.as_bytes());
        pass::send_with_fds(socket, &writer.bytes, &[])
    }

    /// Waits for a message; `None` when the worker has ended.
    ///
    /// # Errors
    /// The message is malformed.
    pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<ToMaster>> {
        let Some(mut reader) = Reader::receive(socket)? else { return Ok(None) };
        let kind = reader.kind()?;
        let generation = reader.number()?;
        let text = reader.text()?;
        Ok(Some(match kind {
            READY => ToMaster::Ready(generation),
            FAILED => ToMaster::Failed(generation, text),
            RETIRED => ToMaster::Retired(generation),
            ALIVE => ToMaster::Alive,
            _ => return Err(malformed()),
        }))
    }
}

#[derive(Default)]
struct Writer<'a> {
    bytes: Vec<u8>,
    descriptors: Vec<BorrowedFd<'a>>,
}

impl<'a> Writer<'a> {
    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn piece(&mut self, piece: &[u8]) {
        self.number(piece.len() as u64);
        self.bytes.extend_from_slice(piece);
    }

    fn path(&mut self, path: &Path) {
        self.piece(path.as_os_str().as_bytes());
    }

    /// Writes the number plus one; 0 for `None`.
    fn option(&mut self, number: Option<u64>) {
        self.number(number.map_or(0, |number| number.saturating_add(1)));
    }

    fn logs(&mut self, logs: &'a [(PathBuf, File)]) {
        self.number(logs.len() as u64);
        for (path, file) in logs {
            self.path(path);
            self.descriptors.push(file.as_fd());
        }
    }

    fn handover(&mut self, handover: &'a Handover) {
        self.number(handover.generation);
        let origin = &handover.origin;
        self.piece(origin.prefix.as_bytes());
        self.path(&origin.file);
        self.piece(origin.error_log.as_bytes());
        self.piece(origin.directives.as_bytes());
        self.rights(&handover.rights);
        self.piece(&handover.bundle.to_bytes());
        self.findings(&handover.findings);
        self.logs(&handover.logs);
        self.number(handover.listening.len() as u64);
        for listening in &handover.listening {
            self.piece(listening.place.address.text().as_bytes());
            self.number(listening.place.datagram.into());
            self.number(listening.sockets.len() as u64);
            self.descriptors.extend(listening.sockets.iter().map(|socket| socket.as_fd()));
        }
    }

    fn findings(&mut self, findings: &Findings) {
        self.number(findings.machine.privileged.into());
        self.piece(findings.machine.host_name.as_bytes());
        self.number(findings.machine.ipv6.into());
        self.number(findings.names.len() as u64);
        for (host, addresses) in &findings.names {
            self.piece(host.as_bytes());
            self.number(addresses.len() as u64);
            for address in addresses {
                self.piece(address.to_string().as_bytes());
            }
        }
        self.number(findings.contents.len() as u64);
        for (path, content) in &findings.contents {
            self.path(path);
            self.piece(content);
        }
    }

    fn rights(&mut self, rights: &Rights) {
        match &rights.credentials {
            Some(credentials) => {
                self.piece(credentials.user_name.as_bytes());
                self.number(credentials.uid.into());
                self.number(credentials.gid.into());
            }
            None => {
                self.piece(b"");
                self.number(0);
                self.number(0);
            }
        }
        self.number(rights.sends_from_anywhere.into());
        self.option(rights.files_max);
        self.option(rights.core_bytes_max);
        // Priorities are -20 to 20.
        self.option(rights.priority.map(|priority| u64::from(priority.saturating_add(100) as u32)));
        self.path(rights.directory.as_deref().unwrap_or(Path::new("")));
    }
}

struct Reader {
    bytes: Vec<u8>,
    at: usize,
    descriptors: std::vec::IntoIter<OwnedFd>,
    /// There was no room for the descriptors.
    is_short: bool,
}

impl Reader {
    fn receive(socket: impl AsFd) -> io::Result<Option<Reader>> {
        let received = pass::recv_with_fds(socket, MESSAGE_BYTES_MAX)?;
        Ok(received.map(|Received { bytes, descriptors }| Reader {
            bytes,
            at: 0,
            is_short: descriptors.is_none(),
            descriptors: descriptors.unwrap_or_default().into_iter(),
        }))
    }

    fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(length).ok_or_else(malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn kind(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_| malformed())?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn option(&mut self) -> io::Result<Option<u64>> {
        Ok(self.number()?.checked_sub(1))
    }

    fn piece(&mut self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.number()?).map_err(|_| malformed())?;
        self.take(length).map(<[u8]>::to_vec)
    }

    fn text(&mut self) -> io::Result<String> {
        String::from_utf8(self.piece()?).map_err(|_| malformed())
    }

    fn path(&mut self) -> io::Result<PathBuf> {
        Ok(std::ffi::OsString::from_vec(self.piece()?).into())
    }

    fn descriptor(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.next().ok_or_else(malformed)
    }

    fn logs(&mut self) -> io::Result<Vec<(PathBuf, File)>> {
        let mut logs = Vec::new();
        for _ in 0..self.number()? {
            logs.push((self.path()?, File::from(self.descriptor()?)));
        }
        Ok(logs)
    }

    fn handover(&mut self) -> io::Result<Handover> {
        let generation = self.number()?;
        let origin = Origin {
            prefix: self.text()?,
            file: self.path()?,
            error_log: self.text()?,
            directives: self.text()?,
        };
        let rights = self.rights()?;
        let bundle = Bundle::from_bytes(&self.piece()?).map_err(io::Error::other)?;
        let findings = self.findings()?;
        let logs = self.logs()?;
        let mut listening = Vec::new();
        for _ in 0..self.number()? {
            let address = parse_address(&self.text()?)?;
            let place = ListenerKey { address, datagram: self.number()? != 0 };
            let mut sockets = Vec::new();
            for _ in 0..self.number()? {
                sockets.push(self.descriptor()?.into());
            }
            // Files of Unix sockets are the master's business.
            listening.push(Listening { place, sockets, is_supervisors: false });
        }
        Ok(Handover { generation, origin, rights, bundle, findings, logs, listening })
    }

    fn findings(&mut self) -> io::Result<Findings> {
        let machine = Machine {
            privileged: self.number()? != 0,
            host_name: self.text()?,
            ipv6: self.number()? != 0,
        };
        let mut names = Names::new();
        for _ in 0..self.number()? {
            let host = self.text()?;
            let mut addresses = Vec::new();
            for _ in 0..self.number()? {
                addresses.push(self.text()?.parse().map_err(|_| malformed())?);
            }
            names.push((host, addresses));
        }
        let mut contents = Contents::new();
        for _ in 0..self.number()? {
            contents.push((self.path()?, self.piece()?));
        }
        Ok(Findings { machine, names, contents })
    }

    fn rights(&mut self) -> io::Result<Rights> {
        let user_name = self.text()?;
        let uid = u32::try_from(self.number()?).map_err(|_| malformed())?;
        let gid = u32::try_from(self.number()?).map_err(|_| malformed())?;
        let credentials = (!user_name.is_empty()).then_some(Credentials { user_name, uid, gid });
        let sends_from_anywhere = self.number()? != 0;
        let (files_max, core_bytes_max) = (self.option()?, self.option()?);
        let priority = match self.option()? {
            Some(shifted) => Some(i32::try_from(shifted).map_err(|_| malformed())? - 100),
            None => None,
        };
        let directory = self.path()?;
        let directory = (!directory.as_os_str().is_empty()).then_some(directory);
        Ok(Rights {
            credentials,
            sends_from_anywhere,
            files_max,
            core_bytes_max,
            priority,
            directory,
            // The worker looks them up.
            groups: Vec::new(),
        })
    }
}

fn parse_address(text: &str) -> io::Result<Address> {
    match text.strip_prefix("unix:") {
        Some(path) => Ok(Address::Unix(path.to_owned())),
        None => text.parse().map(Address::Inet).map_err(|_| malformed()),
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed message between master and worker")
}

#[cfg(test)]
mod tests;
