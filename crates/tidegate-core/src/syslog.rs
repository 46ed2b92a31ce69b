//! Log lines to syslog: `syslog:server=…,facility=…,tag=…,severity=…,nohostname`.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::{error, fmt};

use tidegate_conf::NameLookup;
use tidegate_os::{ConnectOptions, ListenAddr, OwnedSocket, Transport, connect, socket};

use crate::level::Level;

const FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];
const SEVERITIES: &[&str] = &["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];
const PORT_DEFAULT: u16 = 514;
/// As in nginx's manual, so that rules of log collectors stay valid.
const TAG_DEFAULT: &str = "nginx";

#[derive(Debug)]
enum Destination {
    Udp(SocketAddr),
    Unix(String),
}

enum Socket {
    Udp(UdpSocket),
    Unix(OwnedSocket),
}

/// Why the parameters of a destination are invalid, in nginx's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogError(String);

impl fmt::Display for SyslogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for SyslogError {}

impl From<String> for SyslogError {
    fn from(text: String) -> Self {
        SyslogError(text)
    }
}

/// One syslog destination.
pub struct Syslog {
    place: Destination,
    facility: usize,
    severity: usize,
    tag: String,
    hostname: Option<String>,
    socket: Mutex<Option<Socket>>,
}

/// Shows the destination.
impl fmt::Debug for Syslog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.place, self.facility, self.severity, &self.tag).fmt(f)
    }
}

impl Syslog {
    /// Parses the parameters after `syslog:`. `host_name` is the machine's name, and `names` resolves the server's.
    ///
    /// # Errors
    /// For a parameter that is unknown, invalid, repeated or missing.
    pub fn parse(
        text: &str,
        host_name: String,
        names: &dyn NameLookup,
    ) -> Result<Syslog, SyslogError> {
        let mut seen: Vec<&str> = Vec::new();
        let mut place = None;
        let mut syslog = Syslog {
            place: Destination::Unix(String::new()),
            facility: 23,
            severity: 6,
            tag: TAG_DEFAULT.to_owned(),
            hostname: Some(host_name),
            socket: Mutex::new(None),
        };
        for parameter in text.split(',') {
            let (name, _) = parameter.split_once('=').unwrap_or((parameter, ""));
            if seen.contains(&name) && name != "nohostname" {
                return Err(format!("duplicate syslog \"{name}\"").into());
            }
            seen.push(name);
            match parameter.split_once('=') {
                Some(("server", server)) => place = Some(parse_destination(server, names)?),
                Some(("facility", name)) => syslog.facility = index(FACILITIES, name, "facility")?,
                Some(("severity", name)) => syslog.severity = index(SEVERITIES, name, "severity")?,
                Some(("tag", tag)) => syslog.tag = checked_tag(tag)?,
                None if parameter == "nohostname" => syslog.hostname = None,
                _ => return Err(format!("unknown syslog parameter \"{parameter}\"").into()),
            }
        }
        syslog.place = place.ok_or_else(|| SyslogError("no syslog server specified".to_owned()))?;
        Ok(syslog)
    }

    /// Sends a line with an error log level as severity. A line that cannot be sent is lost.
    pub fn send(&self, level: Level, line: &[u8]) {
        self.send_with(level as usize, line);
    }

    /// Sends a line of an access log with the configured severity.
    pub fn send_access(&self, line: &[u8]) {
        self.send_with(self.severity, line);
    }

    fn send_with(&self, severity: usize, line: &[u8]) {
        let mut message = format!("<{}>", self.facility * 8 + severity);
        tidegate_rt::clock::log_time_local(|time| push_syslog_time(&mut message, time));
        if let Some(name) = &self.hostname {
            message.push(' ');
            message.push_str(name);
        }
        message.push(' ');
        message.push_str(&self.tag);
        message.push_str(": ");
        let mut bytes = message.into_bytes();
        bytes.extend_from_slice(line);
        let mut socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A collector that was started again is found by the failure of an older socket: the line goes by a new one.
        for _ in 0..2 {
            let is_new = socket.is_none();
            if is_new {
                *socket = self.connect().ok();
            }
            let sent = match socket.as_ref() {
                Some(Socket::Udp(socket)) => socket.send(&bytes).map(drop),
                Some(Socket::Unix(socket)) => socket::write(socket, &bytes).map(drop),
                None => return,
            };
            match sent {
                Ok(()) => return,
                // It is full: it may read again.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => *socket = None,
            }
            if is_new {
                return;
            }
        }
    }

    fn connect(&self) -> std::io::Result<Socket> {
        match &self.place {
            Destination::Udp(address) => {
                let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(local)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(Socket::Udp(socket))
            }
            Destination::Unix(path) => {
                let options =
                    ConnectOptions { transport: Transport::Datagram, ..ConnectOptions::default() };
                let address = ListenAddr::Unix(path.into());
                Ok(Socket::Unix(connect::connect_nonblocking(&address, &options)?.0))
            }
        }
    }
}

fn index(names: &[&str], name: &str, what: &str) -> Result<usize, SyslogError> {
    let place = names.iter().position(|known| *known == name);
    place.ok_or_else(|| format!("unknown syslog {what} \"{name}\"").into())
}

fn checked_tag(tag: &str) -> Result<String, SyslogError> {
    if tag.len() > 32 {
        return Err("syslog tag length exceeds 32".to_owned().into());
    }
    if !tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("syslog \"tag\" only allows alphanumeric characters and underscore"
            .to_owned()
            .into());
    }
    Ok(tag.to_owned())
}

fn parse_destination(server: &str, names: &dyn NameLookup) -> Result<Destination, SyslogError> {
    if let Some(path) = server.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(
                format!("no path in the unix domain socket in syslog server \"{server}\"").into()
            );
        }
        if !socket::HAS_UNIX {
            return Err(format!("\"{server}\": {}", socket::NO_UNIX).into());
        }
        return Ok(Destination::Unix(path.to_owned()));
    }
    if let Ok(ip) = server.parse::<IpAddr>() {
        return Ok(Destination::Udp(SocketAddr::new(ip, PORT_DEFAULT)));
    }
    let unknown = || format!("host not found in syslog server \"{server}\"");
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !server.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port > 0);
            (host, port.ok_or_else(|| format!("invalid port in syslog server \"{server}\""))?)
        }
        _ => (server, PORT_DEFAULT),
    };
    if host.is_empty() {
        return Err(format!("no host in syslog server \"{server}\"").into());
    }
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Destination::Udp(SocketAddr::new(ip, port)));
    }
    let addresses = names.addresses(host).map_err(|_| unknown())?;
    let first = addresses.first().ok_or_else(unknown)?;
    Ok(Destination::Udp(SocketAddr::new(*first, port)))
}

/// Appends a local time as in RFC 3164 section 4.1.2, `Nov  6 08:49:37`; `time` is in the common log format.
fn push_syslog_time(message: &mut String, time: &[u8]) {
    let text = String::from_utf8_lossy(time);
    let part = |range| text.get(range).unwrap_or_default();
    let (day, month, time) = (part(0..2).trim_start_matches('0'), part(3..6), part(12..20));
    message.push_str(&format!("{month} {day:>2} {time}"));
}
