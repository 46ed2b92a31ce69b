//! Questions and answers that OpenSSL has made.

use super::Certificate;
use super::ocsp::{self, Answer};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// Of `/CN=Root`.
const ROOT: &str = "\
    MIIBUzCB+qADAgECAhQmGwwUCotqtQtGAeNHTDurkbW0rzAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARSb290MCAXDTI2\
    MTEyMTA2NTIyM1oYDzIxMjYxMDI4MDY1MjIzWjAPMQ0wCwYDVQQDDARSb290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\
    QgAEA0JG8VBLO1Zzcnt+F6eHiAnu8MYtNk/cd/HUUqIBdnap6ZT4mktCYyfbMr6mmqDg4NGjj0vlZ3t7U/Fc5BjElaMy\
    MDAwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUJyguSfocZjL51oDPMv+XxkxQcB0wCgYIKoZIzj0EAwIDSAAwRQIg\
    CCLLJ5MeBm+MWY3Iu2H6ih8bF9Q29BVuqVJYdy6hImECIQDuhPYQL9CFv2fw68hMskpBw60H/wJ71n2GuUU145r3Uw==";
/// Of `/CN=aia`, which names a responder.
const LEAF: &str = "\
    MIIBgTCCASegAwIBAgICCikwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEUm9vdDAgFw0yMDAxMDIwMzA0MDVaGA8yMTIw\
    MDEwMjAzMDQwNVowDjEMMAoGA1UEAwwDYWlhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEONCpqzsocoq5IxO3Ylsp\
    2fY6bYfecNQsxz8NA61YPcLoHxC98bGx6EkrfGyATHsFWp8I8vGHzkNYcwSlA+XI46NyMHAwLgYIKwYBBQUHAQEEIjAg\
    MB4GCCsGAQUFBzABhhJodHRwOi8vb2NzcC50ZXN0L2EwHQYDVR0OBBYEFGgwBQmo0Szrn94Q5JJDdCkdCIURMB8GA1Ud\
    IwQYMBaAFCcoLkn6HGYy+daAzzL/l8ZMUHAdMAoGCCqGSM49BAMCA0gAMEUCIQCLyiy8PVmQQ3bb1/HcaRJiKL6u1nq4\
    lXA7p69Bb+JAkAIgRE4I4bYNRjKtLZL0LzcwyTdl1I9GorOdsdM0iJ8jFx4=";
/// Of `/CN=gone`.
const REVOKED: &str = "\
    MIIBZjCCAQ2gAwIBAgICCicwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEUm9vdDAgFw0yMDAxMDIwMzA0MDVaGA8yMTIw\
    MDEwMjAzMDQwNVowDzENMAsGA1UEAwwEZ29uZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDjQqas7KHKKuSMTt2Jb\
    Kdn2Om2H3nDULMc/DQOtWD3C6B8QvfGxsehJK3xsgEx7BVqfCPLxh85DWHMEpQPlyOOjVzBVMBMGA1UdJQQMMAoGCCsG\
    AQUFBwMBMB0GA1UdDgQWBBRoMAUJqNEs65/eEOSSQ3QpHQiFETAfBgNVHSMEGDAWgBQnKC5J+hxmMvnWgM8y/5fGTFBw\
    HTAKBggqhkjOPQQDAgNHADBEAiBljKKquVnfvpJhXaW+KBu6yv+sNh8DM8SxopeL3+e7FQIgGArqDRvWxa9Zr7OR4FYY\
    TgmKl5VUfSIhLrGQg8hGJXM=";
/// `openssl ocsp -issuer ROOT -cert LEAF -no_nonce`.
const QUESTION: &str = "\
    MEMwQTA/MD0wOzAJBgUrDgMCGgUABBRu5L9Op3kl2xUuUq0sadLj6HhUagQUJyguSfocZjL51oDPMv+XxkxQcB0CAgop";
/// By the issuer itself.
const GOOD: &str = "\
    MIH+CgEAoIH4MIH1BgkrBgEFBQcwAQEEgecwgeQwgYuhETAPMQ0wCwYDVQQDDARSb290GA8yMDI2MTEyMTA3MjMxOVow\
    ZTBjMDswCQYFKw4DAhoFAAQUbuS/Tqd5JdsVLlKtLGnS4+h4VGoEFCcoLkn6HGYy+daAzzL/l8ZMUHAdAgIKKYAAGA8y\
    MDI2MTEyMTA3MjMxOVqgERgPMjEyNjEwMjgwNzIzMTlaMAoGCCqGSM49BAMCA0gAMEUCIHaNmRP1qkMI9nQ7aO6EMjYy\
    jteZI7wWVM66ViKRoGJ1AiEA9LNmgEKtTNmOeTPhhD7t4Pom888NdbdKEsb/TycPTt8=";
/// Of the revoked one.
const GONE: &str = "\
    MIIBEQoBAKCCAQowggEGBgkrBgEFBQcwAQEEgfgwgfUwgZyhETAPMQ0wCwYDVQQDDARSb290GA8yMDI2MTEyMTA3MjMx\
    OVowdjB0MDswCQYFKw4DAhoFAAQUbuS/Tqd5JdsVLlKtLGnS4+h4VGoEFCcoLkn6HGYy+daAzzL/l8ZMUHAdAgIKJ6ER\
    GA8yMDI2MTEyMTA3MDE1NloYDzIwMjYxMTIxMDcyMzE5WqARGA8yMTI2MTAyODA3MjMxOVowCgYIKoZIzj0EAwIDSAAw\
    RQIhANeuWWmgSHVBNDlMnKu1SGzykH+b5Zfellbj3C0iWugjAiBJRULz1PYFYlp38631+ALBKIT7CxnEKjAzfVRGaQST\
    8Q==";
