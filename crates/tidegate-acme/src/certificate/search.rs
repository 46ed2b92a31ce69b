//! A new order, and the search for one whose URL was lost: the process was killed, or the connection broken, between
//! newOrder and its response. Without the search there would be two orders.

use super::work::{Call, Work, success};
use super::{Context, Want};
use crate::failure::{Consequence, Failure};
use crate::files::{Intent, Placed};
use crate::json::{Malformed, url_fault};
use crate::limits::{ORDER_PAGES_MAX, ORDERS_SEARCHED_MAX};
use crate::message::{Order, OrderStatus, Orders};
use crate::problem::ProblemKind;
use crate::step::Event;
use crate::wire::Response;

/// The search through the account's list of orders (RFC 8555 section 7.1.2.1).
#[derive(Debug)]
pub(super) struct Search {
    intent: Intent,
    page: Page,
    pages_left: usize,
    orders_left: usize,
    /// Orders of this page that were not looked at.
    candidates: Vec<String>,
}

#[derive(Debug)]
enum Page {
    First,
    At(String),
    Last,
}

impl Search {
    pub(super) fn new(intent: Intent) -> Search {
        Search {
            intent,
            page: Page::First,
            pages_left: ORDER_PAGES_MAX,
            orders_left: ORDERS_SEARCHED_MAX,
            candidates: Vec::new(),
        }
    }

    pub(super) fn intent(&self) -> &Intent {
        &self.intent
    }

    pub(super) fn into_intent(self) -> Intent {
        self.intent
    }

    pub(super) fn want(&self) -> Want {
        match (self.candidates.last(), &self.page) {
            (Some(url), _) | (None, Page::At(url)) => Call::read(url),
            (None, Page::First | Page::Last) => Want::Orders,
        }
    }

    pub(super) fn received(
        mut self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<(Work, Option<Event>), Failure> {
        match self.candidates.pop() {
            Some(url) => {
                if self.is_wanted(response, context)? {
                    let event = Event::Found(url.clone());
                    return Ok((Work::Record(Placed { intent: self.intent, url }), Some(event)));
                }
            }
            None => self.page_received(response, context)?,
        }
        let ended = self.candidates.is_empty() && matches!(self.page, Page::Last);
        Ok((if ended { Work::Create(self.intent) } else { Work::Search(self) }, None))
    }

    fn page_received(&mut self, response: &Response, context: &Context<'_>) -> Result<(), Failure> {
        success(response, context.now)?;
        let Orders(mut orders) = Orders::parse(&response.body)?;
        orders.retain(|url| !context.claimed.contains(url));
        orders.truncate(self.orders_left);
        self.orders_left -= orders.len();
        self.pages_left = self.pages_left.saturating_sub(1);
        let next = response.links("next").find(|url| url_fault(url).is_none());
        self.page = match next {
            Some(url) if self.pages_left > 0 && self.orders_left > 0 => Page::At(url.to_owned()),
            _ => Page::Last,
        };
        self.candidates = orders;
        Ok(())
    }

    /// Says whether an order can be the lost one: for the same names, and not finalized.
    fn is_wanted(&self, response: &Response, context: &Context<'_>) -> Result<bool, Failure> {
        if matches!(response.status, 403 | 404 | 410) {
            return Ok(false);
        }
        success(response, context.now)?;
        // An order with names of another kind, such as a wildcard, is of another client.
        let Ok(order) = Order::parse(&response.body) else { return Ok(false) };
        let same_profile = order.profile.is_none()
            || self.intent.profile.is_none()
            || order.profile == self.intent.profile;
        let is_open = matches!(order.status, OrderStatus::Pending | OrderStatus::Ready)
            && order.expires.is_none_or(|end| end > context.now);
        Ok(is_open && same_profile && order.is_for(&self.intent.names))
    }
}

/// Takes the response to newOrder.
pub(super) fn created(
    mut intent: Intent,
    response: &Response,
    context: &Context<'_>,
) -> Result<(Work, Option<Event>), Failure> {
    if let Err(failure) = success(response, context.now) {
        let profile_required =
            context.config.profile.as_ref().is_some_and(|profile| profile.required);
        match failure.problem_kind() {
            Some(ProblemKind::AlreadyReplaced) if intent.replaces.is_some() => {
                intent.replaces = None;
            }
            Some(ProblemKind::InvalidProfile) if intent.profile.is_some() && !profile_required => {
                let event = intent.profile.take().map(Event::DefaultProfile);
                return Ok((Work::Intend(intent), event));
            }
            // The server may not know the certificate: it is of another server or account. Without the field, which is only a
            // hint, it does not matter.
            _ if intent.replaces.is_some() && failure.consequence() == Consequence::Reorder => {
                intent.replaces = None;
            }
            _ => return Err(failure),
        }
        return Ok((Work::Intend(intent), None));
    }
    let url = response.location().filter(|url| url_fault(url).is_none());
    let fault = || Malformed::new("order", "Location", "it is missing, or not a URL");
    let url = url.ok_or_else(fault)?.to_owned();
    // Servers may give an order in progress again. It is for one certificate.
    if context.claimed.contains(&url) {
        return Err(Failure::OrderShared(url));
    }
    Ok((Work::Record(Placed { intent, url: url.clone() }), Some(Event::Ordered(url))))
}
