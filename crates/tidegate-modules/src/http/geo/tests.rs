//! Tables of addresses: networks, ranges, proxies, errors.

use std::net::IpAddr;

use proptest::prelude::*;

use super::table::{Networks, Table, Values};
use crate::testing::Bench;
use tidegate_conf::network::Network;

fn check(block: &str, table: &[(&str, &str)]) {
    let bench = Bench::new(&format!(
        "geo $arg_ip $x {{ {block} }} server {{ location / {{ return 200 \"[$x]\"; }} }}"
    ));
    for (address, expected) in table {
        let found = bench.text(&format!("/?ip={address}"));
        assert_eq!(found, format!("[{expected}]"), "{block} {address}");
    }
}

#[test]
fn the_most_particular_network_decides() {
    check(
        "default d; 127.0.0.0/8 eight; 127.0.0.0/24 inner; 127.0.0.1 one; 128.0.0.0/1 high;
         255.255.255.255 none; ::/1 low; 2001:db8::/32 doc; ::1 own;",
        &[
            ("127.0.0.1", "one"),
            ("127.0.0.2", "inner"),
            ("127.0.1.0", "eight"),
            ("126.255.255.255", "d"),
            ("128.0.0.0", "high"),
            ("255.255.255.254", "high"),
            ("255.255.255.255", "none"),
            ("::ffff:127.0.0.1", "one"),
            ("2001:db8::1", "doc"),
            ("2001:db9::1", "low"),
            ("::1", "own"),
            ("::2", "low"),
            ("8000::", "d"),
            ("nothing", "none"),
            ("127.0.0.1:80", "none"),
            ("", "none"),
        ],
    );
    check("10.0.0.0/8 ten; delete 10.0.0.0/8;", &[("10.0.0.1", ""), ("::1", "")]);
    check("0.0.0.0/0 all; delete 10.0.0.0/8; 10.0.0.0/9 $uri;", &[("10.0.0.1", "$uri")]);
}

#[test]
fn ranges_divide_one_another() {
    check(
        "ranges; default d; 10.0.0.0-10.0.0.255 a; 10.0.0.10-10.0.0.20 b; 10.0.0.15-10.0.0.15 c;
         10.0.1.0-10.0.1.0 e; 0.0.0.0-0.0.0.1 low; 255.0.0.0-255.255.255.254 high;",
        &[
            ("10.0.0.9", "a"),
            ("10.0.0.10", "b"),
            ("10.0.0.15", "c"),
            ("10.0.0.16", "b"),
            ("10.0.0.21", "a"),
            ("10.0.1.0", "e"),
            ("10.0.1.1", "d"),
            ("0.0.0.0", "low"),
            ("255.255.255.254", "high"),
            ("nothing", "d"),
            ("::1", "d"),
            ("::ffff:10.0.0.9", "a"),
        ],
    );
    check(
        "ranges; 10.0.0.0-10.0.0.9 a; 10.0.0.5-10.0.0.5 b; delete 10.0.0.0-10.0.0.4;",
        &[("10.0.0.4", ""), ("10.0.0.5", "b"), ("10.0.0.6", "a")],
    );
}

#[test]
fn proxies_report_the_address() {
    let config = |more: &str| {
        format!(
            "geo $x {{ {more} default d; proxy 192.0.2.0/24; proxy 2001:db8::/32; 5.5.5.5 five;
             6.6.6.6 six; 192.0.2.1 proxy; }} server {{ location / {{ return 200 $x; }} }}"
        )
    };
    let plain = Bench::new(&config(""));
    let recursive = Bench::new(&config("proxy_recursive;"));
    let check = |bench: &Bench, field: &str, expected: &str| {
        let reply = bench.get_with("/", &[&format!("X-Forwarded-For: {field}")]);
        assert_eq!(reply.text(), expected, "{field}");
    };
    for (field, once, all) in [
        ("5.5.5.5", "five", "five"),
        ("5.5.5.5, 6.6.6.6:80", "six", "six"),
        ("5.5.5.5, 192.0.2.1", "proxy", "five"),
        ("nothing", "d", "d"),
    ] {
        check(&plain, field, once);
        check(&recursive, field, all);
    }
    let mut other = Bench::new(
        "geo $x { proxy 1.1.1.1; default d; 5.5.5.5 five; } server { location / { return 200 $x; } }",
    );
    other.peer = plain.peer.clone();
    check(&other, "5.5.5.5", "d");
}

