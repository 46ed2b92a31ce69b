//! Chains: what is accepted, and their facts.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod, KeyPair,
    SerialNumber,
};

use super::{Chain, ChainError};
use crate::csr::alternative_names;
use crate::identifier::Identifier;
use crate::key::{Key, KeyKind};
use crate::time::Time;

const NOW: Time = Time(1_800_000_000);

fn identifiers(names: &[&str]) -> Vec<Identifier> {
    names.iter().filter_map(|name| Identifier::parse(name).ok()).collect()
}

fn issuer(name: &str, key_identifier: Vec<u8>) -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_identifier_method = KeyIdMethod::PreSpecified(key_identifier);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key"))
        .expect("an issuer")
}

fn leaf(issuer: &CertifiedIssuer<'static, KeyPair>, key: &Key, names: &[&str]) -> String {
    let mut parameters = CertificateParams::default();
    parameters.subject_alt_names = alternative_names(&identifiers(names)).expect("names");
    parameters.serial_number = Some(SerialNumber::from_slice(&[0x87, 0x65, 0x43, 0x21]));
    parameters.use_authority_key_identifier_extension = true;
    parameters.signed_by(key.pair(), issuer).expect("a certificate").pem()
}

#[test]
fn chains_and_their_facts() {
    // The issuer's key identifier and the serial number of RFC 9773 section 4.1.
    let key_identifier =
        b"\x69\x88\x5b\x6b\x87\x46\x40\x41\xe1\xb3\x7b\x84\x7b\xa0\xae\x2c\xde\x01\xc8\xd4"
            .to_vec();
    let issuer = issuer("Fake Root X1", key_identifier);
    let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
    let text = leaf(&issuer, &key, &["a.test", "192.0.2.1", "2001:db8::1"]);
    let chain = Chain::parse(format!("# a text\n{text}\r\n{}", issuer.pem()).as_bytes());
    let chain = chain.expect("a chain");
    assert_eq!(chain.facts().renewal_id.as_deref(), Some("aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"));
    assert!(chain.is_issued_by("Fake Root X1") && !chain.is_issued_by("Fake Root X2"));
    assert!(chain.to_pem().starts_with("-----BEGIN") && !chain.to_pem().contains('\r'));
    assert_eq!(chain.to_pem().matches("BEGIN CERTIFICATE").count(), 2);
    let names = identifiers(&["2001:db8::1", "a.test"]);
    assert_eq!(chain.check(&key, &names, NOW), Ok(()));
    let other = Key::generate(KeyKind::Ecdsa256).expect("a key");
    assert_eq!(chain.check(&other, &names, NOW), Err(ChainError::OtherKey));
    let more = identifiers(&["a.test", "b.test"]);
    assert_eq!(chain.check(&key, &more, NOW), Err(ChainError::Missing(more[1].clone())));
    let end = chain.not_after();
    assert_eq!(chain.check(&key, &names, end), Err(ChainError::Expired(end)));
}

#[test]
fn strange_chains() {
    let issuer = issuer("Root", vec![1]);
    let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
    let text = leaf(&issuer, &key, &["a.test"]);
    let many = text.repeat(11);
    let with_key = format!("{text}{}", key.to_pem());
    let huge = "a".repeat(crate::BODY_BYTES_MAX + 1);
    let damaged = text.replacen("MII", "MIA", 1).replacen("MIB", "MIA", 1);
    for (text, expected) in [
        ("", ChainError::NotCertificates),
        ("<html>", ChainError::NotCertificates),
        (
            "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n",
            ChainError::NotCertificates,
        ),
        (with_key.as_str(), ChainError::NotCertificates),
        (many.as_str(), ChainError::TooLong),
        (huge.as_str(), ChainError::TooLong),
    ] {
        assert_eq!(Chain::parse(text.as_bytes()), Err(expected), "{text:.40}");
    }
    assert!(matches!(Chain::parse(damaged.as_bytes()), Err(ChainError::Unreadable(_))));
}

proptest::proptest! {
    /// A byte of a certificate changes: an error, or other facts, but no panic.
    #[test]
    fn damaged_certificates(at in 0_usize..600, with in 0_u8..=255) {
        let issuer = issuer("Root", vec![1]);
        let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
        let part = pem::parse(leaf(&issuer, &key, &["a.test"])).expect("PEM");
        let mut der = part.contents().to_vec();
        let at = at % der.len();
        der[at] = with;
        let text = pem::encode(&pem::Pem::new("CERTIFICATE", der));
        if let Ok(chain) = Chain::parse(text.as_bytes()) {
            let _ = chain.check(&key, &identifiers(&["a.test"]), NOW);
        }
    }
}
