//! Small databases made by hand.

use super::{Database, DatabaseKind, country, region_name};

/// Makes a tree that leads all addresses with the first bit set to `right`, others to `left`.
fn tree(width: usize, left: u32, right: u32, records: &[u8], edition: u8) -> Vec<u8> {
    let number = |number: u32| number.to_le_bytes()[..width].to_vec();
    let description = [&[0xff, 0xff, 0xff, edition][..], &[1, 0, 0]].concat();
    [number(left), number(right), records.to_vec(), description].concat()
}

fn address(text: &str) -> std::net::IpAddr {
    text.parse().expect("an address")
}

#[test]
fn countries() {
    let bytes = tree(3, 0xff_ff00, 0xff_ffb9, b"", 1);
    let found = Database::parse(bytes.clone()).expect("a database");
    assert_eq!((found.kind(), found.edition), (DatabaseKind::Country, 1));
    assert_eq!(found.country(address("192.0.2.1")), Some(185));
    assert_eq!(found.country(address("::ffff:192.0.2.1")), Some(185));
    assert_eq!(found.country(address("10.0.0.1")), None);
    assert_eq!(found.country(address("2001:db8::1")), Some(185), "as 255.255.255.255");
    assert_eq!((found.name(address("192.0.2.1")), found.city(address("192.0.2.1"))), (None, None));
    let russia = country(185).expect("a country");
    assert_eq!((russia.code, russia.code3, russia.continent), ("RU", "RUS", "EU"));
    assert_eq!(russia.name, "Russian Federation");
    assert_eq!(country(225).map(|country| country.code), Some("US"));
    assert_eq!(country(0), None);
    assert_eq!(region_name("RU", "48"), Some("Moscow City"));
    assert_eq!(region_name("US", "CA"), Some("California"));
    assert_eq!(region_name("RU", ""), None);
    // An old number of the same kind, and an invalid one.
    let old = tree(3, 0xff_ff00, 0xff_ffb9, b"", 106);
    assert_eq!(Database::parse(old).map(|found| found.edition), Some(1));
    let bare = Database::parse(bytes[..6].to_vec()).expect("a database");
    assert_eq!(bare.country(address("192.0.2.1")), Some(185));
}

#[test]
fn cities_and_names() {
    let (name, degrees) = (b"\xe1\x4b\x00Ukiah\0\x00", 1_800_000_u32);
    let number = |number: u32| number.to_le_bytes()[..3].to_vec();
    let places = [number(degrees + 390_000), number(degrees - 1_230_000), number(807_707)].concat();
    let record = [&[0][..], name, &places].concat();
    let found = Database::parse(tree(3, 1, 2, &record, 2)).expect("a database");
    let city = found.city(address("192.0.2.1")).expect("a city");
    assert_eq!((city.country, city.region, city.name), (225, &b"K"[..], &b"Ukiah"[..]));
    assert_eq!((city.latitude, city.longitude, city.postal_code), (390_000, -1_230_000, &b""[..]));
    assert_eq!((city.dma_code, city.area_code), (807, 707));
    assert_eq!(found.city(address("10.0.0.1")), None);
    let record = b"\0Caf\xe9\0";
    let found = Database::parse(tree(4, 1, 2, record, 5)).expect("a database");
    assert_eq!(found.name(address("192.0.2.1")), Some(&b"Caf\xe9"[..]));
    assert_eq!(found.name(address("10.0.0.1")), None);
}

#[test]
fn what_is_none() {
    assert!(Database::parse(Vec::new()).is_none());
    assert!(Database::parse(b"<html>none of this is a database</html>".to_vec()).is_none());
    assert!(Database::parse(vec![0; 10_000]).is_none(), "a tree without leaves");
    assert!(Database::parse(tree(3, 0xff_ff00, 0xff_ffb9, b"", 3)).is_none(), "of regions");
    assert!(Database::parse(tree(3, 1, 200, b"short", 2)).is_none(), "records beyond the end");
}
