//! The `listen` directive: an address and its socket options.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use tidegate_conf::{Args, Contexts, Diagnostic, NameLookup, Span, parse_seconds, parse_size};
use tidegate_core::client::Address;
use tidegate_core::listen::{SoKeepalive, SocketOptions};

#[cfg(test)]
mod tests;

/// One `listen` directive.
#[derive(Clone, Debug)]
pub struct ListenConf {
    /// The address.
    pub address: Address,
    /// `default_server`.
    pub default_server: bool,
    /// `ssl`.
    pub tls: bool,
    /// `proxy_protocol`.
    pub proxy_protocol: bool,
    /// `http2`.
    pub http2: bool,
    /// Whether the socket is UDP: `udp` in `stream`, `quic` in `http`.
    pub datagram: bool,
    /// `quic`: HTTP/3 is served there.
    pub quic: bool,
    /// Socket options.
    pub socket: SocketOptions,
    /// Position in the configuration.
    pub span: Span,
}

/// The port where none is written and the process is privileged.
const PORT_DEFAULT: u16 = 80;

/// Parses the arguments of `listen`; a name with several addresses (`localhost`) yields several.
///
/// # Errors
/// For an invalid address or parameter, in nginx's words.
pub fn parse(args: &Args<'_>) -> Result<Vec<ListenConf>, Diagnostic> {
    let text = args.text(0)?;
    let addresses = parse_addresses(text, args.names).map_err(|message| args.error(0, message))?;
    let mut listen = ListenConf {
        address: Address::Unix(String::new()),
        default_server: false,
        tls: false,
        proxy_protocol: false,
        http2: false,
        datagram: false,
        quic: false,
        socket: SocketOptions::default(),
        span: args.word(0).span,
    };
    let in_stream = args.context.intersects(Contexts::STREAM_SERVER);
    if in_stream && has_default_port(text) {
        return Err(args.error(0, format!("no port in \"{text}\" of the \"listen\" directive")));
    }
    for index in 1..args.len() {
        parameter(&mut listen, args, index, &addresses)?;
    }
    if listen.quic {
        check_quic(&listen, &addresses, args)?;
    } else if listen.datagram {
        check_datagram(&listen, args)?;
    }
    Ok(addresses.into_iter().map(|address| ListenConf { address, ..listen.clone() }).collect())
}

/// Refuses parameters for connections and for TLS with UDP.
fn check_datagram(listen: &ListenConf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let socket = &listen.socket;
    let refused = [
        ("backlog", socket.backlog.is_some()),
        ("ssl", listen.tls),
        ("so_keepalive", socket.so_keepalive.is_some()),
        ("proxy_protocol", listen.proxy_protocol),
        ("fastopen", socket.fastopen.is_some()),
        ("deferred", socket.deferred),
    ];
    match refused.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            Err(args.error(0, format!("\"{name}\" parameter is incompatible with \"udp\"")))
        }
    }
}

/// Refuses parameters for TCP and for other protocols with QUIC, in nginx's order.
fn check_quic(
    listen: &ListenConf,
    addresses: &[Address],
    args: &Args<'_>,
) -> Result<(), Diagnostic> {
    let socket = &listen.socket;
    let refused = [
        ("fastopen", socket.fastopen.is_some()),
        ("backlog", socket.backlog.is_some()),
        ("deferred", socket.deferred),
        ("multipath", socket.multipath),
        ("ssl", listen.tls),
        ("http2", listen.http2),
        ("so_keepalive", socket.so_keepalive.is_some()),
        ("proxy_protocol", listen.proxy_protocol),
    ];
    if let Some((name, _)) = refused.iter().find(|(_, given)| *given) {
        let message =
            format!("\"listen\" directive \"{name}\" parameter is incompatible with \"quic\"");
        let found = args.error(0, message);
        return Err(match *name {
            "ssl" => found.help("write two directives: `listen PORT ssl;` and `listen PORT quic;`"),
            _ => found,
        });
    }
    if addresses.iter().any(|address| matches!(address, Address::Unix(_))) {
        let message = "\"quic\" is not supported on unix domain sockets";
        return Err(args.error(0, message).label("QUIC needs UDP"));
    }
    Ok(())
}

/// Returns whether no port is written.
fn has_default_port(text: &str) -> bool {
    !text.starts_with("unix:") && split_ports(text).is_ok_and(|(host, _)| host == text)
}

fn parameter(
    listen: &mut ListenConf,
    args: &Args<'_>,
    index: usize,
    addresses: &[Address],
) -> Result<(), Diagnostic> {
    let (name, value) = args.parameter(index)?;
    let socket = &mut listen.socket;
    match (name, value) {
        ("default_server" | "default", None) => listen.default_server = true,
        ("ssl", None) => listen.tls = true,
        ("proxy_protocol", None) => listen.proxy_protocol = true,
        ("http2", None) if args.context.intersects(Contexts::SERVER) => listen.http2 = true,
        ("quic", None) if args.context.intersects(Contexts::SERVER) => {
            (listen.quic, listen.datagram) = (true, true);
        }
        ("udp", None) if args.context.intersects(Contexts::STREAM_SERVER) => {
            if addresses.iter().any(|address| matches!(address, Address::Unix(_))) {
                let message = "\"udp\" is not supported yet on unix domain sockets";
                return Err(args.error(index, message));
            }
            listen.datagram = true;
        }
        _ => {
            socket.written = true;
            socket_option(socket, name, value).map_err(|fault| match fault {
                Fault::Unknown => args.invalid_parameter(index),
                Fault::Text(message) => args.error(index, message),
            })?;
        }
    }
    Ok(())
}

