//! Chains of certificates as the server sends them, and the facts of a certificate that the client needs.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectAltName};

use crate::encoding::base64url;
use crate::identifier::Identifier;
use crate::json::printable;
use crate::key::Key;
use crate::limits::{BODY_BYTES_MAX, CHAIN_MAX, IDENTIFIERS_MAX};
use crate::time::Time;

/// A certificate with those between it and its root, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pem: String,
    facts: Facts,
}

/// The facts of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub not_before: Time,
    pub not_after: Time,
    names: BTreeSet<Identifier>,
    public_key: Vec<u8>,
    /// The identifier in renewal information (RFC 9773 section 4.1); none without a key identifier of the issuer.
    pub renewal_id: Option<String>,
    /// The common name of the issuer of the topmost certificate.
    top_issuer: Option<String>,
}

/// The reason why a chain cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// The text is no PEM, or has something else than certificates (RFC 8555 section 11.4).
    NotCertificates,
    /// The text is too long, or has too many certificates.
    TooLong,
    /// A certificate cannot be parsed.
    Unreadable(String),
    /// The certificate is for another key.
    OtherKey,
    /// The certificate is not for this identifier.
    Missing(Identifier),
    /// The certificate has expired already.
    Expired(Time),
}

impl Chain {
    /// Parses a chain in PEM. Texts before and between the certificates are dropped.
    ///
    /// # Errors
    /// The text has no certificates, too many of them, or something else.
    pub fn parse(text: &[u8]) -> Result<Chain, ChainError> {
        if text.len() > BODY_BYTES_MAX {
            return Err(ChainError::TooLong);
        }
        let parts = pem::parse_many(text).map_err(|_| ChainError::NotCertificates)?;
        if parts.len() > CHAIN_MAX {
            return Err(ChainError::TooLong);
        }
        if parts.is_empty() || parts.iter().any(|part| part.tag() != "CERTIFICATE") {
            return Err(ChainError::NotCertificates);
        }
        let mut certificates = Vec::with_capacity(parts.len());
        for part in &parts {
            certificates.push(parse(part.contents())?);
        }
        let (Some(first), Some(last)) = (certificates.first(), certificates.last()) else {
            return Err(ChainError::NotCertificates);
        };
        let facts = facts(first, last)?;
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        Ok(Chain { pem: pem::encode_many_config(&parts, config), facts })
    }

    /// Checks that the certificate is for this key and for these identifiers, and has not expired.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn check(
        &self,
        key: &Key,
        names: &[Identifier],
        now: Time,
    ) -> Result<(), ChainError> {
        if self.facts.public_key != key.public_der() {
            return Err(ChainError::OtherKey);
        }
        if let Some(name) = names.iter().find(|name| !self.facts.names.contains(name)) {
            return Err(ChainError::Missing(name.clone()));
        }
        match self.facts.not_after > now {
            true => Ok(()),
            false => Err(ChainError::Expired(self.facts.not_after)),
        }
    }

    /// Returns the chain in PEM, the server's own certificate first.
    pub fn to_pem(&self) -> &str {
        &self.pem
    }

    /// Returns the end of the certificate's validity.
    pub fn not_after(&self) -> Time {
        self.facts.not_after
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Says whether the topmost certificate was issued by an issuer with this common name (nginx's `preferred_chain`).
    pub(crate) fn is_issued_by(&self, name: &str) -> bool {
        self.facts.top_issuer.as_deref() == Some(name)
    }
}

fn parse(der: &[u8]) -> Result<Certificate, ChainError> {
    Certificate::from_der(der).map_err(unreadable)
}

fn unreadable(error: impl fmt::Display) -> ChainError {
    ChainError::Unreadable(printable(&error.to_string()))
}

fn facts(first: &Certificate, last: &Certificate) -> Result<Facts, ChainError> {
    let content = first.tbs_certificate();
    let validity = content.validity();
    let seconds = |time: &x509_cert::time::Time| Time(time.to_unix_duration().as_secs());
    let names = content.get_extension::<SubjectAltName>().map_err(unreadable)?;
    let names = names.map(|(_, names)| names.0).unwrap_or_default();
    if names.len() > IDENTIFIERS_MAX {
        return Err(ChainError::TooLong);
    }
    let public_key = content.subject_public_key_info().to_der().map_err(unreadable)?;
    let issuer = last.tbs_certificate().issuer().common_name().map_err(unreadable)?;
    Ok(Facts {
        not_before: seconds(&validity.not_before),
        not_after: seconds(&validity.not_after),
        names: names.iter().filter_map(identifier).collect(),
        public_key,
        renewal_id: renewal_id(first),
        top_issuer: issuer.map(|name| name.value().into_owned()),
    })
}

fn identifier(name: &GeneralName) -> Option<Identifier> {
    match name {
        GeneralName::DnsName(name) => Identifier::parse_wildcard(name.as_str()).ok(),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
            address.ok().map(Identifier::Ip)
        }
        _ => None,
    }
}

/// Returns the key identifier of the issuer and the serial number, as RFC 9773 section 4.1 joins them. The number is
/// that of DER: a zero precedes a first byte above 127.
fn renewal_id(certificate: &Certificate) -> Option<String> {
    let content = certificate.tbs_certificate();
    let authority = content.get_extension::<AuthorityKeyIdentifier>().ok()??.1;
    let authority = authority.key_identifier?;
    let number = content.serial_number().as_bytes();
    let mut serial: Vec<u8> = number.iter().copied().skip_while(|byte| *byte == 0).collect();
    if serial.first().is_none_or(|byte| *byte > 127) {
        serial.insert(0, 0);
    }
    Some(format!("{}.{}", base64url(authority.as_bytes()), base64url(&serial)))
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server's certificate cannot be used: ")?;
        match self {
            ChainError::NotCertificates => f.write_str("it is not a list of certificates in PEM"),
            ChainError::TooLong => write!(
                f,
                "it has more than {BODY_BYTES_MAX} bytes, {CHAIN_MAX} certificates or {IDENTIFIERS_MAX} names"
            ),
            ChainError::Unreadable(reason) => f.write_str(reason),
            ChainError::OtherKey => f.write_str("it is for another key"),
            ChainError::Missing(name) => write!(f, "it is not for {name}"),
            ChainError::Expired(time) => write!(f, "it has expired at {time}"),
        }
    }
}

impl std::error::Error for ChainError {}
