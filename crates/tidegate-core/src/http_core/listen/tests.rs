//! Addresses of `listen`.
use super::parse_addresses;
use crate::builder::SystemNames;

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
