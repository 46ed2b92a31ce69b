//! Challenges: the certificate of tls-alpn-01, and what a log shows.

use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::Challenge;
use crate::chain::Chain;
use crate::identifier::Identifier;
use crate::jws::AccountKey;
use crate::key::{Key, KeyKind};
use crate::message::ChallengeKind;
use crate::time::Time;

#[test]
fn certificates_of_tls_alpn_01() {
    let account = Key::generate(KeyKind::Ecdsa256).and_then(AccountKey::new).expect("a key");
    let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
    for name in ["a.test", "192.0.2.1", "2001:db8::1"] {
        let name = Identifier::parse(name).expect("an identifier");
        let kind = ChallengeKind::TlsAlpn01;
        let challenge = Challenge::new(kind, name.clone(), "token", &account);
        assert_eq!(challenge.key_authorization, format!("token.{}", account.thumbprint()));
        let text = challenge.certificate(&key).expect("a certificate");
        let chain = Chain::parse(text.as_bytes()).expect("a chain");
        chain.check(&key, &[name], Time(1_800_000_000)).expect("for the key and the name");
        let der = pem::parse(&text).expect("PEM");
        let certificate = Certificate::from_der(der.contents()).expect("a certificate");
        let extensions = certificate.tbs_certificate().extensions().expect("extensions");
        let found: Vec<_> = extensions
            .iter()
            .filter(|extension| extension.extn_id.to_string() == "1.3.6.1.5.5.7.1.31")
            .collect();
        let [extension] = found[..] else { panic!("{} extensions", found.len()) };
        // RFC 8737 section 3: critical, an OCTET STRING of the hash.
        assert!(extension.critical);
        let hash = aws_lc_rs::digest::digest(
            &aws_lc_rs::digest::SHA256,
            challenge.key_authorization.as_bytes(),
        );
        assert_eq!(extension.extn_value.as_bytes(), [&[4, 32], hash.as_ref()].concat());
    }
}

#[test]
fn a_log_does_not_show_the_proof() {
    let account = Key::generate(KeyKind::Ecdsa256).and_then(AccountKey::new).expect("a key");
    let name = Identifier::parse("a.test").expect("an identifier");
    let challenge = Challenge::new(ChallengeKind::Http01, name, "t-1", &account);
    assert_eq!(format!("{challenge:?}"), "http-01 a.test t-1");
    assert_eq!(challenge.path(), "/.well-known/acme-challenge/t-1");
}

#[test]
fn the_record_of_dns_is_the_hash_of_the_proof() {
    let challenge = Challenge {
        kind: ChallengeKind::Dns01,
        identifier: Identifier::Dns("a.test".to_owned()),
        token: "token".to_owned(),
        key_authorization: "token.proof".to_owned(),
    };
    let (name, value) = challenge.record();
    assert_eq!((name.as_str(), value.len()), ("_acme-challenge.a.test", 43));
}
