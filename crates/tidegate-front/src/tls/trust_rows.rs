//! The rows of directives about trust: clients' certificates, and OCSP responses for them and for ours.

use tidegate_conf::{Args, Arity, Diagnostic, Directive, once, parse_size};
use tidegate_tls::StatusScope;

use super::conf::{Conf, OcspCacheConf, SHARED_BYTES_MIN, VerifyClient, invalid_value, row};

pub(super) const CLIENT_ROWS: &[Directive<Conf>] = &[
    row(
        "ssl_verify_client",
        Arity::ONE,
        "off",
        "Whether clients are requested to send a certificate: `on` requires a trusted one, `optional` also accepts none, `optional_no_ca` also one that no trusted CA has signed.",
        |conf, args| {
            let value = match args.bytes(0) {
                b"off" => VerifyClient::Off,
                b"on" => VerifyClient::On,
                b"optional" => VerifyClient::Optional,
                b"optional_no_ca" => VerifyClient::OptionalNoCa,
                _ => return Err(invalid_value(args, 0)),
            };
            once(&mut conf.verify_client, value, args)
        },
    ),
    row(
        "ssl_client_certificate",
        Arity::ONE,
        "",
        "PEM file with the certificates that clients' are trusted by; their names are sent to clients.",
        |conf, args| once(&mut conf.client_certificate, args.word(0).clone(), args),
    ),
    row(
        "ssl_trusted_certificate",
        Arity::ONE,
        "",
        "PEM file with further trusted certificates, whose names are not sent.",
        |conf, args| once(&mut conf.trusted_certificate, args.word(0).clone(), args),
    ),
    row(
        "ssl_verify_depth",
        Arity::ONE,
        "1",
        "Most certificates between a client's and the trusted one.",
        |conf, args| once(&mut conf.verify_depth, args.number(0, 0..=u64::MAX)?, args),
    ),
    row(
        "ssl_crl",
        Arity::ONE,
        "",
        "PEM file with lists of revoked certificates, one of each issuer in a client's chain.",
        |conf, args| once(&mut conf.crl, args.word(0).clone(), args),
    ),
];

pub(super) const STAPLING_ROWS: &[Directive<Conf>] = &[
    row(
        "ssl_stapling",
        Arity::FLAG,
        "off",
        "Whether the OCSP response for the certificate is sent with it in the handshake.",
        |conf, args| once(&mut conf.stapling, args.flag(0)?, args),
    ),
    row(
        "ssl_stapling_file",
        Arity::ONE,
        "",
        "File with the OCSP response (DER); the responder is not queried.",
        |conf, args| once(&mut conf.stapling_file, args.word(0).clone(), args),
    ),
    row(
        "ssl_stapling_responder",
        Arity::ONE,
        "",
        "URL of the OCSP responder, in place of that in the certificate. Only `http://`.",
        |conf, args| match args.bytes(0).starts_with(b"http://") {
            true => once(&mut conf.stapling_responder, args.word(0).clone(), args),
            false => {
                Err(args.error(0, "invalid URL prefix in OCSP responder").label("not http://"))
            }
        },
    ),
    row(
        "ssl_stapling_verify",
        Arity::FLAG,
        "off",
        "Whether OCSP responses are verified, by `ssl_trusted_certificate`.",
        |conf, args| once(&mut conf.stapling_verify, args.flag(0)?, args),
    ),
];

pub(super) const OCSP_ROWS: &[Directive<Conf>] = &[
    row(
        "ssl_ocsp",
        Arity::ONE,
        "off",
        "Whether OCSP responders are asked if a client's certificate was revoked: `on` for each of its chain, `leaf` \
         for its own alone. A client is refused unless they say that it was not. Needs `ssl_verify_client on` or \
         `optional`; responders that certificates name need `resolver`.",
        |conf, args| {
            let value = match args.bytes(0) {
                b"off" => StatusScope::None,
                b"on" => StatusScope::Chain,
                b"leaf" => StatusScope::Leaf,
                _ => return Err(invalid_value(args, 0)),
            };
            once(&mut conf.ocsp, value, args)
        },
    ),
    row(
        "ssl_ocsp_responder",
        Arity::ONE,
        "",
        "URL of the OCSP responder, in place of that in the certificate. Only `http://`.",
        |conf, args| once(&mut conf.ocsp_responder, args.word(0).clone(), args),
    ),
    row(
        "ssl_ocsp_cache",
        Arity::ONE,
        "off",
        "Cache of what responders say, each as long as the response says: `off`, `shared:name:size`.",
        |conf, args| once(&mut conf.ocsp_cache, ocsp_cache(args)?, args),
    ),
];

fn ocsp_cache(args: &Args<'_>) -> Result<OcspCacheConf, Diagnostic> {
    let text = args.text(0)?;
    let invalid = || {
        let message = format!("invalid OCSP cache \"{text}\"");
        args.error(0, message).label("`off` or `shared:name:size`")
    };
    if text == "off" {
        return Ok(OcspCacheConf::Off);
    }
    let rest = text.strip_prefix("shared:").ok_or_else(invalid)?;
    let (name, size) = rest.split_once(':').ok_or_else(invalid)?;
    let bytes = parse_size(size.as_bytes()).ok_or_else(invalid)?;
    if name.is_empty() {
        return Err(invalid());
    }
    if bytes < SHARED_BYTES_MIN {
        return Err(args.error(0, format!("OCSP cache \"{text}\" is too small")));
    }
    Ok(OcspCacheConf::Shared { name: name.to_owned(), bytes })
}
