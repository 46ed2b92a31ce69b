//! The states of an order, and what each of them needs.

use std::time::Duration;

use serde_json::{Value, json};

use super::Want;
use super::download::Download;
use super::look::{Finalize, Look};
use super::search::Search;
use super::validate::{Check, Fetch, Validation};
use crate::chain::Chain;
use crate::config::Wanted;
use crate::failure::Failure;
use crate::files::{Change, Failed, Intent, OrderFile, Placed, order_file};
use crate::limits::{POLL_PAUSE_MAX, POLL_PAUSE_MIN};
use crate::message::new_order;
use crate::problem::Problem;
use crate::time::Time;
use crate::wire::Response;

/// The state of an order. `certificate.rs` draws the transitions.
#[derive(Debug, Default)]
pub(super) enum Work {
    /// No order is in flight.
    #[default]
    Rest,
    /// The intention is being stored.
    Intend(Intent),
    /// newOrder may have been sent: the order is searched for.
    Search(Search),
    /// newOrder.
    Create(Intent),
    /// The URL is being stored.
    Record(Placed),
    /// The order is looked at.
    Look(Look),
    /// Authorizations are read.
    Fetch(Fetch),
    /// Challenges are being presented.
    Present(Validation),
    /// The server is asked to validate them.
    Respond(Validation),
    /// Authorizations are looked at until they are valid.
    Check(Check),
    /// The request for the certificate.
    Finalize(Finalize),
    /// The certificate and perhaps its alternate chains are read.
    Download(Download),
    /// Key and certificate are being stored.
    Keep(Box<Keep>),
    /// The order's file is being removed.
    Clear,
    /// The failure is being stored.
    Fail(Failed),
}

/// A certificate that is to be stored.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    pub placed: Placed,
    pub chain: Chain,
}

/// A signed request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub target: Target,
    /// The payload; none for POST-as-GET.
    pub payload: Option<Value>,
    pub accept: Option<&'static str>,
}

/// The URL of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    NewOrder,
    Url(String),
}

impl Call {
    /// Makes a POST-as-GET.
    pub(super) fn read(url: &str) -> Want {
        Want::Call(Call { target: Target::Url(url.to_owned()), payload: None, accept: None })
    }

    pub(super) fn post(url: &str, payload: Value) -> Want {
        let target = Target::Url(url.to_owned());
        Want::Call(Call { target, payload: Some(payload), accept: None })
    }

    pub(super) fn certificate(url: &str) -> Want {
        let accept = Some("application/pem-certificate-chain");
        Want::Call(Call { target: Target::Url(url.to_owned()), payload: None, accept })
    }
}

impl Work {
    pub(super) fn search(intent: Intent) -> Work {
        Work::Search(Search::new(intent))
    }

    pub(super) fn look(placed: Placed) -> Work {
        Work::Look(Look::new(placed))
    }

    pub(super) fn want(&self, wanted: &Wanted, now: Time) -> Want {
        match self {
            Work::Rest => Want::Wait(now),
            Work::Intend(intent) => Want::Store(OrderFile::Intended(intent.clone()).change(wanted)),
            Work::Search(search) => search.want(),
            Work::Create(Intent { names, profile, replaces, .. }) => {
                let payload = new_order(names, profile.as_deref(), replaces.as_deref());
                let target = Target::NewOrder;
                Want::Call(Call { target, payload: Some(payload), accept: None })
            }
            Work::Record(placed) => Want::Store(OrderFile::Placed(placed.clone()).change(wanted)),
            Work::Look(look) => look.want(now),
            Work::Fetch(fetch) => fetch.want(),
            Work::Present(validation) => Want::Present(validation.challenges().collect()),
            Work::Respond(validation) => validation.want(),
            Work::Check(check) => check.want(now),
            Work::Finalize(finalize) => finalize.want(),
            Work::Download(download) => download.want(),
            Work::Keep(keep) => {
                Want::Store(Change::certificate(wanted, &keep.placed.intent.key, &keep.chain))
            }
            Work::Clear => Want::Store(Change::remove(order_file(wanted))),
            Work::Fail(failed) => Want::Store(OrderFile::Failed(failed.clone()).change(wanted)),
        }
    }

    /// The clock was set back by this time.
    pub(super) fn set_back(&mut self, back: Duration) {
        match self {
            Work::Look(look) => look.set_back(back),
            Work::Check(check) => check.set_back(back),
            Work::Fail(failed) => failed.until = failed.until.before(back),
            _ => {}
        }
    }

    /// Returns the state after a failure, which is the one after a restart: what the files describe.
    pub(super) fn resume(&self) -> Work {
        match self {
            Work::Rest => Work::Rest,
            // Not yet stored, so nothing was sent.
            Work::Intend(intent) => Work::Intend(intent.clone()),
            Work::Search(search) => Work::search(search.intent().clone()),
            Work::Create(intent) => Work::search(intent.clone()),
            Work::Record(placed) => Work::Record(placed.clone()),
            Work::Keep(keep) => Work::Keep(keep.clone()),
            Work::Clear => Work::Clear,
            Work::Fail(failed) => Work::Fail(failed.clone()),
            work => work.placed().map_or(Work::Rest, |placed| Work::look(placed.clone())),
        }
    }

    fn placed(&self) -> Option<&Placed> {
        match self {
            Work::Record(placed) => Some(placed),
            Work::Look(look) => Some(look.placed()),
            Work::Fetch(fetch) => Some(fetch.placed()),
            Work::Present(validation) | Work::Respond(validation) => Some(validation.placed()),
            Work::Check(check) => Some(check.placed()),
            Work::Finalize(finalize) => Some(finalize.placed()),
            Work::Download(download) => Some(download.placed()),
            Work::Keep(keep) => Some(&keep.placed),
            Work::Rest
            | Work::Intend(_)
            | Work::Search(_)
            | Work::Create(_)
            | Work::Clear
            | Work::Fail(_) => None,
        }
    }

    pub(super) fn intent(&self) -> Option<&Intent> {
        match self {
            Work::Intend(intent) | Work::Create(intent) => Some(intent),
            Work::Search(search) => Some(search.intent()),
            work => work.placed().map(|placed| &placed.intent),
        }
    }

    pub(super) fn url(&self) -> Option<&str> {
        self.placed().map(|placed| placed.url.as_str())
    }

    /// Says whether challenges may be needed.
    pub(super) fn is_validating(&self) -> bool {
        matches!(
            self,
            Work::Look(_) | Work::Fetch(_) | Work::Present(_) | Work::Respond(_) | Work::Check(_)
        )
    }
}

/// Returns the failure of a response with an error status.
pub(crate) fn success(response: &Response, now: Time) -> Result<(), Failure> {
    if response.is_success() {
        return Ok(());
    }
    Err(Failure::Problem {
        status: response.status,
        problem: Problem::of_body(&response.body),
        retry_after: response.retry_after().and_then(|value| Time::from_retry_after(value, now)),
    })
}

/// Returns when a resource is looked at again: when the server says, within limits, or after a growing pause.
pub(super) fn next_look(response: &Response, polls: u32, now: Time) -> Time {
    let asked = response.retry_after().and_then(|value| Time::from_retry_after(value, now));
    let growing = POLL_PAUSE_MIN.saturating_mul(1 << polls.min(8));
    let pause = asked.map_or(growing, |time| time.since(now));
    now.after(pause.clamp(POLL_PAUSE_MIN, POLL_PAUSE_MAX))
}

/// Returns the payload by which the server is asked to validate a challenge (RFC 8555 section 7.5.1).
pub(super) fn empty() -> Value {
    json!({})
}
