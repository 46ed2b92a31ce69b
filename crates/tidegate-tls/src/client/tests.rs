//! Settings towards origins.

use std::sync::Arc;

use tidegate_rt::net::Addr;

use super::{Protocols, TlsOptions, TlsSettings, TlsTarget};
use crate::error::{KeyPairError, SettingsError};
use crate::key_log::KeyLog;

fn base() -> TlsOptions {
    TlsOptions { tls13: true, session_reuse: true, ..TlsOptions::default() }
}

/// Returns a certificate and its key.
fn pair() -> (Vec<u8>, Vec<u8>) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    (certificate.der().to_vec(), key.serialize_der())
}

#[test]
fn own_keys_must_fit() {
    let (own, other) = (pair(), pair());
    for (certificate, key, expected) in [
        (vec![own.0.clone()], own.1.clone(), None),
        (vec![own.0.clone(), other.0], own.1.clone(), None),
        (vec![own.0.clone()], other.1, Some(KeyPairError::Mismatch)),
        (vec![b"none".to_vec()], own.1.clone(), Some(KeyPairError::NoCertificate)),
    ] {
        let error = TlsSettings::new(&TlsOptions { certificate, key, ..base() }).err();
        assert_eq!(error, expected.map(SettingsError::Key));
    }
    let broken = TlsOptions { certificate: vec![own.0], key: b"none".to_vec(), ..base() };
    let error = TlsSettings::new(&broken).err();
    assert!(matches!(error, Some(SettingsError::Key(KeyPairError::Unusable(_)))), "{error:?}");
}

#[test]
fn a_version_must_be_enabled() {
    let error = TlsSettings::new(&TlsOptions { tls13: false, ..base() }).err();
    assert!(matches!(error, Some(SettingsError::Protocols(_))), "{error:?}");
}

/// Every option counts: options that differ in one of them are not equal.
#[test]
fn identities_distinguish_options() {
    let bytes = || vec![vec![1, 2]];
    let options = [
        TlsOptions::default(),
        base(),
        TlsOptions { tls12: true, ..base() },
        TlsOptions { session_reuse: false, ..base() },
        TlsOptions { server_name: true, ..base() },
        TlsOptions { verify: true, ..base() },
        TlsOptions { suites: vec![0xc02b], ..base() },
        TlsOptions { suites: vec![0xc02b, 0xc02f], ..base() },
        TlsOptions { trusted: bytes(), ..base() },
        TlsOptions { revocation_lists: bytes(), ..base() },
        TlsOptions { certificate: bytes(), ..base() },
        TlsOptions { trusted: vec![vec![1], vec![2]], ..base() },
        TlsOptions { verify_depth: 1, ..base() },
        TlsOptions { key: vec![1], ..base() },
        TlsOptions { key_log: Some(KeyLog::new("a", |_| ())), ..base() },
        TlsOptions { key_log: Some(KeyLog::new("b", |_| ())), ..base() },
    ];
    for (index, one) in options.iter().enumerate() {
        assert_eq!(one.identity(), one.clone().identity());
        for other in &options[..index] {
            assert_ne!(one.identity(), other.identity(), "{one:?} {other:?}");
        }
    }
}

#[test]
fn sessions_belong_to_a_peer_and_an_offer() {
    let settings = TlsSettings::new(&base()).expect("settings");
    let (one, other) = (Addr::Unix("/one".into()), Addr::Unix("/other".into()));
    let (none, some): (Protocols, Protocols) = (Arc::default(), [b"a".to_vec()].into());
    let first = settings.config(&one, &none);
    assert!(Arc::ptr_eq(&first, &settings.config(&one, &none)));
    assert!(!Arc::ptr_eq(&first, &settings.config(&other, &none)));
    let offering = settings.config(&one, &some);
    assert!(!Arc::ptr_eq(&first, &offering));
    assert_eq!(offering.alpn_protocols, [b"a".to_vec()]);
}

#[test]
fn targets_are_the_same_by_settings_name_and_offer() {
    let settings = || Arc::new(TlsSettings::new(&base()).expect("settings"));
    let own = settings();
    let target = |settings: &Arc<TlsSettings>, name: &[u8]| TlsTarget {
        settings: settings.clone(),
        name: name.into(),
        alpn: Arc::default(),
    };
    assert_eq!(target(&own, b"a"), target(&own, b"a"));
    assert_ne!(target(&own, b"a"), target(&own, b"b"));
    assert_ne!(target(&own, b"a"), target(&settings(), b"a"));
}
