//! The messages of RFC 8555 section 7.1: parsing of the server's objects, and the payloads of requests.

#[cfg(test)]
mod tests;

mod authorization;
mod directory;
mod order;
mod renewal;

use serde_json::{Value, json};

pub use authorization::ChallengeKind;
pub(crate) use authorization::{Authorization, Status};
pub(crate) use directory::Directory;
pub(crate) use order::{Account, Order, OrderStatus, Orders};
pub(crate) use renewal::Renewal;

use crate::identifier::Identifier;
use crate::jws::{AccountKey, ExternalAccount};
use crate::key::KeyError;

/// Returns the payload of newAccount (RFC 8555 section 7.3). The server returns the account that the key has already.
pub(crate) fn new_account(
    contacts: &[String],
    terms_agreed: bool,
    binding: Option<(&AccountKey, &ExternalAccount, &str)>,
) -> Result<Value, KeyError> {
    let mut payload = json!({});
    if terms_agreed {
        payload["termsOfServiceAgreed"] = true.into();
    }
    if !contacts.is_empty() {
        payload["contact"] = contacts.into();
    }
    if let Some((key, external, url)) = binding {
        payload["externalAccountBinding"] = key.bind(external, url)?;
    }
    Ok(payload)
}

/// Returns the payload of newOrder (RFC 8555 section 7.4; `profile`; `replaces`: RFC 9773 section 5).
pub(crate) fn new_order(
    identifiers: &[Identifier],
    profile: Option<&str>,
    replaces: Option<&str>,
) -> Value {
    let object = |identifier: &Identifier| json!({ "type": identifier.kind(), "value": identifier.to_string() });
    let list: Vec<Value> = identifiers.iter().map(object).collect();
    let mut payload = json!({ "identifiers": list });
    if let Some(profile) = profile {
        payload["profile"] = profile.into();
    }
    if let Some(replaces) = replaces {
        payload["replaces"] = replaces.into();
    }
    payload
}
