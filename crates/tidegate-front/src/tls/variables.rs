//! `$ssl_*`.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use tidegate_codec::date::format_certificate;
use tidegate_codec::uri::{Escape, escape};
use tidegate_core::Exchange;
use tidegate_core::client::{ClientCertificate, TlsInfo};
use tidegate_core::credentials::padded_base64;
use tidegate_core::variables::Variable;
use tidegate_tls::x509::{Certificate, fingerprint, names};
use tidegate_tls::{cipher_suites, groups, signature_schemes};

pub(super) const VARIABLES: &[Variable] = &[
    Variable::replaceable("ssl_protocol", "Version of TLS of the connection.", |x, out| {
        put(x, out, |tls| Some(tls.protocol))
    }),
    Variable::replaceable("ssl_cipher", "Cipher suite of the connection.", |x, out| {
        put(x, out, |tls| Some(tls.cipher))
    }),
    Variable::replaceable("ssl_curve", "Group of the key exchange.", |x, out| {
        put(x, out, |tls| Some(tls.curve))
    }),
    Variable::replaceable(
        "ssl_ciphers",
        "Cipher suites that the client offers, joined by `:`.",
        |x, out| put_list(x, out, |tls| &tls.offered_ciphers, cipher_suites::name),
    ),
    Variable::replaceable(
        "ssl_curves",
        "Groups that the client offers, joined by `:`.",
        |x, out| put_list(x, out, |tls| &tls.offered_groups, groups::name),
    ),
    Variable::replaceable(
        "ssl_session_reused",
        "`r` if the TLS session was resumed, else `.`.",
        |x, out| put(x, out, |tls| Some(if tls.session_reused { "r" } else { "." })),
    ),
    Variable::replaceable(
        "ssl_server_name",
        "Server name that the client requested (SNI).",
        |x, out| put(x, out, |tls| tls.server_name.as_deref()),
    ),
    Variable::replaceable("ssl_alpn_protocol", "Protocol that ALPN selected.", |x, out| {
        put(x, out, |tls| tls.alpn.as_deref())
    }),
    Variable::replaceable(
        "ssl_sigalg",
        "Signature algorithm of the server's certificate in the handshake.",
        |x, out| put(x, out, |tls| Some(tls.signature)),
    ),
    Variable::replaceable(
        "ssl_server_cert_type",
        "Kind of the key of the server's certificate in the handshake: `RSA`, `ECDSA`, `ED25519` or `ED448`. Empty in a \
         resumed session.",
        |x, out| put(x, out, |tls| key_kind(tls.signature)),
    ),
    Variable::replaceable(
        "ssl_sigalgs",
        "Signature algorithms that the client offers, joined by `:`.",
        |x, out| put_list(x, out, |tls| &tls.offered_signatures, signature_schemes::name),
    ),
    Variable::replaceable(
        "ssl_client_sigalg",
        "Signature algorithm of the client's certificate in the handshake.",
        |x, out| put(x, out, |tls| Some(tls.client_signature)),
    ),
    // Encrypted hellos are never accepted.
    Variable::replaceable("ssl_ech_status", "Result of Encrypted Client Hello.", nothing),
    Variable::replaceable(
        "ssl_ech_outer_server_name",
        "Public server name of Encrypted Client Hello.",
        nothing,
    ),
    Variable::replaceable(
        "ssl_session_id",
        "Identifier of the TLS session, in hexadecimal digits.",
        |x, out| {
            let id = x.connection.tls.as_deref().map_or(&[][..], |tls| &tls.session_id);
            let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            out.extend_from_slice(digits.as_bytes());
            !id.is_empty()
        },
    ),
    Variable::replaceable(
        "ssl_early_data",
        "`1` while a TLS 1.3 handshake with early data is not complete, else empty.",
        |x, out| {
            put(x, out, |tls| tls.early.as_ref().is_some_and(|early| early.get()).then_some("1"))
        },
    ),
    Variable::replaceable(
        "ssl_client_verify",
        "Result of verifying the client's certificate: `SUCCESS`, `FAILED:reason` or \
            `NONE`.",
        |x, out| {
            let Some(tls) = x.connection.tls.as_deref() else { return false };
            let text = match tls.client.as_deref() {
                None => "NONE".to_owned(),
                Some(ClientCertificate { fault: None, .. }) => "SUCCESS".to_owned(),
                Some(ClientCertificate { fault: Some(fault), .. }) => {
                    format!("FAILED:{}", fault.text)
                }
            };
            out.extend_from_slice(text.as_bytes());
            true
        },
    ),
    Variable::replaceable(
        "ssl_client_cert",
        "Client's certificate in PEM, each line but the first behind a tab; \
            deprecated in nginx.",
        |x, out| {
            // As a field of a request: lines after the first begin with a tab.
            put_client(x, out, |der| Some(pem(der).trim_end().replace('\n', "\n\t")))
        },
    ),
    Variable::replaceable("ssl_client_raw_cert", "Client's certificate in PEM.", |x, out| {
        put_client(x, out, |der| Some(pem(der)))
    }),
    Variable::replaceable(
        "ssl_client_escaped_cert",
        "Client's certificate in PEM, percent-encoded.",
        |x, out| {
            let Some(client) = client(x) else { return false };
            escape(pem(&client.der).as_bytes(), Escape::Component, out);
            true
        },
    ),
    Variable::replaceable(
        "ssl_client_s_dn",
        "Subject of the client's certificate, by RFC 2253.",
        |x, out| put_client(x, out, |der| Some(names::rfc2253(Certificate::parse(der)?.subject))),
    ),
    Variable::replaceable(
        "ssl_client_i_dn",
        "Issuer of the client's certificate, by RFC 2253.",
        |x, out| put_client(x, out, |der| Some(names::rfc2253(Certificate::parse(der)?.issuer))),
    ),
    Variable::replaceable(
        "ssl_client_s_dn_legacy",
        "Subject of the client's certificate, with slashes.",
        |x, out| put_client(x, out, |der| Some(names::oneline(Certificate::parse(der)?.subject))),
    ),
    Variable::replaceable(
        "ssl_client_i_dn_legacy",
        "Issuer of the client's certificate, with slashes.",
        |x, out| put_client(x, out, |der| Some(names::oneline(Certificate::parse(der)?.issuer))),
    ),
    Variable::replaceable(
        "ssl_client_serial",
        "Serial number of the client's certificate.",
        |x, out| put_client(x, out, |der| Some(Certificate::parse(der)?.serial_text())),
    ),
    Variable::replaceable(
        "ssl_client_fingerprint",
        "SHA-1 fingerprint of the client's certificate.",
        |x, out| {
            put_client(x, out, |der| {
                Some(fingerprint(der).iter().map(|byte| format!("{byte:02x}")).collect())
            })
        },
    ),
    Variable::replaceable(
        "ssl_client_v_start",
        "Beginning of the client's certificate's validity.",
        |x, out| {
            put_client(x, out, |der| {
                Some(format_certificate(Certificate::parse(der)?.validity()?.0))
            })
        },
    ),
    Variable::replaceable(
        "ssl_client_v_end",
        "End of the client's certificate's validity.",
        |x, out| {
            put_client(x, out, |der| {
                Some(format_certificate(Certificate::parse(der)?.validity()?.1))
            })
        },
    ),
    Variable::replaceable(
        "ssl_client_v_remain",
        "Days until the client's certificate expires.",
        |x, out| {
            put_client(x, out, |der| {
                let (_, last) = Certificate::parse(der)?.validity()?;
                Some(days_left(last, tidegate_rt::clock::unix_seconds()).to_string())
            })
        },
    ),
];

