//! Lists of groups, and their names.

use super::{name, parse};

#[test]
fn reads_groups() {
    let names = |list: &str| match parse(list) {
        Ok(found) => {
            let groups = found.groups.iter().map(|group| u16::from(group.name()));
            let groups: Vec<_> = groups.filter_map(name).collect();
            format!("{} | {}", groups.join(":"), found.unavailable.join(":"))
        }
        Err(unknown) => unknown.to_string(),
    };
    for (list, expected) in [
        ("auto", "X25519MLKEM768:X25519:prime256v1:secp384r1 | "),
        ("prime256v1:P-256:X25519", "prime256v1:X25519 | "),
        ("X25519:secp521r1:P-384", "X25519:secp384r1 | secp521r1"),
        ("secp521r1", " | secp521r1"),
        ("X25519:foo", "group 'foo' cannot be set"),
        ("", "group '' cannot be set"),
    ] {
        assert_eq!(names(list), expected, "{list}");
    }
}

#[test]
fn groups_have_names() {
    for (number, expected) in [
        (0x001d, Some("X25519")),
        (0x0017, Some("prime256v1")),
        (0x11ec, Some("X25519MLKEM768")),
        (0x0100, Some("ffdhe2048")),
        (0x0a0a, None),
    ] {
        assert_eq!(name(number), expected, "{number:04x}");
    }
}
