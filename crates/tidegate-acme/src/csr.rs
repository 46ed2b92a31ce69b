//! Requests for certificates (PKCS #10), made by rcgen.

#[cfg(test)]
mod tests;

use rcgen::{CertificateParams, DistinguishedName, DnType, SanType};

use crate::identifier::Identifier;
use crate::key::{Key, KeyError};

/// Returns a request (DER) for a certificate of these identifiers, signed with the key. With `common_name` the first DNS
/// name, or else the first address, is the common name of the subject as well (nginx's `common_name_in_csr`); a name
/// longer than 64 bytes cannot be one (RFC 5280, ub-common-name).
///
/// # Errors
/// rcgen makes no request.
pub(crate) fn request(
    key: &Key,
    names: &[Identifier],
    common_name: bool,
) -> Result<Vec<u8>, KeyError> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.subject_alt_names = alternative_names(names)?;
    if common_name {
        let first_name = names.iter().find(|name| matches!(name, Identifier::Dns(_)));
        let name = first_name.or(names.first()).map(ToString::to_string);
        if let Some(name) = name.filter(|name| name.len() <= 64) {
            parameters.distinguished_name.push(DnType::CommonName, name);
        }
    }
    let request = parameters.serialize_request(key.pair()).map_err(failed)?;
    Ok(request.der().to_vec())
}

pub(crate) fn alternative_names(names: &[Identifier]) -> Result<Vec<SanType>, KeyError> {
    let alternative = |name: &Identifier| match name {
        Identifier::Dns(name) => Ok(SanType::DnsName(name.as_str().try_into().map_err(failed)?)),
        Identifier::Ip(address) => Ok(SanType::IpAddress(*address)),
    };
    names.iter().map(alternative).collect()
}

pub(crate) fn failed(error: rcgen::Error) -> KeyError {
    KeyError::Generate(error.to_string())
}
