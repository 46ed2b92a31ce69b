//! Problem documents: errors as the server reports them (RFC 7807, RFC 8555 section 6.7).

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::json::{Object, printable};
use crate::limits::SUBPROBLEMS_MAX;

/// An error that the server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of the error.
    pub kind: ProblemKind,
    /// The type as the server wrote it, shortened.
    pub type_text: String,
    /// The server's explanation, shortened.
    pub detail: String,
    /// Errors of single identifiers, each with the identifier as text.
    pub subproblems: Vec<(String, Problem)>,
}

/// The types of errors that the client distinguishes (RFC 8555 section 6.7, RFC 9773 section 7.4, profiles).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// No account has the URL of the request.
    AccountDoesNotExist,
    /// The certificate was already replaced by another order.
    AlreadyReplaced,
    /// The nonce is not known, or was used.
    BadNonce,
    /// The directory wants a binding to an external account.
    ExternalAccountRequired,
    /// The profile is not known, or not for this account.
    InvalidProfile,
    /// The order is not ready to be finalized.
    OrderNotReady,
    /// A rate limit was reached.
    RateLimited,
    /// The server has an internal error.
    ServerInternal,
    /// The account may not do this; also of a deactivated account.
    Unauthorized,
    /// The terms of service have to be agreed to.
    UserActionRequired,
    /// Another type, or none.
    Other,
}

const NAMESPACE: &str = "urn:ietf:params:acme:error:";
const KINDS: [(&str, ProblemKind); 10] = [
    ("accountDoesNotExist", ProblemKind::AccountDoesNotExist),
    ("alreadyReplaced", ProblemKind::AlreadyReplaced),
    ("badNonce", ProblemKind::BadNonce),
    ("externalAccountRequired", ProblemKind::ExternalAccountRequired),
    ("invalidProfile", ProblemKind::InvalidProfile),
    ("orderNotReady", ProblemKind::OrderNotReady),
    ("rateLimited", ProblemKind::RateLimited),
    ("serverInternal", ProblemKind::ServerInternal),
    ("unauthorized", ProblemKind::Unauthorized),
    ("userActionRequired", ProblemKind::UserActionRequired),
];

impl Problem {
    /// Parses the body of a response with an error status. A body that is no problem document is a problem without a
    /// type, with the body's beginning as its explanation.
    pub(crate) fn of_body(body: &[u8]) -> Problem {
        match Object::parse("problem", body) {
            Ok(object) => Problem::of_object(&object, true),
            Err(_) => {
                let beginning = body.get(..body.len().min(200)).unwrap_or_default();
                Problem::without_type(&String::from_utf8_lossy(beginning))
            }
        }
    }

    /// Parses the `error` of an order, an authorization or a challenge.
    pub(crate) fn of_value(value: &Value) -> Problem {
        match Object::of("problem", value) {
            Ok(object) => Problem::of_object(&object, true),
            Err(_) => Problem::without_type(""),
        }
    }

    fn without_type(detail: &str) -> Problem {
        Problem {
            kind: ProblemKind::Other,
            type_text: String::new(),
            detail: printable(detail),
            subproblems: Vec::new(),
        }
    }

    fn of_object(object: &Object, nested: bool) -> Problem {
        let text = |name| object.text(name).ok().flatten().unwrap_or_default();
        let type_text = text("type");
        let name = type_text.strip_prefix(NAMESPACE).unwrap_or_default();
        let kind = KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let parts = match object.member("subproblems") {
            Some(Value::Array(parts)) if nested => parts.as_slice(),
            _ => &[],
        };
        Problem {
            kind: kind.unwrap_or(ProblemKind::Other),
            type_text: printable(type_text.strip_prefix(NAMESPACE).unwrap_or(type_text)),
            detail: printable(text("detail")),
            subproblems: parts.iter().take(SUBPROBLEMS_MAX).filter_map(subproblem).collect(),
        }
    }
}

fn subproblem(value: &Value) -> Option<(String, Problem)> {
    let object = Object::of("problem", value).ok()?;
    let identifier = object.member("identifier").and_then(|member| member.get("value"));
    let identifier = identifier.and_then(Value::as_str).unwrap_or_default();
    Some((printable(identifier), Problem::of_object(&object, false)))
}

impl fmt::Display for Problem {
    /// Writes type, explanation and up to five subproblems in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 5;
        match (self.type_text.as_str(), self.detail.as_str()) {
            ("", "") => f.write_str("no reason given")?,
            ("", detail) => f.write_str(detail)?,
            (kind, "") => f.write_str(kind)?,
            (kind, detail) => write!(f, "{kind}: {detail}")?,
        }
        for (identifier, problem) in self.subproblems.iter().take(SHOWN_MAX) {
            write!(f, "; {identifier}: {}: {}", problem.type_text, problem.detail)?;
        }
        match self.subproblems.len().checked_sub(SHOWN_MAX) {
            Some(more @ 1..) => write!(f, "; and {more} more"),
            _ => Ok(()),
        }
    }
}
