//! DNS messages: queries as sent, answers as parsed, and invalid answers.

use super::*;

/// Returns the answer section's records behind a copied question.
fn message(name: &str, kind: RecordType, flags: [u8; 2], records: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = question(7, name, kind).expect("a name");
    bytes[2..4].copy_from_slice(&flags);
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (record, ttl, data) in records {
        bytes.extend_from_slice(&[0xc0, 12]);
        bytes.extend_from_slice(&record.to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes.extend_from_slice(&ttl.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(data);
    }
    bytes
}

#[test]
fn answers() {
    let good = [0x81, 0x80];
    let found = |bytes: &[u8]| answer(bytes, 7, "a.example", RecordType::A);
    let two = message(
        "a.example",
        RecordType::A,
        good,
        &[(1, 60, &[10, 0, 0, 1]), (1, 30, &[10, 0, 0, 2])],
    );
    let answer_two = found(&two).expect("an answer");
    assert_eq!(answer_two.addresses.len(), 2);
    assert_eq!(answer_two.ttl, 30);
    let alias = message("a.example", RecordType::A, good, &[(5, 60, b"\x01b\xc0\x0e")]);
    assert_eq!(found(&alias).expect("an alias").alias.as_deref(), Some("b.example"));
    let none = message("a.example", RecordType::A, [0x81, 0x83], &[]);
    assert_eq!(found(&none), Err(DnsError::Refused(3)));
    let cut = message("a.example", RecordType::A, [0x83, 0x80], &[]);
    assert_eq!(found(&cut), Err(DnsError::Truncated));
    let other = message("b.example", RecordType::A, good, &[]);
    assert_eq!(found(&other), Err(DnsError::Foreign));
    assert_eq!(answer(&two, 8, "a.example", RecordType::A), Err(DnsError::Foreign));
}

#[test]
fn nothing_that_is_cut_or_looped_harms() {
    let whole = message("a.example", RecordType::A, [0x81, 0x80], &[(1, 60, &[10, 0, 0, 1])]);
    for end in 0..whole.len() {
        let found = answer(&whole[..end], 7, "a.example", RecordType::A);
        // Without a whole header it may be of anyone: the answer is still awaited.
        let expected = if end < 8 { DnsError::Foreign } else { DnsError::Malformed };
        assert_eq!(found, Err(expected), "{end}");
    }
    let looped = message("a.example", RecordType::A, [0x81, 0x80], &[(5, 1, &[0xc0, 39])]);
    assert!(answer(&looped, 7, "a.example", RecordType::A).is_err());
}

#[test]
fn names_that_are_none() {
    for name in
        ["", ".", "a..b", &"x".repeat(64), &"a.".repeat(200), &long_name("ab"), "\u{e9}.example"]
    {
        assert!(question(1, name, RecordType::A).is_none(), "{name}");
    }
}

#[test]
fn the_longest_name() {
    let name = long_name("a");
    let bytes = message(&name, RecordType::A, [0x81, 0x80], &[(1, 60, &[10, 0, 0, 1])]);
    assert_eq!(answer(&bytes, 7, &name, RecordType::A).map(|found| found.addresses.len()), Ok(1));
}

/// 254 letters and dots, and an end.
fn long_name(end: &str) -> String {
    format!("{0}.{0}.{0}.{1}.{end}", "x".repeat(63), "x".repeat(61))
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(0u8.., 0..200)) {
        let _ = answer(&bytes, 7, "a.example", RecordType::A);
    }
}
