//! Accounts, orders, and an account's list of orders (RFC 8555 sections 7.1.2 and 7.1.3).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::identifier::Identifier;
use crate::json::{Malformed, Object};
use crate::limits::{IDENTIFIERS_MAX, ORDERS_SEARCHED_MAX};
use crate::problem::Problem;
use crate::time::Time;

/// An account as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Says whether the account may be used: it is neither deactivated nor revoked.
    pub is_valid: bool,
    /// The URL of its list of orders. Let's Encrypt has none.
    pub orders: Option<String>,
}

/// The status of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderStatus {
    Pending,
    Ready,
    Processing,
    Valid,
    Invalid,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub status: OrderStatus,
    pub expires: Option<Time>,
    identifiers: BTreeSet<Identifier>,
    pub profile: Option<String>,
    pub authorizations: Vec<String>,
    pub finalize: String,
    pub certificate: Option<String>,
    pub error: Option<Problem>,
}

/// One page of an account's list of orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orders(pub Vec<String>);

impl Account {
    pub(crate) fn parse(body: &[u8]) -> Result<Account, Malformed> {
        let object = Object::parse("account", body)?;
        Ok(Account {
            is_valid: object.text("status")?.is_none_or(|status| status == "valid"),
            orders: object.url("orders")?,
        })
    }
}

impl Order {
    pub(crate) fn parse(body: &[u8]) -> Result<Order, Malformed> {
        let object = Object::parse("order", body)?;
        let status = match object.needed_text("status")? {
            "pending" => OrderStatus::Pending,
            "ready" => OrderStatus::Ready,
            "processing" => OrderStatus::Processing,
            "valid" => OrderStatus::Valid,
            "invalid" => OrderStatus::Invalid,
            _ => return Err(object.fault("status", "it is unknown")),
        };
        let parse = |value| identifier(&object, value);
        let list = object.list("identifiers", IDENTIFIERS_MAX)?.iter().map(parse);
        Ok(Order {
            status,
            expires: object.time("expires")?,
            identifiers: list.collect::<Result<_, _>>()?,
            profile: object.text("profile")?.map(str::to_owned),
            authorizations: object.urls("authorizations", IDENTIFIERS_MAX)?,
            finalize: object.needed_url("finalize")?,
            certificate: object.url("certificate")?,
            error: object.member("error").map(Problem::of_value),
        })
    }

    /// Says whether the order is for these identifiers, in whatever order.
    pub(crate) fn is_for(&self, identifiers: &[Identifier]) -> bool {
        self.identifiers.len() == identifiers.len()
            && identifiers.iter().all(|identifier| self.identifiers.contains(identifier))
    }
}

impl Orders {
    pub(crate) fn parse(body: &[u8]) -> Result<Orders, Malformed> {
        let object = Object::parse("list of orders", body)?;
        Ok(Orders(object.urls("orders", ORDERS_SEARCHED_MAX)?))
    }
}

/// Parses an identifier object of a message.
pub(super) fn identifier(object: &Object, value: &Value) -> Result<Identifier, Malformed> {
    let text = value.get("value").and_then(Value::as_str).unwrap_or_default();
    let identifier = Identifier::parse_wildcard(text)
        .map_err(|error| object.fault("identifiers", &error.to_string()))?;
    match value.get("type").and_then(Value::as_str) {
        Some(kind) if kind == identifier.kind() => Ok(identifier),
        _ => Err(object.fault("identifiers", "the type does not fit the value")),
    }
}