/// By a certificate for answers that the issuer has signed.
const BY_NAMED: &str = "\
    MIICdQoBAKCCAm4wggJqBgkrBgEFBQcwAQEEggJbMIICVzCBi6ERMA8xDTALBgNVBAMMBHJlc3AYDzIwMjYxMTIxMDcy\
    MzE5WjBlMGMwOzAJBgUrDgMCGgUABBRu5L9Op3kl2xUuUq0sadLj6HhUagQUJyguSfocZjL51oDPMv+XxkxQcB0CAgop\
    gAAYDzIwMjYxMTIxMDcyMzE5WqARGA8yMTI2MTAyODA3MjMxOVowCgYIKoZIzj0EAwIDSAAwRQIgfWOO8YbMGiZfy3gt\
    VOUz7mwS0ouIYSTg+AvHTR5SqbECIQC8kifb+Sg0RNf7nekfFZJRReolTnzDshMPqNAa/WwpOqCCAW8wggFrMIIBZzCC\
    AQ2gAwIBAgICCiowCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEUm9vdDAgFw0yMDAxMDIwMzA0MDVaGA8yMTIwMDEwMjAz\
    MDQwNVowDzENMAsGA1UEAwwEcmVzcDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKE+oJDmjU8PsuOr4I2xEfu4+YOl\
    DOaO3UZVE49QwLcC4VSZATMBTeXQDae4brw19kP/zqHI8gZs3/E3SghfOiqjVzBVMBMGA1UdJQQMMAoGCCsGAQUFBwMJ\
    MB0GA1UdDgQWBBTp03Xz/S/XNBd+wG6ObQjQ1HKVpDAfBgNVHSMEGDAWgBQnKC5J+hxmMvnWgM8y/5fGTFBwHTAKBggq\
    hkjOPQQDAgNIADBFAiEAx1d7DXuuilapJOf9Iy1myZ8wqxBUHXWgOHVuE+ZMPDUCIGcdjku5EN0qXcXL+IcDAwjLbIfG\
    yaFkwm0CFQAPSDFR";
/// Where the hashes of the issuer's name and key stand in the question.
const HASHES: [usize; 2] = [23, 45];
/// Within the answers' time.
const NOW: i64 = 1_900_000_000;

fn bytes(base64: &str) -> Vec<u8> {
    let text = format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
    CertificateDer::from_pem_slice(text.as_bytes()).expect("base64").to_vec()
}

fn answer(certificate: &str, answer: &str, now: i64) -> Result<Answer, &'static str> {
    let certificate = bytes(certificate);
    let certificate = Certificate::parse(&certificate).expect("a certificate");
    ocsp::answer(&bytes(answer), &certificate, now)
}

#[test]
fn what_is_asked() {
    let (root, leaf) = (bytes(ROOT), bytes(LEAF));
    let (root, leaf) = (Certificate::parse(&root), Certificate::parse(&leaf));
    let (root, leaf) = (root.expect("a certificate"), leaf.expect("a certificate"));
    assert_eq!(ocsp::responder(&leaf).as_deref(), Some("http://ocsp.test/a"));
    assert_eq!(ocsp::responder(&root), None);
    // The hashes stand in OpenSSL's question, where the test has them from.
    let question = bytes(QUESTION);
    let hashes = std::cell::Cell::new(HASHES.iter());
    let sha1 = |_: &[u8]| {
        let mut rest = hashes.take();
        let place = *rest.next().expect("two");
        hashes.set(rest);
        question[place..place + 20].to_vec()
    };
    assert_eq!(ocsp::request(&leaf, &root, sha1), Some(question.clone()));
}

#[test]
fn what_answers_say() {
    let next = answer(LEAF, GOOD, NOW).expect("good").next_unix_seconds.expect("a time");
    assert!(next > NOW);
    assert_eq!(answer(LEAF, BY_NAMED, NOW).map(|_| ()), Ok(()));
    let late = answer(LEAF, GOOD, next + 301);
    assert_eq!(late, Err("the OCSP response is not of this time"));
    assert_eq!(answer(LEAF, GOOD, 0), Err("the OCSP response is not of this time"));
    let gone = answer(REVOKED, GONE, NOW);
    assert_eq!(gone, Err("certificate status \"revoked\" in the OCSP response"));
    let other = answer(REVOKED, GOOD, NOW);
    assert_eq!(other, Err("certificate status not found in the OCSP response"));
    assert_eq!(answer(LEAF, "MAMKAQY=", NOW), Err("OCSP response not successful"));
    for cut in 0..bytes(GOOD).len() {
        let leaf = bytes(LEAF);
        let leaf = Certificate::parse(&leaf).expect("a certificate");
        assert!(ocsp::answer(&bytes(GOOD)[..cut], &leaf, NOW).is_err(), "cut at {cut}");
    }
}
