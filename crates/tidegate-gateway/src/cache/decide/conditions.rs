//! The comparison of a request's conditions with a response that may come from the cache.

use tidegate_codec::conditional::IfModifiedSince;
use tidegate_core::Exchange;
use tidegate_core::settings::IfModifiedSinceSetting as Setting;

use crate::cache::status::follows_rfc9111;

/// Returns how `If-Modified-Since` is compared: by the directive `if_modified_since`, except for responses of a cache
/// that follows RFC 9111, whose conditions are evaluated in the order of RFC 9110 section 13.2.2.
pub fn comparison(x: &Exchange) -> IfModifiedSince {
    match x.settings().if_modified_since {
        Setting::Off => IfModifiedSince::Off,
        _ if follows_rfc9111(x) => IfModifiedSince::Rfc9110,
        Setting::Exact => IfModifiedSince::Exact,
        Setting::Before => IfModifiedSince::Before,
    }
}
