//! Which listener `pass` chooses.

use tidegate_core::client::Address;

use super::listener;
use crate::testing::Bench;

#[test]
fn pass_goes_to_the_address_itself_or_to_all_addresses() {
    let bench = Bench::new(
        "server { listen 80; listen 192.0.2.1:81; listen [::]:82 ipv6only=on; listen unix:{dir}/s; }",
    );
    let inet = |text: &str| Address::Inet(text.parse().unwrap());
    for (to, expected) in [
        ("0.0.0.0:80", Some("0.0.0.0:80")),
        ("192.0.2.7:80", Some("0.0.0.0:80")),
        ("192.0.2.1:81", Some("192.0.2.1:81")),
        ("192.0.2.2:81", None),
        ("[2001:db8::1]:82", Some("[::]:82")),
        ("192.0.2.1:82", None),
        ("[2001:db8::1]:80", None),
        ("192.0.2.1:83", None),
    ] {
        assert_eq!(listener(&bench.plan, &inet(to)), expected.map(inet), "{to}");
    }
    let path = |name: &str| Address::Unix(format!("{}/{name}", bench.dir.path().display()));
    assert_eq!(listener(&bench.plan, &path("s")), Some(path("s")));
    assert_eq!(listener(&bench.plan, &path("t")), None);
}
