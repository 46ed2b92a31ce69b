//! The directory: the URLs of the server's resources (RFC 8555 section 7.1.1).

use serde_json::Value;

use crate::json::{Malformed, Object, printable};
use crate::limits::PROFILES_MAX;

/// The directory of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub new_nonce: String,
    pub new_account: String,
    pub new_order: String,
    /// RFC 9773; many servers have none.
    pub renewal_info: Option<String>,
    /// Where the terms of service are.
    pub terms: Option<String>,
    pub external_account_required: bool,
    /// The names of the profiles; none where the server has no profiles.
    pub profiles: Vec<String>,
}

impl Directory {
    pub(crate) fn parse(body: &[u8]) -> Result<Directory, Malformed> {
        let object = Object::parse("directory", body)?;
        let meta = match object.member("meta") {
            Some(meta) => Object::of("directory", meta)?,
            None => Object::of("directory", &Value::Object(serde_json::Map::new()))?,
        };
        let profiles = match meta.member("profiles") {
            Some(Value::Object(profiles)) => profiles.keys().take(PROFILES_MAX).cloned().collect(),
            Some(_) => return Err(object.fault("profiles", "it is not an object")),
            None => Vec::new(),
        };
        Ok(Directory {
            new_nonce: object.needed_url("newNonce")?,
            new_account: object.needed_url("newAccount")?,
            new_order: object.needed_url("newOrder")?,
            renewal_info: object.url("renewalInfo")?,
            // Only shown; Pebble has a URL `data:`.
            terms: meta.text("termsOfService")?.map(printable),
            external_account_required: meta.boolean("externalAccountRequired")?,
            profiles,
        })
    }
}
