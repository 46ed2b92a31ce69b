//! Requests whether a certificate was revoked (OCSP, RFC 6960), and their responses.

use std::error::Error;
use std::fmt;

use super::der::{
    GENERALIZED_TIME, INTEGER, OBJECT_ID, OCTET_STRING, SEQUENCE, any, element, optional, time,
    whole,
};
use super::{Algorithms, Certificate, Signature, Trust, fingerprint, key_bits, path};
use crate::client_status::CertificateStatus;

const AUTHORITY_ACCESS_ID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
const RESPONDER_ID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1];
const BASIC_RESPONSE_ID: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1];
/// id-sha1 with NULL, as the content of an AlgorithmIdentifier: every responder supports it (RFC 5019).
const SHA1: &[u8] = &[6, 5, 0x2b, 14, 3, 2, 26, 5, 0];
const URI: u8 = 0x86;
const ENUMERATED: u8 = 0x0a;
const EXPLICIT_0: u8 = 0xa0;
const EXPLICIT_1: u8 = 0xa1;
const GOOD: u8 = 0x80;
const REVOKED: u8 = 0xa1;

/// The validity of a good response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoodStatus {
    /// `None`: newer information is always available.
    pub(crate) next_unix_seconds: Option<i64>,
}

/// Returns the responder in a certificate.
pub(crate) fn responder(certificate: &Certificate<'_>) -> Option<String> {
    let extension = certificate.extension(AUTHORITY_ACCESS_ID)?;
    let (mut rest, _) = element(extension.value, SEQUENCE)?;
    while let Some((description, after)) = element(rest, SEQUENCE) {
        if let Some((RESPONDER_ID, place)) = element(description, OBJECT_ID)
            && let Some((uri, _)) = element(place, URI)
        {
            return String::from_utf8(uri.to_vec()).ok();
        }
        rest = after;
    }
    None
}

/// The reason why a response is not usable, in words for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusError(&'static str);

