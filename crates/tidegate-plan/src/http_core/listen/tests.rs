//! Addresses and parameters of `listen`.

use std::time::Duration;

use tidegate_core::listen::ListenerPlan;

use super::*;
use crate::SystemNames;
use crate::tests::Bench;

#[test]
fn addresses_and_port_ranges() {
    for (text, expected) in [
        ("80", Ok("0.0.0.0:80")),
        ("*:8080", Ok("0.0.0.0:8080")),
        ("127.0.0.1", Ok("127.0.0.1:80")),
        ("127.0.0.1:8080", Ok("127.0.0.1:8080")),
        ("[::1]", Ok("[::1]:80")),
        ("[::1]:8080", Ok("[::1]:8080")),
        ("8080-8082", Ok("0.0.0.0:8080 0.0.0.0:8081 0.0.0.0:8082")),
        ("127.0.0.1:8080-8081", Ok("127.0.0.1:8080 127.0.0.1:8081")),
        ("[::1]:8080-8080", Ok("[::1]:8080")),
        ("65535-65535", Ok("0.0.0.0:65535")),
        ("8081-8080", Err("invalid port in \"8081-8080\" of the \"listen\" directive")),
        (":80", Err("no host in \":80\" of the \"listen\" directive")),
        (":80-90", Err("no host in \":80-90\" of the \"listen\" directive")),
        (":", Err("invalid port in \":\" of the \"listen\" directive")),
        ("0", Err("invalid port in \"0\" of the \"listen\" directive")),
        ("127.0.0.1:", Err("invalid port in \"127.0.0.1:\" of the \"listen\" directive")),
        ("127.0.0.1:+1", Err("invalid port in \"127.0.0.1:+1\" of the \"listen\" directive")),
        ("1-65536", Err("invalid port in \"1-65536\" of the \"listen\" directive")),
        ("1-2-3", Err("invalid port in \"1-2-3\" of the \"listen\" directive")),
        ("[::1:80", Err("host not found in \"[::1:80\" of the \"listen\" directive")),
    ] {
        let found = parse_addresses(text, &SystemNames).map(|addresses| {
            addresses.iter().map(|address| address.text()).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

/// Returns the socket options of `listen 80 …`, or the error in nginx's words.
fn options(parameters: &str) -> Result<SocketOptions, String> {
    let listen = format!("server {{ listen [::]:80 {parameters}; }}");
    match Bench::try_new(&listen) {
        Ok(bench) => Ok(bench.plan.listeners[0].socket.clone()),
        Err(errors) => Err(errors.join("; ")),
    }
}

#[test]
fn options_of_sockets() {
    let keepalive = |idle, interval, count| {
        let [idle, interval] =
            [idle, interval].map(|time| (time > 0).then(|| Duration::from_secs(time)));
        let so_keepalive = Some(SoKeepalive { on: true, idle, interval, count });
        SocketOptions { so_keepalive, ..SocketOptions::default() }
    };
    let default = SocketOptions::default;
    for (text, expected) in [
        ("bind", default()),
        ("backlog=5", SocketOptions { backlog: Some(5), ..default() }),
        ("backlog=-1", SocketOptions { backlog: Some(-1), ..default() }),
        (
            "rcvbuf=1k sndbuf=2k",
            SocketOptions { rcvbuf: Some(1024), sndbuf: Some(2048), ..default() },
        ),
        ("fastopen=0", SocketOptions { fastopen: Some(0), ..default() }),
        (
            "deferred reuseport multipath",
            SocketOptions { deferred: true, reuseport: true, multipath: true, ..default() },
        ),
        ("ipv6only=off", SocketOptions { ipv6only: Some(false), ..default() }),
        ("so_keepalive=on", keepalive(0, 0, None)),
        (
            "so_keepalive=off",
            SocketOptions { so_keepalive: Some(SoKeepalive::default()), ..default() },
        ),
        ("so_keepalive=1m:2:3", keepalive(60, 2, Some(3))),
        ("so_keepalive=1m", keepalive(60, 0, None)),
        ("so_keepalive=1m:2", keepalive(60, 2, None)),
        ("so_keepalive=:2", keepalive(0, 2, None)),
        ("so_keepalive=::3", keepalive(0, 0, Some(3))),
        ("so_keepalive=1m::", keepalive(60, 0, None)),
    ] {
        assert_eq!(options(text), Ok(SocketOptions { written: true, ..expected }), "{text}");
    }
    assert_eq!(options("default_server ssl proxy_protocol"), Ok(default()));
}

#[test]
fn invalid_options_are_refused() {
    for (text, expected) in [
        ("backlog=0", "invalid backlog \"backlog=0\""),
        ("backlog=-2", "invalid backlog \"backlog=-2\""),
        ("backlog", "invalid parameter \"backlog\""),
        ("rcvbuf=x", "invalid rcvbuf \"rcvbuf=x\""),
        ("fastopen=-1", "invalid fastopen \"fastopen=-1\""),
        ("ipv6only=x", "invalid parameter \"ipv6only=x\""),
        ("so_keepalive=", "invalid so_keepalive value: \"\""),
        ("so_keepalive=:", "invalid so_keepalive value: \":\""),
        ("so_keepalive=::", "invalid so_keepalive value: \"::\""),
        ("so_keepalive=0::", "invalid so_keepalive value: \"0::\""),
        ("so_keepalive=::0", "invalid so_keepalive value: \"::0\""),
        ("so_keepalive=1:2:3:", "invalid so_keepalive value: \"1:2:3:\""),
        ("so_keepalive=500ms", "invalid so_keepalive value: \"500ms\""),
        ("default_server=1", "invalid parameter \"default_server=1\""),
        ("udp", "invalid parameter \"udp\""),
        ("http2=on", "invalid parameter \"http2=on\""),
        ("quic=1", "invalid parameter \"quic=1\""),
        ("http3", "invalid parameter \"http3\""),
        ("spdy", "invalid parameter \"spdy\""),
    ] {
        assert_eq!(options(text), Err(expected.to_owned()), "{text}");
    }
    // As in nginx, options without a meaning for an address family are accepted.
    for address in ["80", "unix:/s"] {
        let bench = Bench::new(&format!("server {{ listen {address} ipv6only=on; }}"));
        assert_eq!(bench.plan.listeners[0].socket.ipv6only, Some(true));
    }
}

#[test]
fn http2_is_of_the_address() {
    for (servers, expected) in [
        ("server { listen 80; }", false),
        ("server { listen 80 http2; }", true),
        ("server { listen 80; } server { listen 80 http2; server_name b; }", true),
    ] {
        assert_eq!(Bench::new(servers).plan.listeners[0].http2, expected, "{servers}");
    }
}

#[test]
fn udp_refuses_options_of_connections() {
    for parameter in
        ["backlog=5", "ssl", "so_keepalive=on", "proxy_protocol", "fastopen=5", "deferred"]
    {
        let name = parameter.split('=').next().unwrap();
        let errors =
            Bench::errors_of_file(&format!("stream {{ server {{ listen 5 udp {parameter}; }} }}"));
        let expected = format!("\"{name}\" parameter is incompatible with \"udp\"");
        assert_eq!(errors[0], expected, "{parameter}");
    }
    let errors = Bench::errors_of_file("stream { server { listen unix:/s udp; } }");
    assert_eq!(errors[0], "\"udp\" is not supported yet on unix domain sockets");
}

/// All of them together are refused by the first; without it by the second, and so on: nginx's order.
#[test]
fn quic_refuses_options_of_tcp() {
    let mut parameters = vec![
        "fastopen=5",
        "backlog=5",
        "deferred",
        "multipath",
        "ssl",
        "http2",
        "so_keepalive=on",
        "proxy_protocol",
    ];
    while let Some(first) = parameters.first() {
        let name = first.split('=').next().unwrap();
        let expected =
            format!("\"listen\" directive \"{name}\" parameter is incompatible with \"quic\"");
        for text in [parameters.join(" ") + " quic", "quic ".to_owned() + &parameters.join(" ")] {
            assert_eq!(options(&text), Err(expected.clone()), "{text}");
        }
        parameters.remove(0);
    }
    let errors = Bench::errors_of_file("http { server { listen unix:/s quic; } }");
    assert_eq!(errors[0], "\"quic\" is not supported on unix domain sockets");
    let errors = Bench::errors_of_file("stream { server { listen 5 quic; } }");
    assert_eq!(errors[0], "invalid parameter \"quic\"");
}

/// One address for TCP and for QUIC is two sockets, with options and default servers of their own.
#[test]
fn quic_is_beside_tcp() {
    let bench = Bench::new(
        "server { listen 1.1.1.1:443 default_server; listen 1.1.1.1:443 quic reuseport; listen 443 quic; }
         server { server_name b; listen 1.1.1.1:443; listen 1.1.1.1:443 quic default_server; }
         server { server_name c; listen 1.1.1.2:443 quic; }",
    );
    let shown: Vec<String> = bench
        .plan
        .listeners
        .iter()
        .map(|one| {
            let ListenerPlan { quic, datagram, socket, servers, by_local, .. } = one;
            assert_eq!(quic, datagram);
            let (address, default, reuseport) =
                (one.address.text(), servers.default.0, socket.reuseport);
            format!("{address} {quic} {default} {reuseport} {}", by_local.len())
        })
        .collect();
    let expected =
        ["0.0.0.0:443 true 0 false 1", "1.1.1.1:443 false 0 false 0", "1.1.1.1:443 true 1 true 0"];
    assert_eq!(shown, expected);
    for (servers, expected) in [
        ("server { listen 443 quic; listen 443 quic; }", "a duplicate listen 0.0.0.0:443"),
        (
            "server { listen 443 quic default_server; } server { listen 443 quic default_server; }",
            "a duplicate default server for 0.0.0.0:443",
        ),
        (
            "server { listen 443 quic rcvbuf=64k; } server { listen 443 quic sndbuf=64k; }",
            "duplicate listen options for 0.0.0.0:443",
        ),
    ] {
        assert_eq!(Bench::errors(servers), [expected], "{servers}");
    }
}
