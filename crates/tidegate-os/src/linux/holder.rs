//! The process that holds a taken address: from `/proc`, for an error message.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::types::Transport;

/// Most entries of `/proc` and of a process's descriptors that are read: a machine with more is not searched for an
/// error message.
const ENTRIES_MAX: usize = 100_000;

/// Returns the process that listens on `address`, or on all addresses of its port: its id and its program's name.
/// `None` when there is none or it may not be read (`/proc/PID/fd` of other users).
pub fn holder(address: SocketAddr, transport: Transport) -> Option<(u32, String)> {
    let protocol = if transport == Transport::Datagram { "udp" } else { "tcp" };
    let tables = [format!("/proc/net/{protocol}"), format!("/proc/net/{protocol}6")];
    let mut inodes = tables.iter().flat_map(|path| {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        table.lines().skip(1).filter_map(|line| inode(line, address, transport)).collect::<Vec<_>>()
    });
    let link = format!("socket:[{}]", inodes.next()?);
    let mut left = ENTRIES_MAX;
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            left = left.checked_sub(1)?;
            if std::fs::read_link(descriptor.path()).is_ok_and(|to| to == Path::new(&link)) {
                let name = std::fs::read(process.path().join("comm")).unwrap_or_default();
                return Some((pid, String::from_utf8_lossy(&name).trim_end().to_owned()));
            }
        }
    }
    None
}

/// Returns the inode in a line of `/proc/net/tcp` if it describes a socket at `address` (proc(5)).
fn inode(line: &str, address: SocketAddr, transport: Transport) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (host, port) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    // LISTEN for TCP; bound sockets for UDP.
    let wanted = if transport == Transport::Datagram { "07" } else { "0A" };
    if u16::from_str_radix(port, 16).ok()? != address.port() || state != wanted || inode == 0 {
        return None;
    }
    let any = host.bytes().all(|byte| byte == b'0');
    (any || address.ip().is_unspecified() || host == hexadecimal(address.ip())).then_some(inode)
}

/// Formats an address as in `/proc/net`: words of 32 bits in the machine's byte order.
fn hexadecimal(ip: IpAddr) -> String {
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.as_chunks::<4>().0.iter();
    words.map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (pid, name) = holder(socket.local_addr().unwrap(), Transport::Stream).unwrap();
        assert_eq!(pid, std::process::id());
        assert!(!name.is_empty());
        let address = socket.local_addr().unwrap();
        drop(socket);
        assert_ne!(holder(address, Transport::Stream).map(|(pid, _)| pid), Some(pid));
    }

    #[test]
    fn lines() {
        let line = "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1";
        let find = |at: &str| inode(line, at.parse().unwrap(), Transport::Stream);
        assert_eq!(find("0.0.0.0:8080"), Some(4711));
        assert_eq!(find("127.0.0.1:8081"), None);
        assert_eq!(find("127.0.0.2:8080"), None);
        if cfg!(target_endian = "little") {
            assert_eq!(find("127.0.0.1:8080"), Some(4711));
        }
        assert_eq!(inode("", "0.0.0.0:80".parse().unwrap(), Transport::Stream), None);
    }
}
