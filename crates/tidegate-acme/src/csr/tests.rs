//! Requests for certificates: names and subjects.

use super::request;
use crate::identifier::Identifier;
use crate::key::{Key, KeyKind};

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn requests_have_the_names_and_perhaps_a_subject() {
    let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
    let names = ["192.0.2.1", "a.test", "b.test"].map(Identifier::parse);
    let names: Vec<_> = names.into_iter().flatten().collect();
    // The type of a common name, and the texts of rcgen's defaults.
    let common_name = [0x55, 4, 3];
    let without = request(&key, &names, false).expect("a request");
    assert!(contains(&without, b"a.test") && contains(&without, &[0x87, 4, 192, 0, 2, 1]));
    assert!(!contains(&without, &common_name) && !contains(&without, b"rcgen"));
    assert!(contains(&without, &key.public_der()));
    let with = request(&key, &names, true).expect("a request");
    assert!(contains(&with, &common_name));
    let long = Identifier::parse(&format!("{}test", "a.".repeat(40))).expect("a name");
    assert!(!contains(&request(&key, &[long], true).expect("a request"), &common_name));
}
