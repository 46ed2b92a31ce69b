//! Requests and responses of OpenSSL.

use super::ocsp::{self, GoodStatus};
use super::{Certificate, Purpose, Trust};
use crate::suites::algorithms;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// The certificate of `/CN=Root`.
pub(crate) const ROOT: &str = "\
    MIIBUzCB+qADAgECAhQmGwwUCotqtQtGAeNHTDurkbW0rzAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARSb290MCAXDTI2\
    MTEyMTA2NTIyM1oYDzIxMjYxMDI4MDY1MjIzWjAPMQ0wCwYDVQQDDARSb290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD\
    QgAEA0JG8VBLO1Zzcnt+F6eHiAnu8MYtNk/cd/HUUqIBdnap6ZT4mktCYyfbMr6mmqDg4NGjj0vlZ3t7U/Fc5BjElaMy\
    MDAwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUJyguSfocZjL51oDPMv+XxkxQcB0wCgYIKoZIzj0EAwIDSAAwRQIg\
    CCLLJ5MeBm+MWY3Iu2H6ih8bF9Q29BVuqVJYdy6hImECIQDuhPYQL9CFv2fw68hMskpBw60H/wJ71n2GuUU145r3Uw==";
/// The certificate of another root.
pub(crate) const OTHER: &str = "\
    MIIBVjCB/KADAgECAhQRK9Uh5lVypfeBghrgMSl7ViUf1zAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAVPdGhlcjAgFw0y\
    NjExMjEwNjUyMjNaGA8yMTI2MTAyODA2NTIyM1owEDEOMAwGA1UEAwwFT3RoZXIwWTATBgcqhkjOPQIBBggqhkjOPQMB\
    BwNCAAShPqCQ5o1PD7Ljq+CNsRH7uPmDpQzmjt1GVROPUMC3AuFUmQEzAU3l0A2nuG68NfZD/86hyPIGbN/xN0oIXzoq\
    ozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBTp03Xz/S/XNBd+wG6ObQjQ1HKVpDAKBggqhkjOPQQDAgNJADBG\
    AiEA6M3CEHQ0eGzIQxaalVJtLl+SJupYI2wIh7nHVL03/JMCIQDmPHuZFp4qCGZ2qECGk9Mk3phiJ+AHWqbLcZI6xkyl\
    +w==";
/// The certificate of `/CN=aia`, which names a responder.
pub(crate) const LEAF: &str = "\
    MIIBgTCCASegAwIBAgICCikwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEUm9vdDAgFw0yMDAxMDIwMzA0MDVaGA8yMTIw\
    MDEwMjAzMDQwNVowDjEMMAoGA1UEAwwDYWlhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEONCpqzsocoq5IxO3Ylsp\
    2fY6bYfecNQsxz8NA61YPcLoHxC98bGx6EkrfGyATHsFWp8I8vGHzkNYcwSlA+XI46NyMHAwLgYIKwYBBQUHAQEEIjAg\
    MB4GCCsGAQUFBzABhhJodHRwOi8vb2NzcC50ZXN0L2EwHQYDVR0OBBYEFGgwBQmo0Szrn94Q5JJDdCkdCIURMB8GA1Ud\
    IwQYMBaAFCcoLkn6HGYy+daAzzL/l8ZMUHAdMAoGCCqGSM49BAMCA0gAMEUCIQCLyiy8PVmQQ3bb1/HcaRJiKL6u1nq4\
    lXA7p69Bb+JAkAIgRE4I4bYNRjKtLZL0LzcwyTdl1I9GorOdsdM0iJ8jFx4=";
/// The certificate of `/CN=gone`.
pub(crate) const REVOKED: &str = "\
    MIIBZjCCAQ2gAwIBAgICCicwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEUm9vdDAgFw0yMDAxMDIwMzA0MDVaGA8yMTIw\
    MDEwMjAzMDQwNVowDzENMAsGA1UEAwwEZ29uZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDjQqas7KHKKuSMTt2Jb\
    Kdn2Om2H3nDULMc/DQOtWD3C6B8QvfGxsehJK3xsgEx7BVqfCPLxh85DWHMEpQPlyOOjVzBVMBMGA1UdJQQMMAoGCCsG\
    AQUFBwMBMB0GA1UdDgQWBBRoMAUJqNEs65/eEOSSQ3QpHQiFETAfBgNVHSMEGDAWgBQnKC5J+hxmMvnWgM8y/5fGTFBw\
    HTAKBggqhkjOPQQDAgNHADBEAiBljKKquVnfvpJhXaW+KBu6yv+sNh8DM8SxopeL3+e7FQIgGArqDRvWxa9Zr7OR4FYY\
    TgmKl5VUfSIhLrGQg8hGJXM=";
