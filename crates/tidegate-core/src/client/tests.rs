//! Addresses as variables and `listen` show them.

use super::*;

#[test]
fn addresses_as_texts() {
    for (address, host, text, port) in [
        ("192.0.2.1:80", "192.0.2.1", "192.0.2.1:80", Some(80)),
        ("[::1]:80", "::1", "[::1]:80", Some(80)),
        ("unix:/s", "unix:", "unix:/s", None),
        ("unix:", "unix:", "unix:", None),
    ] {
        let address = match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.to_owned()),
            None => Address::Inet(address.parse().unwrap()),
        };
        assert_eq!(
            (address.host_text().as_str(), address.text().as_str(), address.port()),
            (host, text, port)
        );
        assert_eq!(ClientAddress::from(address).text, host);
    }
}
