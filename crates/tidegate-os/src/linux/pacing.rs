//! Connections within the machine need no pacing.
//!
//! Where the system's congestion control is BBR, each would be paced by timers, for a path that has no queue: for
//! responses of 100 KiB that costs the sender 40 % of its CPU time.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use socket2::SockRef;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// A congestion control that always exists, is allowed to every user, and has no pacing.
const WITHOUT: &[u8] = b"reno";

/// Turns pacing off for a connection that is being made or was accepted, if both its ends are on this machine.
pub fn disable_if_local(socket: impl AsFd, peer: IpAddr, local: Option<IpAddr>) {
    if is_local(peer, local) {
        disable(socket);
    }
}

fn is_local(peer: IpAddr, local: Option<IpAddr>) -> bool {
    peer.to_canonical().is_loopback() || local == Some(peer)
}

/// Turns pacing off for a TCP socket; for a listening one, for all connections accepted from it. A system without
/// pacing is left alone, and so is a socket that refuses.
pub fn disable(socket: impl AsFd) {
    if default_paces() {
        let _ = SockRef::from(&socket.as_fd()).set_tcp_congestion(WITHOUT);
    }
}

fn default_paces() -> bool {
    static PACES: OnceLock<bool> = OnceLock::new();
    *PACES.get_or_init(|| std::fs::read_to_string(DEFAULT).is_ok_and(|name| paces(&name)))
}

fn paces(congestion_control: &str) -> bool {
    congestion_control.starts_with("bbr")
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn all_kinds_of_bbr_pace() {
        let found = ["bbr\n", "bbr2\n", "bbr3\n", "cubic\n", "reno\n", ""].map(paces);
        assert_eq!(found, [true, true, true, false, false, false]);
    }

    #[test]
    fn local_is_loopback_or_the_same_address() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(is_local(ip("127.0.0.9"), None));
        assert!(is_local(ip("::ffff:127.0.0.1"), Some(ip("::ffff:127.0.0.1"))));
        assert!(is_local(ip("192.0.2.1"), Some(ip("192.0.2.1"))));
        assert!(!is_local(ip("192.0.2.1"), Some(ip("192.0.2.2"))));
        assert!(!is_local(ip("2001:db8::1"), None));
    }

    #[test]
    fn an_accepted_connection_has_the_setting_of_its_listener() {
        let of = |socket: &TcpStream| SockRef::from(socket).tcp_congestion().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let usual = of(&client);
        disable(&listener);
        let _second = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.accept().unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let expected = if default_paces() { WITHOUT.to_vec() } else { usual };
        assert_eq!(
            of(&accepted).split(|byte| *byte == 0).next(),
            expected.split(|byte| *byte == 0).next()
        );
    }
}
