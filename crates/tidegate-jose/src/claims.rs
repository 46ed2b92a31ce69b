//! The times of a token (RFC 7519 sections 4.1.4 and 4.1.5).

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::Value;

use crate::error::TokenError;
use crate::json::Object;

/// Parses the claims of a token whose signature or encryption is right.
///
/// # Errors
/// They are not a JSON object.
pub fn parse_claims(payload: &[u8]) -> Result<Object, TokenError> {
    Object::parse(payload).map_err(|fault| TokenError::Json("payload", fault))
}

/// Checks `exp` and `nbf`, if the claims have them, against the time `now_millis` (milliseconds since 1970) with
/// `leeway` to either side. Times may have fractions of a second.
///
/// # Errors
/// A time is not a number, the token has expired, or is not valid yet.
pub fn check_times(claims: &Object, now_millis: u64, leeway: Duration) -> Result<(), TokenError> {
    // Exact to less than a millisecond for the next 200 000 years. Sums of finite numbers of JSON do not become NaN.
    let now = now_millis as f64 / 1000.0;
    let leeway = leeway.as_secs_f64();
    if time(claims, "exp")?.is_some_and(|expires| now >= expires + leeway) {
        return Err(TokenError::Expired);
    }
    if time(claims, "nbf")?.is_some_and(|begins| now < begins - leeway) {
        return Err(TokenError::NotYetValid);
    }
    Ok(())
}

fn time(claims: &Object, claim: &'static str) -> Result<Option<f64>, TokenError> {
    let seconds = claims.member(claim).map(|value| match value {
        Value::Number(number) => number.as_f64().ok_or(TokenError::Time(claim)),
        _ => Err(TokenError::Time(claim)),
    });
    seconds.transpose()
}
