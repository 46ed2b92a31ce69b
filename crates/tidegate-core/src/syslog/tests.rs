//! Parameters of syslog, and the messages that a collector receives.

use std::io;

use super::*;

/// Names of which `collector` has two addresses and `empty` has none.
struct Named;

impl NameLookup for Named {
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        match host {
            "collector" => Ok(vec![IpAddr::from([192, 0, 2, 5]), IpAddr::from([192, 0, 2, 6])]),
            "empty" => Ok(vec![]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn parse(text: &str) -> Result<Syslog, String> {
    Syslog::parse(text, "box".to_owned(), &Named).map_err(|error| error.to_string())
}

fn place(text: &str) -> Result<String, String> {
    let syslog = parse(text)?;
    Ok(match syslog.place {
        Destination::Udp(address) => address.to_string(),
        Destination::Unix(path) => format!("unix:{path}"),
    })
}

#[test]
fn servers_are_addresses_names_or_sockets() {
    for (server, expected) in [
        ("192.0.2.1", "192.0.2.1:514"),
        ("192.0.2.1:5514", "192.0.2.1:5514"),
        ("[2001:db8::1]", "[2001:db8::1]:514"),
        ("[2001:db8::1]:5514", "[2001:db8::1]:5514"),
        ("collector", "192.0.2.5:514"),
        ("collector:5514", "192.0.2.5:5514"),
        ("unix:/dev/log", "unix:/dev/log"),
    ] {
        assert_eq!(place(&format!("server={server}")).as_deref(), Ok(expected), "{server}");
    }
}

/// Errors have nginx's words.
#[test]
fn invalid_parameters_are_refused() {
    for (text, expected) in [
        ("", "unknown syslog parameter \"\""),
        ("tag=a", "no syslog server specified"),
        ("server=192.0.2.1,", "unknown syslog parameter \"\""),
        ("server=192.0.2.1,foo=1", "unknown syslog parameter \"foo=1\""),
        ("server=192.0.2.1,nohostname=1", "unknown syslog parameter \"nohostname=1\""),
        ("server=192.0.2.1,facility=LOCAL7", "unknown syslog facility \"LOCAL7\""),
        ("server=192.0.2.1,severity=err", "unknown syslog severity \"err\""),
        (
            "server=192.0.2.1,tag=a-b",
            "syslog \"tag\" only allows alphanumeric characters and underscore",
        ),
        ("server=192.0.2.1,tag=a2345678901234567890123456789012x", "syslog tag length exceeds 32"),
        ("server=192.0.2.1,server=192.0.2.2", "duplicate syslog \"server\""),
        ("server=192.0.2.1,facility=user,facility=mail", "duplicate syslog \"facility\""),
        ("server=192.0.2.1,severity=info,severity=warn", "duplicate syslog \"severity\""),
        ("server=192.0.2.1,tag=a,tag=b", "duplicate syslog \"tag\""),
        ("server=", "no host in syslog server \"\""),
        ("server=unix:", "no path in the unix domain socket in syslog server \"unix:\""),
        ("server=192.0.2.1:0", "invalid port in syslog server \"192.0.2.1:0\""),
        ("server=192.0.2.1:65536", "invalid port in syslog server \"192.0.2.1:65536\""),
        ("server=collector:x", "invalid port in syslog server \"collector:x\""),
        ("server=absent", "host not found in syslog server \"absent\""),
        ("server=empty:5514", "host not found in syslog server \"empty:5514\""),
    ] {
        assert_eq!(place(text).err().as_deref(), Some(expected), "{text}");
    }
    let name = "a".repeat(32);
    assert!(
        place(&format!("server=192.0.2.1,tag={name}")).is_ok()
            && place("server=192.0.2.1,tag=").is_ok()
    );
}

/// Receives a message and returns its text after the time, which is `Mmm dd hh:mm:ss`.
fn received(socket: &UdpSocket) -> String {
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).unwrap();
    let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
    let (priority, rest) = text.split_once('>').unwrap();
    let (time, rest) = rest.split_at(15);
    let month = time.get(..3).unwrap();
    assert!("JanFebMarAprMayJunJulAugSepOctNovDec".contains(month), "{time}");
    assert!(time.as_bytes()[4] != b'0' && time.as_bytes()[6] == b' ', "{time}");
    format!("{priority}>{rest}")
}

#[test]
fn messages_are_those_of_rfc_3164() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    for (more, error_line, access_line) in [
        ("", "<187> box nginx: text", "<190> box nginx: text"),
        (",nohostname", "<187> nginx: text", "<190> nginx: text"),
        (",facility=kern,severity=emerg", "<3> box nginx: text", "<0> box nginx: text"),
        (
            ",facility=local0,severity=debug,tag=my_1",
            "<131> box my_1: text",
            "<135> box my_1: text",
        ),
        (",tag=", "<187> box : text", "<190> box : text"),
    ] {
        let syslog = parse(&format!("server={address}{more}")).unwrap();
        syslog.send(Level::Error, b"text");
        assert_eq!(received(&collector), error_line, "{more}");
        syslog.send_access(b"text");
        assert_eq!(received(&collector), access_line, "{more}");
    }
}

#[test]
fn days_are_padded_with_a_space() {
    for (date, expected) in [
        ("06/Nov/1994:08:49:37 +0000", "Nov  6 08:49:37"),
        ("16/Nov/1994:00:00:00 +0200", "Nov 16 00:00:00"),
        ("30/Dec/1994:23:59:59 -1200", "Dec 30 23:59:59"),
    ] {
        let mut message = String::new();
        push_syslog_time(&mut message, date.as_bytes());
        assert_eq!(message, expected);
    }
}

#[cfg(unix)]
#[test]
fn a_socket_is_reconnected_when_its_collector_is_back() {
    use std::os::unix::net::UnixDatagram;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let text = format!("server=unix:{},nohostname", path.display());
    let syslog = parse(&text).unwrap();
    // There is no collector yet: the line is lost.
    syslog.send_access(b"lost");
    for round in ["first", "second"] {
        let collector = UnixDatagram::bind(&path).unwrap();
        // A closed socket is detected by the next line, which goes by another one.
        syslog.send_access(round.as_bytes());
        let mut buffer = [0; 200];
        let length = collector.recv(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..length]).ends_with(round));
        drop(collector);
        std::fs::remove_file(&path).unwrap();
    }
}
