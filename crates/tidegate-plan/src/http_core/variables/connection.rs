//! Variables of the connection, the server, the process and the clock.

use std::net::{IpAddr, SocketAddr};

use tidegate_codec::proxy_protocol::{ProxyHeader, tlv_type};
use tidegate_core::client::{Address, ProxyProtocol};
use tidegate_core::exchange::Exchange;
use tidegate_core::variables::Variable;

use super::{put, put_number, put_seconds};

pub(super) const COUNT: usize = VARIABLES.len();

/// Variables that requests alone have.
pub(super) const VARIABLES: &[Variable] = &[
    Variable::fixed(
        "server_protocol",
        "Protocol of the request, such as `HTTP/1.1`.",
        server_protocol,
    ),
    Variable::fixed("scheme", "`http` or `https`.", |x, out| {
        put(Some(if x.is_https() { b"https" } else { b"http" }), out)
    }),
    Variable::fixed("https", "`on` if the connection is secured by TLS, else empty.", |x, out| {
        put(Some(if x.is_https() { b"on" } else { b"" }), out)
    }),
    Variable::fixed(
        "http2",
        "Protocol of HTTP/2 that was negotiated, `h2` or `h2c`; else empty.",
        |x, out| protocol(x, &["h2", "h2c"], out),
    ),
    Variable::fixed(
        "http3",
        "Protocol of HTTP/3 that was negotiated, `h3`; else empty.",
        |x, out| protocol(x, &["h3", "hq"], out),
    ),
    Variable::fixed(
        "connection_requests",
        "Requests of this connection up to now, this one included.",
        |x, out| put_number(x.ordinal, out),
    ),
    Variable::fixed(
        "connection_time",
        "Seconds since the connection was accepted, with milliseconds.",
        |x, out| {
            let now = tidegate_rt::clock::unix_millis();
            put_seconds(now.saturating_sub(x.connection.accepted_unix_millis), out)
        },
    ),
    Variable::fixed(
        "tcpinfo_rtt",
        "Round-trip time of the client's connection, in microseconds.",
        |x, out| tcp_info(x, 0, out),
    ),
    Variable::fixed(
        "tcpinfo_rttvar",
        "Variance of the round-trip time, in microseconds.",
        |x, out| tcp_info(x, 1, out),
    ),
    Variable::fixed(
        "tcpinfo_snd_cwnd",
        "Congestion window of the client's connection, in segments.",
        |x, out| tcp_info(x, 2, out),
    ),
    Variable::fixed(
        "tcpinfo_rcv_space",
        "Receive window that the system plans for the client's connection, in bytes.",
        |x, out| tcp_info(x, 3, out),
    ),
];