impl StatusError {
    pub(crate) const NO_CERTIFICATE: StatusError = StatusError("no certificate");
    pub(crate) const NOT_AUTHENTIC: StatusError = StatusError("OCSP_basic_verify() failed");
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for StatusError {}

/// Returns the request for a certificate; `None` for an issuer without a key.
pub(crate) fn request(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> Option<Vec<u8>> {
    let (_, key) = key_bits(issuer.key_info)?.split_first()?;
    let name = fingerprint(&wrap(SEQUENCE, issuer.subject));
    let parts = [
        wrap(SEQUENCE, SHA1),
        wrap(OCTET_STRING, &name),
        wrap(OCTET_STRING, &fingerprint(key)),
        wrap(INTEGER, certificate.serial),
    ];
    // CertID, Request, requestList, TBSRequest, OCSPRequest.
    let id = wrap(SEQUENCE, &parts.concat());
    Some((0..4).fold(id, |content, _| wrap(SEQUENCE, &content)))
}

/// Verifies that a response says that a certificate is good, and returns how long that is valid.
///
/// # Errors
/// The reason why the response is not usable.
pub(crate) fn verify_response(
    der: &[u8],
    certificate: &Certificate<'_>,
    now_unix_seconds: i64,
) -> Result<GoodStatus, StatusError> {
    let status = status(der, certificate, now_unix_seconds)?;
    match status.revoked {
        true => Err(StatusError("certificate status \"revoked\" in the OCSP response")),
        false => Ok(GoodStatus { next_unix_seconds: status.next_unix_seconds }),
    }
}

/// Returns what a response says about a certificate. Its signature is verified elsewhere.
///
/// # Errors
/// The reason why the response says nothing about it.
pub(crate) fn status(
    der: &[u8],
    certificate: &Certificate<'_>,
    now_unix_seconds: i64,
) -> Result<CertificateStatus, StatusError> {
    let basic = basic(der)?;
    let mut rest = basic.responses;
    while let Some((single, after)) = element(rest, SEQUENCE) {
        rest = after;
        let (id, single) = element(single, SEQUENCE).ok_or(BROKEN)?;
        if serial(id) != Some(certificate.serial) {
            continue;
        }
        let (status, _, single) = any(single).ok_or(BROKEN)?;
        let revoked = match status {
            GOOD => false,
            REVOKED => true,
            _ => return Err(StatusError("certificate status \"unknown\" in the OCSP response")),
        };
        let (first, single) = element(single, GENERALIZED_TIME).ok_or(BROKEN)?;
        let first = time(GENERALIZED_TIME, first).ok_or(BROKEN)?;
        let next = optional(single, EXPLICIT_0).0.and_then(|next| element(next, GENERALIZED_TIME));
        let next = next.and_then(|(next, _)| time(GENERALIZED_TIME, next));
        if first > now_unix_seconds + SKEW_SECONDS
            || next.is_some_and(|next| next < now_unix_seconds - SKEW_SECONDS)
        {
            return Err(StatusError("the OCSP response is not of this time"));
        }
        return Ok(CertificateStatus { revoked, next_unix_seconds: next });
    }
    Err(StatusError("certificate status not found in the OCSP response"))
}

/// Returns whether the bytes are an OCSP response.
pub(crate) fn is_response(der: &[u8]) -> bool {
    element(der, SEQUENCE).is_some_and(|(response, _)| element(response, ENUMERATED).is_some())
}

/// Returns whether a response was signed by the issuer, or by a responder that it has named, and the issuer is trusted.
pub(crate) fn is_authentic(
    der: &[u8],
    issuer: &[u8],
    trust: &Trust,
    algorithms: Algorithms,
    now_unix_seconds: i64,
) -> bool {
    let Some(authority) = Certificate::parse(issuer) else { return false };
    is_signed_for(der, &authority, algorithms, now_unix_seconds)
        && trust.check(&[issuer], now_unix_seconds).is_ok()
}

/// Returns whether a response was signed by an issuer, or by a responder that it has named (RFC 6960 section
/// 4.2.2.2).
pub(crate) fn is_signed_for(
    der: &[u8],
    authority: &Certificate<'_>,
    algorithms: Algorithms,
    now_unix_seconds: i64,
) -> bool {
    let Ok(basic) = basic(der) else { return false };
    let signed = |by: &Certificate<'_>| by.has_signed(algorithms, basic.signed, basic.signature);
    let mut named = std::iter::successors(any(basic.certificates), |(_, _, rest)| any(rest));
    let by_named = |der: &[u8]| {
        let own = Certificate::parse(der);
        own.is_some_and(|own| {
            path::may_sign_responses_for(&own, authority, algorithms, now_unix_seconds)
                && signed(&own)
        })
    };
    let mut rest = basic.certificates;
    let delegated = named.any(|(_, _, after)| {
        let der = &rest[..rest.len() - after.len()];
        rest = after;
        by_named(der)
    });
    signed(authority) || delegated
}

/// The most seconds by which clocks may differ.
const SKEW_SECONDS: i64 = 300;
const BROKEN: StatusError = StatusError("the OCSP response cannot be read");

/// A BasicOCSPResponse.
struct BasicResponse<'a> {
    signed: &'a [u8],
    signature: Signature<'a>,
    responses: &'a [u8],
    certificates: &'a [u8],
}

fn basic(der: &[u8]) -> Result<BasicResponse<'_>, StatusError> {
    let (response, _) = element(der, SEQUENCE).ok_or(BROKEN)?;
    let (status, rest) = element(response, ENUMERATED).ok_or(BROKEN)?;
    if status != [0] {
        return Err(StatusError("OCSP response not successful"));
    }
    read_basic(rest).ok_or(BROKEN)
}

fn read_basic(rest: &[u8]) -> Option<BasicResponse<'_>> {
    let (bytes, _) = element(element(rest, EXPLICIT_0)?.0, SEQUENCE)?;
    let (id, bytes) = element(bytes, OBJECT_ID)?;
    if id != BASIC_RESPONSE_ID {
        return None;
    }
    let (basic, _) = element(element(bytes, OCTET_STRING)?.0, SEQUENCE)?;
    let signed = whole(basic)?;
    let (data, behind) = element(basic, SEQUENCE)?;
    let signature = Signature::parse(behind)?;
    let (_, certificates) = element(behind, SEQUENCE)?;
    let (_, _, certificates) = any(certificates)?;
    let certificates = optional(certificates, EXPLICIT_0).0.and_then(|all| element(all, SEQUENCE));
    let certificates = certificates.map_or(&[][..], |(all, _)| all);
    let (_, data) = optional(data, EXPLICIT_0);
    // The responder's name or key, then the time of the response.
    let (_, _, data) = any(data)?;
    let (_, data) = element(data, GENERALIZED_TIME)?;
    let (responses, data) = element(data, SEQUENCE)?;
    let _ = optional(data, EXPLICIT_1);
    Some(BasicResponse { signed, signature, responses, certificates })
}

fn serial(id: &[u8]) -> Option<&[u8]> {
    let (_, rest) = element(id, SEQUENCE)?;
    let (_, rest) = element(rest, OCTET_STRING)?;
    let (_, rest) = element(rest, OCTET_STRING)?;
    Some(element(rest, INTEGER)?.0)
}

/// Encodes an element with its length in as few bytes as possible.
fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(content);
    out
}