/// `openssl ocsp -issuer ROOT -cert LEAF -no_nonce`.
pub(crate) const QUESTION: &str = "\
    MEMwQTA/MD0wOzAJBgUrDgMCGgUABBRu5L9Op3kl2xUuUq0sadLj6HhUagQUJyguSfocZjL51oDPMv+XxkxQcB0CAgop";
/// A response signed by the issuer itself.
pub(crate) const GOOD: &str = "\
    MIH+CgEAoIH4MIH1BgkrBgEFBQcwAQEEgecwgeQwgYuhETAPMQ0wCwYDVQQDDARSb290GA8yMDI2MTEyMTA3MjMxOVow\
    ZTBjMDswCQYFKw4DAhoFAAQUbuS/Tqd5JdsVLlKtLGnS4+h4VGoEFCcoLkn6HGYy+daAzzL/l8ZMUHAdAgIKKYAAGA8y\
    MDI2MTEyMTA3MjMxOVqgERgPMjEyNjEwMjgwNzIzMTlaMAoGCCqGSM49BAMCA0gAMEUCIHaNmRP1qkMI9nQ7aO6EMjYy\
    jteZI7wWVM66ViKRoGJ1AiEA9LNmgEKtTNmOeTPhhD7t4Pom888NdbdKEsb/TycPTt8=";
/// The response for the revoked certificate.
pub(crate) const GONE: &str = "\
    MIIBEQoBAKCCAQowggEGBgkrBgEFBQcwAQEEgfgwgfUwgZyhETAPMQ0wCwYDVQQDDARSb290GA8yMDI2MTEyMTA3MjMx\
    OVowdjB0MDswCQYFKw4DAhoFAAQUbuS/Tqd5JdsVLlKtLGnS4+h4VGoEFCcoLkn6HGYy+daAzzL/l8ZMUHAdAgIKJ6ER\
    GA8yMDI2MTEyMTA3MDE1NloYDzIwMjYxMTIxMDcyMzE5WqARGA8yMTI2MTAyODA3MjMxOVowCgYIKoZIzj0EAwIDSAAw\
    RQIhANeuWWmgSHVBNDlMnKu1SGzykH+b5Zfellbj3C0iWugjAiBJRULz1PYFYlp38631+ALBKIT7CxnEKjAzfVRGaQST\
    8Q==";
/// A response signed by a responder's certificate that the issuer has signed.
pub(crate) const BY_NAMED: &str = "\
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
/// A response signed by a certificate that is not for responses.
pub(crate) const BY_OTHER: &str = "\
    MIICkgoBAKCCAoswggKHBgkrBgEFBQcwAQEEggJ4MIICdDCBjaETMBExDzANBgNVBAMMBm5vcmVzcBgPMjAyNjExMjEw\
    NzIzMTlaMGUwYzA7MAkGBSsOAwIaBQAEFG7kv06neSXbFS5SrSxp0uPoeFRqBBQnKC5J+hxmMvnWgM8y/5fGTFBwHQIC\
    CimAABgPMjAyNjExMjEwNzIzMTlaoBEYDzIxMjYxMDI4MDcyMzE5WjAKBggqhkjOPQQDAgNIADBFAiAUKxZBwuNbR27o\
    HKogw/5K7GBn9Uf3qjBZdYb4eVZmGQIhAP+wQhaH4w5zhjZ0+no65QKY8IDvvW3REDQpFcdST+ysoIIBijCCAYYwggGC\
    MIIBJ6ADAgECAgIKKzAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARSb290MCAXDTIwMDEwMjAzMDQwNVoYDzIxMjAwMTAy\
    MDMwNDA1WjARMQ8wDQYDVQQDDAZub3Jlc3AwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAShPqCQ5o1PD7Ljq+CNsRH7\
    uPmDpQzmjt1GVROPUMC3AuFUmQEzAU3l0A2nuG68NfZD/86hyPIGbN/xN0oIXzoqo28wbTAJBgNVHRMEAjAAMAsGA1Ud\
    DwQEAwIHgDATBgNVHSUEDDAKBggrBgEFBQcDAjAfBgNVHSMEGDAWgBQnKC5J+hxmMvnWgM8y/5fGTFBwHTAdBgNVHQ4E\
    FgQU6dN18/0v1zQXfsBujm0I0NRylaQwCgYIKoZIzj0EAwIDSQAwRgIhAMMYVQ2OOyAw7Scplvm5a/XYXbUP5TJgM4wA\
    DONocV4lAiEArb+Rpkh/UZSGhCsUilyde5xb0KdXrz2A8ITQk/DHEis=";
