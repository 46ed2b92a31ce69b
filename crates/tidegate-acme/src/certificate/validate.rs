//! Validation: authorizations are read, their challenges presented, the server asked to validate them, and the
//! authorizations looked at until all are valid.

use std::time::Duration;

use super::look::Look;
use super::work::{Call, Work, empty, next_look, success};
use super::{Context, Want};
use crate::challenge::Challenge;
use crate::failure::{Consequence, Failure};
use crate::files::Placed;
use crate::limits::POLLS_MAX;
use crate::message::{Authorization, Status};
use crate::time::Time;
use crate::wire::Response;

/// Authorizations are read, the last one first.
#[derive(Debug)]
pub(super) struct Fetch {
    /// How the order is looked at if there is nothing to validate.
    look: Look,
    authorizations: Vec<String>,
    open: Vec<Open>,
}

/// Challenges are presented, and the server is asked to validate them.
#[derive(Debug)]
pub(super) struct Validation {
    look: Look,
    open: Vec<Open>,
    /// Challenges that the server was asked about.
    asked: usize,
}

/// Authorizations are looked at, one after the other.
#[derive(Debug)]
pub(super) struct Check {
    look: Look,
    /// The rest; the last one is looked at.
    open: Vec<Open>,
    at: Time,
    polls: u32,
}

/// An authorization that is not valid yet.
#[derive(Debug)]
struct Open {
    authorization: String,
    challenge: Challenge,
    /// Where the server is asked to validate the challenge.
    url: String,
    is_asked: bool,
}

impl Fetch {
    pub(super) fn new(look: Look, authorizations: Vec<String>) -> Fetch {
        Fetch { look, authorizations, open: Vec::new() }
    }

    pub(super) fn placed(&self) -> &Placed {
        self.look.placed()
    }

    pub(super) fn want(&self) -> Want {
        match self.authorizations.last() {
            Some(url) => Call::read(url),
            // An order without authorizations is looked at again.
            None => Call::read(&self.look.placed().url),
        }
    }

    pub(super) fn received(
        mut self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<Work, Failure> {
        let Some(url) = self.authorizations.pop() else {
            return Ok(Work::Look(self.look));
        };
        success(response, context.now)?;
        let found = Authorization::parse(&response.body)?;
        match found.status {
            Status::Valid => {}
            Status::Invalid => return Err(invalid(&found)),
            Status::Pending | Status::Processing => {
                let kind = context.config.challenge;
                let missing = || Failure::NoChallenge(found.identifier.clone(), kind);
                let offer = found.offer(kind).ok_or_else(missing)?;
                let key = context.key.ok_or(Failure::AccountInvalid)?;
                let name = found.identifier.clone();
                self.open.push(Open {
                    authorization: url,
                    challenge: Challenge::new(kind, name, &offer.token, key),
                    url: offer.url.clone(),
                    is_asked: offer.status != Status::Pending,
                });
            }
        }
        if !self.authorizations.is_empty() {
            return Ok(Work::Fetch(self));
        }
        match self.open.is_empty() {
            true => Ok(Work::Look(self.look)),
            false => Ok(Work::Present(Validation { look: self.look, open: self.open, asked: 0 })),
        }
    }
}

impl Validation {
    pub(super) fn placed(&self) -> &Placed {
        self.look.placed()
    }

    pub(super) fn challenges(&self) -> impl Iterator<Item = Challenge> {
        self.open.iter().map(|open| open.challenge.clone())
    }

    /// The challenges are presented.
    pub(super) fn presented(self) -> Work {
        self.ask_on()
    }

    pub(super) fn want(&self) -> Want {
        match self.open.get(self.asked) {
            Some(open) => Call::post(&open.url, empty()),
            None => Call::read(&self.look.placed().url),
        }
    }

    /// Takes the response of a challenge. An error of it is left to the authorization, whose status decides: the server
    /// may have been asked before.
    pub(super) fn responded(
        mut self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<Work, Failure> {
        match success(response, context.now) {
            Err(failure) if failure.consequence() != Consequence::Reorder => return Err(failure),
            _ => {}
        }
        self.asked += 1;
        Ok(self.ask_on())
    }

    /// Goes on to the next challenge that the server was not asked about.
    fn ask_on(mut self) -> Work {
        let rest = self.open.iter().skip(self.asked);
        self.asked += rest.take_while(|open| open.is_asked).count();
        match self.asked < self.open.len() {
            true => Work::Respond(self),
            false => Work::Check(Check { look: self.look, open: self.open, at: Time(0), polls: 0 }),
        }
    }
}

impl Check {
    /// The clock was set back by this time.
    pub(super) fn set_back(&mut self, back: Duration) {
        self.at = self.at.before(back);
    }

    pub(super) fn placed(&self) -> &Placed {
        self.look.placed()
    }

    pub(super) fn want(&self, now: Time) -> Want {
        match self.open.last() {
            _ if self.at > now => Want::Wait(self.at),
            Some(open) => Call::read(&open.authorization),
            None => Call::read(&self.look.placed().url),
        }
    }

    pub(super) fn received(
        mut self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<Work, Failure> {
        success(response, context.now)?;
        let found = Authorization::parse(&response.body)?;
        match found.status {
            Status::Valid => {
                self.open.pop();
                (self.at, self.polls) = (Time(0), 0);
            }
            Status::Invalid => return Err(invalid(&found)),
            Status::Pending | Status::Processing if self.polls >= POLLS_MAX => {
                return Err(Failure::OrderSlow);
            }
            Status::Pending | Status::Processing => {
                self.at = next_look(response, self.polls, context.now);
                self.polls += 1;
            }
        }
        match self.open.is_empty() {
            // The order is ready at once, as a rule.
            true => Ok(Work::Look(self.look.at_once())),
            false => Ok(Work::Check(self)),
        }
    }
}

fn invalid(authorization: &Authorization) -> Failure {
    let error = authorization.error().cloned();
    Failure::Validation(authorization.identifier.clone(), error)
}
