//! State files: written servers are read again; invalid files are refused.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_upstream::peers::ServerName;

use super::*;

fn members() -> impl Strategy<Value = Member> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let numbers = (1..1000_u32, 0..10_u32, 0..10_u32, 0..100_u64, 0..100_u64);
    let route = prop::option::of("[ -~]{1,30}");
    let name = prop::option::of(prop::option::of("[a-z.]{1,10}"));
    (flags, numbers, route, name).prop_map(|((backup, down, drain), numbers, route, name)| {
        let (weight, max_conns, max_fails, timeout, slow) = numbers;
        let options = ServerOptions {
            weight,
            max_conns,
            max_fails,
            fail_timeout: Duration::from_secs(timeout),
            slow_start: Duration::from_secs(slow),
            backup,
            down,
            drain,
            route: route.map(Into::into),
        };
        match name {
            None => {
                let address = ([127, 0, 0, 1], 8080).into();
                Member::fixed(
                    "127.0.0.1:8080",
                    vec![tidegate_rt::net::Addr::Inet(address)],
                    options,
                )
            }
            Some(service) => {
                let service = service.map(Into::into);
                let name = ServerName { host: "a.example".into(), port: 80, service };
                Member::named("a.example", name, options)
            }
        }
    })
}

proptest! {
    #[test]
    fn written_servers_are_read_again(members in prop::collection::vec(members(), 0..4)) {
        let read = parse(render(&members).as_bytes()).expect("our own text");
        let again: Vec<_> = read.iter().map(|server| server.member(false, |_| unreachable!()).expect("a server")).collect();
        prop_assert_eq!(again, members);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = parse(&bytes);
    }
}

#[test]
fn invalid_state_is_refused() {
    for (text, error) in [
        ("listen 80;", "unknown directive \"listen\""),
        ("server a { }", "block directives are not supported"),
        ("server;", "unknown directive \"server\""),
        ("server 127.0.0.1:1 speed=3;", "invalid parameter \"speed=3\""),
        ("server 127.0.0.1:1", "unexpected end of parameter"),
    ] {
        let found = parse(text.as_bytes()).expect_err(text).to_string();
        assert!(found.contains(error), "{text}: {found}");
    }
}
