//! Failures of steps, and the one place that says what follows from each.

use std::fmt;

use crate::chain::ChainError;
use crate::identifier::Identifier;
use crate::json::{Malformed, printable};
use crate::key::KeyError;
use crate::message::ChallengeKind;
use crate::problem::{Problem, ProblemKind};
use crate::time::Time;

/// The reason why a step, an order or an account has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The caller could not do a step: no connection, no room on the disk.
    Caller(String),
    /// The server responded with an error.
    Problem {
        /// The status of the response.
        status: u16,
        /// The error.
        problem: Problem,
        /// When the server wants to be asked again.
        retry_after: Option<Time>,
    },
    /// The server's response cannot be used.
    Malformed(Malformed),
    /// The server's certificate cannot be used.
    Chain(ChainError),
    /// The cryptographic library has failed.
    Key(KeyError),
    /// The server has validated a name, without success.
    Validation(Identifier, Option<Problem>),
    /// The server offers no challenge of this kind for a name.
    NoChallenge(Identifier, ChallengeKind),
    /// The server has made the order invalid.
    OrderInvalid(Option<Problem>),
    /// The order has expired.
    OrderExpired,
    /// The server gave the order of another certificate with the same names.
    OrderShared(String),
    /// The order was looked at many times, and is still not ready.
    OrderSlow,
    /// The account was deactivated or revoked.
    AccountInvalid,
    /// The server wants accounts that are bound to external ones.
    ExternalAccountRequired,
    /// The server does not offer the profile that is required.
    NoProfile(String),
    /// The terms of service were not agreed to, and the server refuses the account.
    Terms(String, Problem),
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The same again later. The order is not touched.
    Retry,
    /// The order is given up. Another one follows later.
    Reorder,
    /// The server does not have the account: it is registered again.
    Reregister,
}

impl Failure {
    pub(crate) fn consequence(&self) -> Consequence {
        match self {
            Failure::Caller(_)
            | Failure::Malformed(_)
            | Failure::Key(_)
            | Failure::OrderShared(_)
            | Failure::OrderSlow => Consequence::Retry,
            Failure::Problem { status, problem, .. } => match (problem.kind, status) {
                (ProblemKind::AccountDoesNotExist, _) => Consequence::Reregister,
                (ProblemKind::BadNonce | ProblemKind::RateLimited, _) => Consequence::Retry,
                (ProblemKind::ServerInternal | ProblemKind::OrderNotReady, _) => Consequence::Retry,
                // Redirections (none are followed), too early, too many, and what a proxy before the server says.
                (_, 300..=399 | 408 | 425 | 429 | 500..=599) => Consequence::Retry,
                _ => Consequence::Reorder,
            },
            Failure::Chain(_)
            | Failure::Validation(..)
            | Failure::NoChallenge(..)
            | Failure::OrderInvalid(_)
            | Failure::OrderExpired
            | Failure::AccountInvalid
            | Failure::ExternalAccountRequired
            | Failure::NoProfile(_)
            | Failure::Terms(..) => Consequence::Reorder,
        }
    }

    /// Returns when the server wants to be asked again, if it says so.
    pub(crate) fn retry_after(&self) -> Option<Time> {
        match self {
            Failure::Problem { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Says whether no response has arrived. Such failures say nothing about the order.
    pub(crate) fn is_of_the_caller(&self) -> bool {
        matches!(self, Failure::Caller(_))
    }

    pub(crate) fn problem_kind(&self) -> Option<ProblemKind> {
        match self {
            Failure::Problem { problem, .. } => Some(problem.kind),
            _ => None,
        }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::Malformed(malformed)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Failure {
        Failure::Key(error)
    }
}

impl From<ChainError> for Failure {
    fn from(error: ChainError) -> Failure {
        Failure::Chain(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = |problem: &Option<Problem>| {
            problem.as_ref().map_or_else(|| "no reason given".to_owned(), ToString::to_string)
        };
        match self {
            Failure::Caller(text) => f.write_str(&printable(text)),
            Failure::Problem { status, problem, .. } => {
                write!(f, "the server responded with {status}: {problem}")
            }
            Failure::Malformed(malformed) => malformed.fmt(f),
            Failure::Chain(error) => error.fmt(f),
            Failure::Key(error) => error.fmt(f),
            Failure::Validation(name, problem) => {
                write!(f, "{name} was not validated: {}", reason(problem))
            }
            Failure::NoChallenge(name, kind) => {
                write!(f, "the server offers no challenge {kind} for {name}")
            }
            Failure::OrderInvalid(problem) => {
                write!(f, "the server has made the order invalid: {}", reason(problem))
            }
            Failure::OrderExpired => f.write_str("the order has expired"),
            Failure::OrderShared(url) => {
                write!(f, "the order {url} is in progress for another certificate with these names")
            }
            Failure::OrderSlow => f.write_str("the order is not ready after many looks at it"),
            Failure::AccountInvalid => f.write_str("the account was deactivated or revoked"),
            Failure::ExternalAccountRequired => {
                f.write_str("the server wants an account that is bound to an external one")
            }
            Failure::NoProfile(name) => {
                write!(f, "the server does not offer the profile \"{}\"", printable(name))
            }
            Failure::Terms(url, problem) => write!(
                f,
                "the server refused the account: {problem}; its terms of service, which were not accepted, are at {url}"
            ),
        }
    }
}

impl std::error::Error for Failure {}