#[test]
fn values_are_kept_unless_volatile() {
    let bench = Bench::new(
        "geo $arg_ip $kept { 10.0.0.1 one; 10.0.0.2 two; }
         geo $arg_ip $fresh { volatile; 10.0.0.1 one; 10.0.0.2 two; }
         server { location / { set $before $kept$fresh; set $args ip=10.0.0.2;
                  return 200 \"$kept $fresh\"; } }",
    );
    assert_eq!(bench.text("/?ip=10.0.0.1"), "one two");
}

#[test]
fn errors_and_warnings() {
    for (block, expected) in [
        (
            "geo $x { ranges; 1.1.1.0-1.1.1.9 a; 1.1.1.5-1.1.1.20 b; }",
            "range \"1.1.1.5-1.1.1.20\" overlaps \"1.1.1.0-1.1.1.9\"",
        ),
        (
            "geo $x { ranges; 1.1.1.5-1.1.1.9 a; 1.1.1.0-1.1.1.20 b; }",
            "range \"1.1.1.0-1.1.1.20\" overlaps \"1.1.1.5-1.1.1.9\"",
        ),
        ("geo $x { ranges; 1.1.1.9-1.1.1.0 a; }", "invalid range \"1.1.1.9-1.1.1.0\""),
        ("geo $x { ranges; 1.1.1.9 a; }", "invalid range \"1.1.1.9\""),
        ("geo $x { ranges; ::1-::2 a; }", "invalid range \"::1-::2\""),
        (
            "geo $x { 1.1.1.1 a; ranges; }",
            "the \"ranges\" directive must be the first directive inside \"geo\" block",
        ),
        ("geo $x { foo a; }", "invalid network \"foo\""),
        ("geo $x { proxy unix:; }", "invalid network \"unix:\""),
        ("geo $x { 1.1.1.1 a b; }", "invalid number of the geo parameters"),
        ("geo $x { default; }", "invalid number of the geo parameters"),
        ("geo x { }", "invalid variable name \"x\""),
        ("geo x $y { }", "invalid variable name \"x\""),
        ("geo $uri { }", "the duplicate \"uri\" variable"),
    ] {
        assert_eq!(Bench::errors(block)[0], expected, "{block}");
    }
    let bench = Bench::new(
        "geo $a { 1.1.1.1/24 b; 1.1.1.0/24 c; delete 2.2.2.2; default d; default e; }
         geo $b { ranges; default d; default e; 1.1.1.1-1.1.1.1 f; 1.1.1.1-1.1.1.1 g;
                  delete 1.1.1.1-1.1.1.2; }",
    );
    assert_eq!(
        bench.warnings,
        [
            "low address bits of 1.1.1.1/24 are meaningless",
            "duplicate network \"1.1.1.0/24\", value: \"c\", old value: \"b\"",
            "no network \"2.2.2.2\" to delete",
            "duplicate network \"default\", value: \"e\", old value: \"d\"",
            "duplicate default geo range value: \"e\", old value: \"d\"",
            "duplicate range \"1.1.1.1-1.1.1.1\", value: \"g\", old value: \"f\"",
            "no address range \"1.1.1.1-1.1.1.2\" to delete",
        ]
    );
}

proptest! {
    /// The search returns the same as a linear search of all networks.
    #[test]
    fn tables_agree_with_a_list(
        networks in prop::collection::vec((any::<[u8; 4]>(), 0..=32u8, any::<bool>()), 0..20),
        addresses in prop::collection::vec(any::<[u8; 4]>(), 20),
    ) {
        let (mut built, mut values, mut list) = (Networks::default(), Values::default(), Vec::new());
        for (index, (bytes, bits, near)) in networks.iter().enumerate() {
            // Similar addresses match more often.
            let bytes = if *near { [10, 0, bytes[2] & 3, bytes[3]] } else { *bytes };
            let text = format!("{}/{bits}", IpAddr::from(bytes));
            let network = Network::parse(&text).unwrap().0;
            let IpAddr::V4(first) = network.address() else { unreachable!() };
            let value = values.id(index.to_string().as_bytes());
            built.v4.insert((first.to_bits(), *bits), value);
            list.push((network, index.to_string()));
        }
        let table = Table::of_networks(built, values);
        let near = addresses.iter().map(|bytes| [10, 0, bytes[2] & 3, bytes[3]]);
        for bytes in addresses.iter().copied().chain(near) {
            let address = IpAddr::from(bytes);
            let fitting = list.iter().filter(|(network, _)| network.contains(address));
            let expected = fitting.max_by_key(|(network, _)| network.bits());
            let expected = expected.map_or("", |(_, value)| value);
            prop_assert_eq!(table.find(address), expected.as_bytes());
        }
    }
}
