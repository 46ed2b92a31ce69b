//! Authorizations and their challenges (RFC 8555 sections 7.1.4 and 7.1.5).

use std::fmt;

use serde_json::Value;

use super::order::identifier;
use crate::encoding::is_base64url;
use crate::identifier::Identifier;
use crate::json::{Malformed, Object};
use crate::limits::{CHALLENGES_MAX, TOKEN_BYTES_MAX};
use crate::problem::Problem;

/// The kind of a challenge (nginx's `challenge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// http-01: a file at `/.well-known/acme-challenge/` (RFC 8555 section 8.3).
    Http01,
    /// tls-alpn-01: a certificate for the protocol `acme-tls/1` (RFC 8737).
    TlsAlpn01,
    /// dns-01: a TXT record (RFC 8555 section 8.4). For names alone, also with a wildcard.
    Dns01,
}

/// The status of an authorization or a challenge, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    /// The server validates the challenge.
    Processing,
    Valid,
    /// It has failed, has expired, was deactivated or revoked.
    Invalid,
}

/// An authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorization {
    pub status: Status,
    pub identifier: Identifier,
    pub offers: Vec<Offer>,
}

/// A challenge as the server offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub kind: ChallengeKind,
    pub status: Status,
    pub url: String,
    pub token: String,
    pub error: Option<Problem>,
}

impl ChallengeKind {
    /// Parses nginx's names: `http-01`, `http`, `tls-alpn-01`, `tls-alpn`; and `dns-01`, `dns`.
    pub fn parse(text: &str) -> Option<ChallengeKind> {
        match text {
            "http-01" | "http" => Some(ChallengeKind::Http01),
            "tls-alpn-01" | "tls-alpn" => Some(ChallengeKind::TlsAlpn01),
            "dns-01" | "dns" => Some(ChallengeKind::Dns01),
            _ => None,
        }
    }
}

impl fmt::Display for ChallengeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
            ChallengeKind::Dns01 => "dns-01",
        })
    }
}

impl Authorization {
    pub(crate) fn parse(body: &[u8]) -> Result<Authorization, Malformed> {
        let object = Object::parse("authorization", body)?;
        let status = status(&object)?;
        let value = object.member("identifier");
        let value = value.ok_or_else(|| object.fault("identifier", "it is missing"))?;
        let mut offers = Vec::new();
        for offer in object.list("challenges", CHALLENGES_MAX)? {
            offers.extend(Offer::parse(offer)?);
        }
        Ok(Authorization { status, identifier: identifier(&object, value)?, offers })
    }

    pub(crate) fn offer(&self, kind: ChallengeKind) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.kind == kind)
    }

    /// Returns the error of the challenge that has failed.
    pub(crate) fn error(&self) -> Option<&Problem> {
        self.offers.iter().find_map(|offer| offer.error.as_ref())
    }
}

impl Offer {
    /// Parses a challenge; `None` for a kind that the client does not have, whose members it does not know.
    fn parse(value: &Value) -> Result<Option<Offer>, Malformed> {
        let object = Object::of("challenge", value)?;
        let kind = object.needed_text("type")?;
        // "http" is a short name of the directive, not of the protocol.
        let Some(kind) = ChallengeKind::parse(kind).filter(|found| found.to_string() == kind)
        else {
            return Ok(None);
        };
        let token = object.needed_text("token")?;
        // The token becomes a part of a path, and of a response.
        if token.len() > TOKEN_BYTES_MAX || !is_base64url(token) {
            return Err(object.fault("token", "it is not base64 for URLs of 1 to 256 bytes"));
        }
        Ok(Some(Offer {
            kind,
            status: status(&object)?,
            url: object.needed_url("url")?,
            token: token.to_owned(),
            error: object.member("error").map(Problem::of_value),
        }))
    }
}

fn status(object: &Object) -> Result<Status, Malformed> {
    match object.needed_text("status")? {
        "pending" => Ok(Status::Pending),
        "processing" => Ok(Status::Processing),
        "valid" => Ok(Status::Valid),
        "invalid" | "expired" | "deactivated" | "revoked" => Ok(Status::Invalid),
        _ => Err(object.fault("status", "it is unknown")),
    }
}