enum Fault {
    Unknown,
    Text(String),
}

fn socket_option(socket: &mut SocketOptions, name: &str, value: Option<&str>) -> Result<(), Fault> {
    let shown = value.unwrap_or_default();
    let invalid = || Fault::Text(format!("invalid {name} \"{name}={shown}\""));
    match (name, value) {
        ("bind", None) => {}
        ("backlog", Some(text)) => {
            let backlog = text.parse().ok().filter(|n| *n > 0 || *n == -1);
            socket.backlog = Some(backlog.ok_or_else(invalid)?);
        }
        ("rcvbuf", Some(text)) => socket.rcvbuf = Some(bytes(text).ok_or_else(invalid)?),
        ("sndbuf", Some(text)) => socket.sndbuf = Some(bytes(text).ok_or_else(invalid)?),
        ("fastopen", Some(text)) => {
            socket.fastopen = Some(text.parse().ok().filter(|n| *n >= 0).ok_or_else(invalid)?);
        }
        ("deferred", None) => socket.deferred = true,
        ("reuseport", None) => socket.reuseport = true,
        ("multipath", None) => socket.multipath = true,
        ("ipv6only", Some(text)) => {
            socket.ipv6only = Some(match text {
                "on" => true,
                "off" => false,
                _ => return Err(Fault::Unknown),
            });
        }
        ("so_keepalive", Some(text)) => {
            let invalid = || Fault::Text(format!("invalid so_keepalive value: \"{text}\""));
            socket.so_keepalive = Some(so_keepalive(text).ok_or_else(invalid)?);
        }
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

fn bytes(text: &str) -> Option<usize> {
    usize::try_from(parse_size(text.as_bytes())?).ok()
}

/// Parses `on`, `off` or `idle:interval:count`. Parts that are empty or missing at the end keep the system's values;
/// at least one must be present, and none may be zero.
fn so_keepalive(text: &str) -> Option<SoKeepalive> {
    match text {
        "on" => return Some(SoKeepalive { on: true, ..SoKeepalive::default() }),
        "off" => return Some(SoKeepalive::default()),
        _ => {}
    }
    let mut parts = text.split(':');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    let (idle, interval, count) = (part(), part(), part());
    let time = |text: Option<&str>| match text {
        Some(text) => parse_seconds(text.as_bytes()).filter(|time| !time.is_zero()).map(Some),
        None => Some(None),
    };
    let count = match count {
        Some(count) => Some(count.parse().ok().filter(|count| *count > 0)?),
        None => None,
    };
    let found = SoKeepalive { on: true, idle: time(idle)?, interval: time(interval)?, count };
    let is_said = found.idle.is_some() || found.interval.is_some() || found.count.is_some();
    (is_said && parts.next().is_none()).then_some(found)
}

/// Parses `*:80`, `80`, `127.0.0.1`, `127.0.0.1:80`, `[::1]:80`, `localhost:80`, `unix:/path`; ports also as a
/// range: `8000-8010`.
///
/// # Errors
/// For an invalid host, port or path, in nginx's words.
pub fn parse_addresses(text: &str, names: &dyn NameLookup) -> Result<Vec<Address>, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(format!(
                "no path in the unix domain socket in \"{text}\" of the \"listen\" directive"
            ));
        }
        return Ok(vec![Address::Unix(path.to_owned())]);
    }
    let (host, ports) = split_ports(text)?;
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let ip = match host {
        "" if text.starts_with(':') => {
            return Err(format!("no host in \"{text}\" of the \"listen\" directive"));
        }
        "" | "*" => any,
        _ => match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => IpAddr::V6(inner.parse::<Ipv6Addr>().map_err(|_| {
                format!("invalid IPv6 address in \"{text}\" of the \"listen\" directive")
            })?),
            None => match host.parse::<Ipv4Addr>() {
                Ok(ip) => IpAddr::V4(ip),
                Err(_) => return resolve(text, host, ports, names),
            },
        },
    };
    Ok(ports.map(|port| Address::Inet(SocketAddr::new(ip, port))).collect())
}

/// Splits an address into host and ports, from the first to the last.
fn split_ports(text: &str) -> Result<(&str, RangeInclusive<u16>), String> {
    let bare = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    let (host, ports) = match text.rfind(':') {
        _ if bare => ("", text),
        // An IPv6 address needs brackets: without them, the text after its first colon is no port.
        Some(colon) if !text.starts_with('[') && text[..colon].contains(':') => ("", ":"),
        Some(colon) if !text[colon..].contains(']') => (&text[..colon], &text[colon + 1..]),
        _ => return Ok((text, PORT_DEFAULT..=PORT_DEFAULT)),
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((host, first..=last)),
        _ => Err(format!("invalid port in \"{text}\" of the \"listen\" directive")),
    }
}

fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

fn resolve(
    text: &str,
    host: &str,
    ports: RangeInclusive<u16>,
    names: &dyn NameLookup,
) -> Result<Vec<Address>, String> {
    let failed = || format!("host not found in \"{text}\" of the \"listen\" directive");
    let found = names.addresses(host).map_err(|_| failed())?;
    let all = ports.flat_map(|port| found.iter().map(move |ip| SocketAddr::new(*ip, port)));
    let all: Vec<Address> = all.map(Address::Inet).collect();
    if all.is_empty() { Err(failed()) } else { Ok(all) }
}
