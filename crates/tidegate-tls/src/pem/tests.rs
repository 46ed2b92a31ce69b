//! PEM texts of the `openssl` command.

use super::{PemError, certificates, private_key};

/// `openssl pkcs8 -topk8 -nocrypt`.
const PLAIN: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxrpukw2KHEk21Y0b\n\
v1+ZxSp2s8ncNO19RuTyJm8Dn32hRANCAAQcOaMr4AzS2dME/OrbOsv6J40OvVnH\n\
1t3f4yqlzhN/4I58H0nGOFTxVNM3u4KEtuVR7iLSgqD+iBRS+YSIfbwy\n\
-----END PRIVATE KEY-----\n\
";
/// The same key as `openssl ecparam -genkey` writes it.
const SEC1: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIMa6bpMNihxJNtWNG79fmcUqdrPJ3DTtfUbk8iZvA599oAoGCCqGSM49\n\
AwEHoUQDQgAEHDmjK+AM0tnTBPzq2zrL+ieNDr1Zx9bd3+Mqpc4Tf+COfB9JxjhU\n\
8VTTN7uChLblUe4i0oKg/ogUUvmEiH28Mg==\n\
-----END EC PRIVATE KEY-----\n\
";
/// The same key by `openssl pkcs8 -topk8 -passout pass:secret -v2 aes-256-cbc -iter 1000`.
const ENCRYPTED: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjvxnDbKxX0sQICA+gw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEECO2bCIU83c8PMPeD3GrBwQEgZBp\n\
6aDdV5meZcCiFXe4Pxc1Rgmi4y5fDbqmRabVoYBttrgJ7+nhxQSIk2LsMnaCphPL\n\
lP7liqzbGeO/67APS1QH8/U9wszsvAEzcW9uCCOB9VA6ZfyaqIMOQUXstq+UDA8i\n\
UyvUFVGsirkfjrgg9+37aOd0yffgayJFKeTQIupB3VdmpfdfbRuWcuijxZ1DaCc=\n\
-----END ENCRYPTED PRIVATE KEY-----\n\
";

fn text(label: &str, base64: &str) -> String {
    format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
}

fn check_certificates(text: &str, expected: Result<&[&[u8]], &str>) {
    match (certificates(text.as_bytes()), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
        (Err(fault), Err(start)) => assert!(fault.reason.starts_with(start), "{}", fault.reason),
        (found, _) => panic!("{text}: {found:?}"),
    }
}

#[test]
fn finds_certificates() {
    let one = text("CERTIFICATE", "MAMCAQE=");
    let two = text("CERTIFICATE", "MAMCAQI=");
    let (first, second): (&[u8], &[u8]) = (&[0x30, 3, 2, 1, 1], &[0x30, 3, 2, 1, 2]);
    check_certificates(&one, Ok(&[first]));
    check_certificates(&format!("words\n{one}{PLAIN}{two}"), Ok(&[first, second]));
    // OpenSSL's trust settings (here another element) follow the certificate.
    check_certificates(&text("TRUSTED CERTIFICATE", "MAMCAQEwAA=="), Ok(&[first]));
    let none = "PEM_read_bio_X509_AUX() failed (SSL: no start line:Expecting: CERTIFICATE)";
    check_certificates("", Err(none));
    check_certificates(PLAIN, Err(none));
    check_certificates(&text("CERTIFICATE", "%"), Err("PEM_read_bio_X509() failed ("));
    let cut = one.replace("-----END CERTIFICATE-----\n", "");
    check_certificates(&cut, Err("PEM_read_bio_X509() failed ("));
}

fn check_key(text: &str, passwords: &[&str], expected: Result<&[u8], &str>) {
    let passwords: Vec<Vec<u8>> = passwords.iter().map(|word| word.as_bytes().to_vec()).collect();
    match (private_key(text.as_bytes(), &passwords), expected) {
        (Ok(key), Ok(der)) => assert_eq!(key.der(), der, "{text}"),
        (Err(fault), Err(words)) => assert!(fault.reason.contains(words), "{}", fault.reason),
        (found, _) => panic!("{text}: {found:?}"),
    }
}

#[test]
fn finds_keys() {
    let plain = private_key(PLAIN.as_bytes(), &[]).expect("a key").der().to_vec();
    check_key(ENCRYPTED, &["secret"], Ok(&plain));
    check_key(ENCRYPTED, &["wrong", "secret"], Ok(&plain));
    check_key(ENCRYPTED, &["wrong"], Err("(SSL: bad decrypt)"));
    check_key(ENCRYPTED, &[], Err("(SSL: no pass phrase)"));
    let sec1 = private_key(SEC1.as_bytes(), &[]).expect("a key").der().to_vec();
    assert_ne!(sec1, plain);
    check_key(&format!("{}{SEC1}", text("CERTIFICATE", "MAA=")), &[], Ok(&sec1));
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
    check_key(old, &["secret"], Err("(SSL: unsupported encryption)"));
    check_key("", &[], Err("unsupported:No supported data to decode. Input type: PEM"));
    check_key(&text("CERTIFICATE", "MAA="), &[], Err("unsupported:No supported data"));
}

#[test]
fn errors_have_advice() {
    let fault = |text: &str| private_key(text.as_bytes(), &[]).expect_err("no key");
    let help = |fault: PemError| fault.help.unwrap_or_default();
    assert!(help(fault(ENCRYPTED)).contains("ssl_password_file"));
    assert!(help(fault("Proc-Type: 4,ENCRYPTED")).contains("openssl pkcs8"));
    let missing = PemError::unopened(&std::io::Error::from_raw_os_error(2));
    let message = missing.message("certificate", "a.pem");
    assert!(
        message.starts_with("cannot load certificate \"a.pem\": open() failed (2: "),
        "{message}"
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_read(text in "(-----(BEGIN|END) [A-Z ]{0,20}-----|[A-Za-z0-9+/=:,\n -]{0,40}){0,6}") {
        let _ = certificates(text.as_bytes());
        let _ = private_key(text.as_bytes(), &[b"a".to_vec()]);
    }
}