/// Variables that sessions have as well.
pub(crate) const SHARED: &[Variable] = &[
    Variable::fixed("remote_addr", "Client's address.", |x, out| {
        put(Some(x.client_text().as_bytes()), out)
    }),
    Variable::fixed(
        "binary_remote_addr",
        "Client's address in 4 bytes (IPv4) or 16 bytes (IPv6).",
        binary_remote_addr,
    ),
    Variable::fixed("remote_port", "Client's port.", |x, out| {
        // An address that was reported without a port has port 0, and shows none.
        let port = x.client_address().port().filter(|port| *port > 0);
        port.is_none_or(|port| put_number(u64::from(port), out))
    }),
    Variable::fixed(
        "server_addr",
        "Address of the server that accepted the connection.",
        |x, out| match &x.connection.local {
            Address::Inet(address) => put(Some(address.ip().to_string().as_bytes()), out),
            Address::Unix(path) => put(Some(format!("unix:{path}").as_bytes()), out),
        },
    ),
    Variable::fixed("server_port", "Port of the server that accepted the connection.", |x, out| {
        x.connection.local.port().is_none_or(|port| put_number(u64::from(port), out))
    }),
    Variable::fixed("server_name", "Name of the server that accepted the request.", |x, out| {
        put(Some(x.server().name.as_bytes()), out)
    }),
    Variable::fixed(
        "connection",
        "Number of the connection, unique within the server.",
        |x, out| put_number(x.connection.number, out),
    ),
    Variable::fixed("hostname", "Name of the machine.", |x, out| {
        put(Some(x.plan.main.machine.host_name.as_bytes()), out)
    }),
    Variable::fixed("pid", "Number of the worker process.", |_, out| {
        put_number(u64::from(std::process::id()), out)
    }),
    Variable::fixed(
        "nginx_version",
        "Version of nginx whose language this server speaks.",
        |_, out| put(Some(tidegate_core::error_page::NGINX_VERSION.as_bytes()), out),
    ),
    Variable::fixed(
        "proxy_protocol_addr",
        "Client's address in the PROXY protocol's head.",
        |x, out| proxy_address(x, |header| header.client).is_some_and(|from| put_ip(from, out)),
    ),
    Variable::fixed(
        "proxy_protocol_port",
        "Client's port in the PROXY protocol's head.",
        |x, out| proxy_address(x, |header| header.client).is_some_and(|from| put_port(from, out)),
    ),
    Variable::fixed(
        "proxy_protocol_server_addr",
        "Server's address in the PROXY protocol's head.",
        |x, out| proxy_address(x, |header| header.server).is_some_and(|to| put_ip(to, out)),
    ),
    Variable::fixed(
        "proxy_protocol_server_port",
        "Server's port in the PROXY protocol's head.",
        |x, out| proxy_address(x, |header| header.server).is_some_and(|to| put_port(to, out)),
    ),
    Variable::prefixed(
        "proxy_protocol_tlv_",
        "TLV of this name or hexadecimal type in the PROXY protocol's head.",
        proxy_tlv,
    ),
    Variable::fixed("msec", "Present time in seconds since 1970, with milliseconds.", |_, out| {
        put_seconds(tidegate_rt::clock::unix_millis(), out)
    }),
    Variable::fixed("time_iso8601", "Local time in the format of ISO 8601.", |_, out| {
        tidegate_rt::clock::log_time_iso8601(|time| put(Some(time), out))
    }),
    Variable::fixed("time_local", "Local time in the Common Log Format.", |_, out| {
        tidegate_rt::clock::log_time_local(|time| put(Some(time), out))
    }),
];

fn binary_remote_addr(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    match x.client_address() {
        Address::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        },
        Address::Unix(_) => out.extend_from_slice(b"unix:"),
    }
    true
}

/// Appends the connection's protocol if it is one of these.
fn protocol(x: &Exchange, of: &[&str], out: &mut Vec<u8>) -> bool {
    let spoken = x.connection.protocol.get();
    of.contains(&spoken) && put(Some(spoken.as_bytes()), out)
}

/// Appends the last word of the request line; nothing for requests without a protocol version.
fn server_protocol(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let last = x.request.head.line().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let valid = !x.request.head.method_bytes().is_empty();
    put((valid && last.starts_with(b"HTTP/")).then_some(last), out)
}

fn tcp_info(x: &mut Exchange, index: usize, out: &mut Vec<u8>) -> bool {
    x.client.tcp_info().is_some_and(|figures| put_number(u64::from(figures[index]), out))
}

fn proxy_address(
    x: &Exchange,
    side: impl Fn(&ProxyProtocol) -> Option<SocketAddr>,
) -> Option<SocketAddr> {
    side(x.connection.proxy_protocol.as_ref()?)
}

fn put_ip(address: SocketAddr, out: &mut Vec<u8>) -> bool {
    put(Some(address.ip().to_string().as_bytes()), out)
}

fn put_port(address: SocketAddr, out: &mut Vec<u8>) -> bool {
    put_number(u64::from(address.port()), out)
}

fn proxy_tlv(x: &mut Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(header) = &x.connection.proxy_protocol else { return false };
    let header = ProxyHeader { tlvs: header.tlvs.clone(), ..ProxyHeader::default() };
    if name == b"ssl_verify" {
        return header.ssl_verify().is_some_and(|verify| put_number(u64::from(verify), out));
    }
    let found = match std::str::from_utf8(name).ok().and_then(tlv_type) {
        Some((true, kind)) => header.ssl_tlv(kind),
        Some((false, kind)) => header.tlv(kind),
        None => None,
    };
    put(found, out)
}
