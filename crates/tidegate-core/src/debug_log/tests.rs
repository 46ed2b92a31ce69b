//! The clients of `debug_connection`.

use super::*;

fn clients(words: &[&str], unix: bool) -> DebugClients {
    let networks = words.iter().map(|word| Network::parse(word).unwrap().0).collect();
    DebugClients { networks, unix }
}

#[test]
fn clients_are_those_of_any_directive() {
    let joined = DebugClients::joined(
        Some(clients(&["192.0.2.0/24"], false)),
        Some(clients(&["2001:db8::1"], true)),
    );
    let all = DebugClients::joined(None, joined).unwrap();
    let table = [
        ("192.0.2.7:1", true),
        ("192.0.3.7:1", false),
        ("[2001:db8::1]:1", true),
        ("[2001:db8::2]:1", false),
        ("[::ffff:192.0.2.7]:1", true),
    ];
    for (address, expected) in table {
        assert_eq!(all.contains(&Address::Inet(address.parse().unwrap())), expected, "{address}");
    }
    let unix = Address::Unix(String::new());
    assert!(all.contains(&unix));
    assert!(!clients(&["0.0.0.0/0"], false).contains(&unix));
}