/// Names of variables that need the client's lists, which are otherwise not kept.
pub(super) const CIPHERS: &str = "ssl_ciphers";
pub(super) const CURVES: &str = "ssl_curves";
pub(super) const SIGNATURES: &str = "ssl_sigalgs";
const SECONDS_OF_DAY: i64 = 86_400;

/// Returns the kind of the key that signs by an algorithm, which has OpenSSL's name.
fn key_kind(algorithm: &str) -> Option<&'static str> {
    let kinds = [("rsa", "RSA"), ("ecdsa", "ECDSA"), ("ed25519", "ED25519"), ("ed448", "ED448")];
    kinds.iter().find(|(start, _)| algorithm.starts_with(start)).map(|(_, kind)| *kind)
}

/// Returns the whole days until a certificate ends; zero for one that has ended. Both arguments are seconds since 1970.
fn days_left(last: i64, now: i64) -> i64 {
    last.saturating_sub(now).max(0) / SECONDS_OF_DAY
}

fn nothing(_: &mut Exchange, _: &mut Vec<u8>) -> bool {
    false
}

fn put(x: &mut Exchange, out: &mut Vec<u8>, value: fn(&TlsInfo) -> Option<&str>) -> bool {
    let value = x.connection.tls.as_deref().and_then(value).filter(|text| !text.is_empty());
    value.map(|text| out.extend_from_slice(text.as_bytes())).is_some()
}

fn client(x: &Exchange) -> Option<&ClientCertificate> {
    x.connection.tls.as_deref()?.client.as_deref()
}

fn put_client(x: &mut Exchange, out: &mut Vec<u8>, text: fn(&[u8]) -> Option<String>) -> bool {
    let text = client(x).and_then(|client| text(&client.der));
    text.map(|text| out.extend_from_slice(text.as_bytes())).is_some()
}

/// Returns a certificate as OpenSSL writes it: lines of 64 letters (RFC 7468 section 5.1).
fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in padded_base64(der).chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

/// Writes a list as nginx shows it: OpenSSL's names where there are any, else numbers, with colons between.
fn put_list(
    x: &mut Exchange,
    out: &mut Vec<u8>,
    list: fn(&TlsInfo) -> &[u16],
    name: fn(u16) -> Option<&'static str>,
) -> bool {
    let Some(tls) = x.connection.tls.as_deref() else { return false };
    let mut text = String::new();
    for number in list(tls) {
        let separator = if text.is_empty() { "" } else { ":" };
        let _ = match name(*number) {
            Some(name) => write!(text, "{separator}{name}"),
            None => write!(text, "{separator}0x{number:04x}"),
        };
    }
    out.extend_from_slice(text.as_bytes());
    !text.is_empty()
}
