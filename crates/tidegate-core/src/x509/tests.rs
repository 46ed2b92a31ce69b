//! Certificates byte by byte: whole ones are read in the tests of both sides of TLS.

use super::{Certificate, GENERALIZED_TIME, UTC_TIME, key_algorithm, key_bits, time};

#[test]
fn reads_times() {
    for (tag, text, expected) in [
        (UTC_TIME, "700101000000Z", Some(0)),
        (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
        (UTC_TIME, "500101000000Z", Some(-631_152_000)),
        (UTC_TIME, "000229120000Z", Some(951_825_600)),
        (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
        (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
        (GENERALIZED_TIME, "700101000000Z", None),
        (UTC_TIME, "7001010000Z", None),
        (UTC_TIME, "700101000000", None),
        (UTC_TIME, "70010100000xZ", None),
        (UTC_TIME, "", None),
    ] {
        assert_eq!(time(tag, text.as_bytes()), expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(der in proptest::collection::vec(0u8..=255, 0..200)) {
        // Tags and short lengths more often than chance has them.
        let nested: Vec<u8> = der.iter().map(|byte| match byte % 4 {
            0 => 0x30,
            1 => 0x31,
            2 => byte % 64,
            _ => *byte,
        }).collect();
        for bytes in [&der, &nested] {
            let _ = (key_bits(bytes), key_algorithm(bytes));
            if let Some(certificate) = Certificate::parse(bytes) {
                let _ = certificate.validity();
                let _ = (certificate.alt_names(), certificate.common_names());
            }
        }
    }
}
