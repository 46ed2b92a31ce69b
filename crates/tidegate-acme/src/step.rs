//! Steps that the caller does, their results, and reports for a log.

use std::fmt;

use crate::challenge::Challenge;
use crate::failure::Failure;
use crate::files::Change;
use crate::key::{Key, KeyKind};
use crate::time::Time;
use crate::wire::{Request, Response};

/// The next step of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Change a file; durable before [`Outcome::Done`].
    Store(Change),
    /// Send a request; [`Outcome::Response`].
    Send(Request),
    /// Make a key by [`Key::generate`]; [`Outcome::Key`].
    MakeKey(KeyKind),
    /// Present these challenges on every listener, until they are withdrawn; [`Outcome::Done`]. Some may be presented
    /// already.
    Present(Vec<Challenge>),
    /// Present these challenges no longer; [`Outcome::Done`].
    Withdraw(Vec<Challenge>),
    /// Log this. It has no result.
    Report(Report),
    /// Nothing is to be done before this moment. It has no result.
    Wait(Time),
}

/// The result of a step.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The response, with an error status too.
    Response(Response),
    /// The key.
    Key(Key),
    /// It could not be done, for this reason.
    Failed(String),
}

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The certificate, by its position among the wanted ones; none for the account.
    pub certificate: Option<usize>,
    /// What has happened.
    pub event: Event,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The account has this URL.
    Registered(String),
    /// The server has accepted the order with this URL.
    Ordered(String),
    /// An order whose URL was lost was found again.
    Found(String),
    /// A certificate was issued; it is stored, and can be used from here on. Its validity ends at this moment.
    Issued(Time),
    /// Something has failed. It is tried again at this moment.
    Failed(Failure, Time),
    /// The server explains the time of a renewal on this page.
    Explained(String),
    /// The server does not offer this profile, so that its default is taken.
    DefaultProfile(String),
    /// The server has refused other contacts of the account. The old ones stay.
    ContactsRefused(Failure),
    /// This file is damaged, and is not used.
    Damaged(String),
}

impl Event {
    /// Says whether the event is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Event::Failed(..) | Event::ContactsRefused(_) | Event::Damaged(_))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Registered(url) => write!(f, "the account is {url}"),
            Event::Ordered(url) => write!(f, "the order is {url}"),
            Event::Found(url) => write!(f, "the order {url} was found again"),
            Event::Issued(until) => write!(f, "a certificate was issued, valid until {until}"),
            Event::Failed(failure, until) => write!(f, "{failure}; the next attempt is at {until}"),
            Event::Explained(url) => write!(f, "the server explains the time of renewal at {url}"),
            Event::DefaultProfile(name) => {
                write!(f, "the server does not offer the profile \"{name}\": its default is used")
            }
            Event::ContactsRefused(failure) => {
                write!(f, "the contacts of the account were not changed: {failure}")
            }
            Event::Damaged(file) => write!(f, "the file \"{file}\" is damaged, and is not used"),
        }
    }
}
