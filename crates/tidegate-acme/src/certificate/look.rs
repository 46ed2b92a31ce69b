//! An order as the server sees it, which says what follows; and its end on the client's side, finalize.

use std::time::Duration;

use serde_json::json;

use super::download::Download;
use super::validate::Fetch;
use super::work::{Call, Work, next_look, success};
use super::{Context, Want};
use crate::csr;
use crate::encoding::base64url;
use crate::failure::Failure;
use crate::files::Placed;
use crate::json::Malformed;
use crate::limits::POLLS_MAX;
use crate::message::{Order, OrderStatus};
use crate::time::Time;
use crate::wire::Response;

/// The order is looked at, now or at a moment.
#[derive(Debug)]
pub(super) struct Look {
    placed: Placed,
    at: Time,
    polls: u32,
}

/// The order is ready: the server gets the request for the certificate.
#[derive(Debug)]
pub(super) struct Finalize {
    placed: Placed,
    url: String,
    csr: Vec<u8>,
    polls: u32,
}

impl Look {
    /// The clock was set back by this time.
    pub(super) fn set_back(&mut self, back: Duration) {
        self.at = self.at.before(back);
    }

    pub(super) fn new(placed: Placed) -> Look {
        Look { placed, at: Time(0), polls: 0 }
    }

    pub(super) fn placed(&self) -> &Placed {
        &self.placed
    }

    pub(super) fn at_once(self) -> Look {
        Look { at: Time(0), ..self }
    }

    pub(super) fn want(&self, now: Time) -> Want {
        match self.at > now {
            true => Want::Wait(self.at),
            false => Call::read(&self.placed.url),
        }
    }

    pub(super) fn received(
        self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<Work, Failure> {
        seen(self.placed, self.polls, response, context)
    }
}

impl Finalize {
    pub(super) fn placed(&self) -> &Placed {
        &self.placed
    }

    pub(super) fn want(&self) -> Want {
        Call::post(&self.url, json!({ "csr": base64url(&self.csr) }))
    }

    pub(super) fn received(
        self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<Work, Failure> {
        seen(self.placed, self.polls, response, context)
    }
}

/// Decides by the status of an order. The order is that of a look, or of the response to finalize.
fn seen(
    placed: Placed,
    polls: u32,
    response: &Response,
    context: &Context<'_>,
) -> Result<Work, Failure> {
    success(response, context.now)?;
    let order = Order::parse(&response.body)?;
    if !order.is_for(&placed.intent.names) {
        return Err(
            Malformed::new("order", "identifiers", "they differ from those of the order").into()
        );
    }
    let open = !matches!(order.status, OrderStatus::Valid | OrderStatus::Invalid);
    if open && order.expires.is_some_and(|end| end <= context.now) {
        return Err(Failure::OrderExpired);
    }
    if polls >= POLLS_MAX {
        return Err(Failure::OrderSlow);
    }
    match order.status {
        OrderStatus::Pending => {
            let at = next_look(response, polls, context.now);
            let look = Look { placed, at, polls: polls + 1 };
            Ok(Work::Fetch(Fetch::new(look, order.authorizations)))
        }
        OrderStatus::Ready => {
            let common_name = context.config.common_name;
            let csr = csr::request(&placed.intent.key, &placed.intent.names, common_name)?;
            Ok(Work::Finalize(Finalize { placed, url: order.finalize, csr, polls: polls + 1 }))
        }
        OrderStatus::Processing => {
            let at = next_look(response, polls, context.now);
            Ok(Work::Look(Look { placed, at, polls: polls + 1 }))
        }
        OrderStatus::Valid => {
            let missing = || Malformed::new("order", "certificate", "it is missing");
            let url = order.certificate.ok_or_else(missing)?;
            Ok(Work::Download(Download::new(placed, url)))
        }
        OrderStatus::Invalid => Err(Failure::OrderInvalid(order.error)),
    }
}
