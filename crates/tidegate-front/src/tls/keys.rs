//! Certificates with their private keys, from the files that directives name.

use std::collections::HashMap;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::figures::ServerCertificate;
use tidegate_plan::PlanBuilder;
use tidegate_tls::key_files::{self, certificates, private_key};
use tidegate_tls::x509::{Certificate, names};
use tidegate_tls::{KeyPair, KeyPairError, KnownPairs};

/// Pairs that were already loaded for this plan: certificates at the level of `http` serve many servers.
#[derive(Default)]
struct Loaded(HashMap<(Vec<u8>, Vec<u8>), KeyPair>);

/// Loads one pair, for the server of that name.
///
/// # Errors
/// The file cannot be read, or the pair does not match: in nginx's words, at the directive.
pub(super) fn load(
    plan: &mut PlanBuilder<'_>,
    certificate: &Word,
    key: &Word,
    passwords: &[Vec<u8>],
    server: &str,
) -> Result<KeyPair, Diagnostic> {
    // The name alone: a certificate may be written in place of its file (`data:`).
    let name = match certificate.bytes.starts_with(b"data:") {
        true => "data:".into(),
        false => certificate.display(),
    };
    plan.figures.add_certificate_user(&name, server);
    let place = (certificate.bytes.clone(), key.bytes.clone());
    if let Some(loaded) = plan.shared::<Loaded>().0.get(&place) {
        return Ok(loaded.clone());
    }
    let pair = inherited(plan, certificate, key, passwords)?;
    if let Some(shown) = pair.chain().next().and_then(shown) {
        plan.figures.add_certificate(&name, shown);
    }
    plan.shared::<Loaded>().0.insert(place, pair.clone());
    Ok(pair)
}

/// Returns what status pages show of a certificate.
pub fn shown(der: &[u8]) -> Option<ServerCertificate> {
    let certificate = Certificate::parse(der)?;
    Some(ServerCertificate {
        names: certificate.names(),
        subject: names::rfc2253(certificate.subject),
        issuer: names::rfc2253(certificate.issuer),
        validity: certificate.validity()?,
    })
}

/// Returns the pair of an earlier generation that was made of the same bytes, or parses it.
fn inherited(
    plan: &PlanBuilder<'_>,
    certificate: &Word,
    key: &Word,
    passwords: &[Vec<u8>],
) -> Result<KeyPair, Diagnostic> {
    let digest = match plan.main.ssl_object_cache_inheritable {
        true => key_files::digest(plan, (certificate, key), passwords),
        false => None,
    };
    let Some(digest) = digest else { return parse(plan, certificate, key, passwords) };
    let known = || Ok::<_, Diagnostic>(KnownPairs::default());
    let known = plan.environment.parsed.get_or_make("", known)?;
    let generation = plan.environment.generation;
    if let Some(pair) = known.find(&digest, generation) {
        return Ok(pair);
    }
    let pair = parse(plan, certificate, key, passwords)?;
    known.keep(digest, pair.clone(), generation);
    Ok(pair)
}

fn parse(
    plan: &PlanBuilder<'_>,
    certificate: &Word,
    key: &Word,
    passwords: &[Vec<u8>],
) -> Result<KeyPair, Diagnostic> {
    let chain = certificates(plan, certificate)?;
    let (name, private) = private_key(plan, key, passwords)?;
    let pair = KeyPair::new(chain, &private);
    pair.map_err(|error| mistake(&error, certificate, key, &name))
}

fn mistake(error: &KeyPairError, certificate: &Word, key: &Word, key_name: &str) -> Diagnostic {
    let certificate_name = certificate.display();
    if *error == KeyPairError::NoCertificate {
        let message = format!("cannot load certificate \"{certificate_name}\": {error}");
        return Diagnostic::emerg(message).at(certificate.span);
    }
    let message = format!("SSL_CTX_use_PrivateKey(\"{key_name}\") failed (SSL: {error})");
    let found = Diagnostic::emerg(message).at(key.span);
    match error {
        KeyPairError::Mismatch => found
            .label("this key belongs to another certificate")
            .help(format!("the certificate is \"{certificate_name}\"")),
        _ => found,
    }
}