/// A moment in the validity of the responses.
pub(crate) const NOW: i64 = 1_900_000_000;

pub(crate) fn bytes(base64: &str) -> Vec<u8> {
    let text = format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
    CertificateDer::from_pem_slice(text.as_bytes()).expect("base64").to_vec()
}

fn verify(certificate: &str, response: &str, now: i64) -> Result<GoodStatus, String> {
    let certificate = bytes(certificate);
    let certificate = Certificate::parse(&certificate).expect("a certificate");
    ocsp::verify_response(&bytes(response), &certificate, now).map_err(|error| error.to_string())
}

fn failed(text: &str) -> Result<GoodStatus, String> {
    Err(text.to_owned())
}

#[test]
fn requests_are_encoded() {
    let (root, leaf) = (bytes(ROOT), bytes(LEAF));
    let (root, leaf) = (Certificate::parse(&root), Certificate::parse(&leaf));
    let (root, leaf) = (root.expect("a certificate"), leaf.expect("a certificate"));
    assert_eq!(ocsp::responder(&leaf).as_deref(), Some("http://ocsp.test/a"));
    assert_eq!(ocsp::responder(&root), None);
    assert_eq!(ocsp::request(&leaf, &root), Some(bytes(QUESTION)));
}

#[test]
fn responses_are_verified() {
    let next = verify(LEAF, GOOD, NOW).expect("good").next_unix_seconds.expect("a time");
    assert!(next > NOW);
    assert_eq!(verify(LEAF, BY_NAMED, NOW).map(|_| ()), Ok(()));
    let late = verify(LEAF, GOOD, next + 301);
    assert_eq!(late, failed("the OCSP response is not of this time"));
    assert_eq!(verify(LEAF, GOOD, 0), failed("the OCSP response is not of this time"));
    let gone = verify(REVOKED, GONE, NOW);
    assert_eq!(gone, failed("certificate status \"revoked\" in the OCSP response"));
    let other = verify(REVOKED, GOOD, NOW);
    assert_eq!(other, failed("certificate status not found in the OCSP response"));
    assert_eq!(verify(LEAF, "MAMKAQY=", NOW), failed("OCSP response not successful"));
    for cut in 0..bytes(GOOD).len() {
        let leaf = bytes(LEAF);
        let leaf = Certificate::parse(&leaf).expect("a certificate");
        assert!(ocsp::verify_response(&bytes(GOOD)[..cut], &leaf, NOW).is_err(), "cut at {cut}");
    }
}

#[test]
fn responders_are_authorised() {
    let authentic = |response: &[u8], trusted: &str| {
        let trust = Trust::new(Purpose::Any, &[bytes(trusted)], &[], 1, algorithms().all);
        ocsp::is_authentic(response, &bytes(ROOT), &trust, algorithms().all, NOW)
    };
    assert!(authentic(&bytes(GOOD), ROOT), "the issuer");
    assert!(authentic(&bytes(BY_NAMED), ROOT), "named by the issuer");
    assert!(!authentic(&bytes(BY_OTHER), ROOT), "not named");
    assert!(!authentic(&bytes(GOOD), OTHER), "an issuer that is not trusted");
    let mut changed = bytes(GOOD);
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert!(!authentic(&changed, ROOT), "another signature");
}
