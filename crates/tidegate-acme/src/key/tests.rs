//! Keys: names of kinds, and files.

use super::{Key, KeyError, KeyKind};

#[test]
fn kinds_have_the_names_of_directives() {
    let cases = [
        ("ecdsa", Some(KeyKind::Ecdsa256)),
        ("ecdsa:256", Some(KeyKind::Ecdsa256)),
        ("ecdsa:384", Some(KeyKind::Ecdsa384)),
        ("ecdsa:521", Some(KeyKind::Ecdsa521)),
        ("rsa", Some(KeyKind::Rsa2048)),
        ("rsa:3072", Some(KeyKind::Rsa3072)),
        ("rsa:4096", Some(KeyKind::Rsa4096)),
        ("rsa:1024", None),
        ("ed25519", None),
        ("", None),
    ];
    for (text, kind) in cases {
        assert_eq!(KeyKind::parse(text), kind, "{text}");
    }
    assert_eq!(KeyKind::Rsa3072.to_string(), "rsa:3072");
}

#[test]
fn keys_survive_their_files() -> Result<(), KeyError> {
    for kind in [KeyKind::Ecdsa256, KeyKind::Ecdsa384, KeyKind::Ecdsa521, KeyKind::Rsa2048] {
        let key = Key::generate(kind)?;
        let again = Key::from_pem(&format!("some text\n{}", key.to_pem()))?;
        assert_eq!((again.kind(), &again), (kind, &key));
        assert_eq!(again.public_der(), key.public_der());
        assert!(Key::generate(kind)? != key);
    }
    Ok(())
}

#[test]
fn other_forms_of_keys() -> Result<(), KeyError> {
    // SEC1, as `openssl ecparam -genkey` writes it.
    let sec1 = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n\
                -----BEGIN EC PRIVATE KEY-----\n\
                MHcCAQEEIFpuZ6snlu/l+Xg7KXNmTS3Ekr7cbvWbXNEWE6rk4MeFoAoGCCqGSM49\n\
                AwEHoUQDQgAE\n-----END EC PRIVATE KEY-----\n";
    assert_eq!(Key::from_pem(sec1).err(), Some(KeyError::Unreadable), "cut off");
    let whole = "-----BEGIN EC PARAMETERS-----\n\
                 BggqhkjOPQMBBw==\n\
                 -----END EC PARAMETERS-----\n\
                 -----BEGIN EC PRIVATE KEY-----\n\
                 MHcCAQEEICw7FKiLBhjoVHj5UwQlUka79DavWVYBLxmRTjHx0gf5oAoGCCqGSM49\n\
                 AwEHoUQDQgAEJQ7vndfCkr/tUuglCPw8HdARma6XPa14VNj2uQvItWs0HkbZLUik\n\
                 oGFZf5nVxWxeoFca9EoAIvjXLWOAxktT2w==\n\
                 -----END EC PRIVATE KEY-----\n";
    assert_eq!(Key::from_pem(whole)?.kind(), KeyKind::Ecdsa256);
    let ed25519 = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";
    assert_eq!(Key::from_pem(ed25519).err(), Some(KeyError::Kind));
    for text in ["", "-----BEGIN PRIVATE KEY-----", "\0\u{fffd}"] {
        assert_eq!(Key::from_pem(text).err(), Some(KeyError::Unreadable), "{text}");
    }
    Ok(())
}
