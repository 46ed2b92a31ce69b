//! Times, their limits, and the leeway.

use std::time::Duration;

use proptest::prelude::*;

use super::check_times;
use crate::{Object, TokenError};

fn check(claims: &str, now_millis: u64, leeway: u64) -> Result<(), TokenError> {
    let claims = Object::parse(claims.as_bytes()).expect(claims);
    check_times(&claims, now_millis, Duration::from_secs(leeway))
}

#[test]
fn times_and_leeway() {
    for (claims, now_millis, leeway, expected) in [
        ("{}", 0, 0, Ok(())),
        (r#"{"exp":10}"#, 9_999, 0, Ok(())),
        (r#"{"exp":10}"#, 10_000, 0, Err(TokenError::Expired)),
        (r#"{"exp":10.5}"#, 10_499, 0, Ok(())),
        (r#"{"exp":10.5}"#, 10_500, 0, Err(TokenError::Expired)),
        (r#"{"exp":10}"#, 14_999, 5, Ok(())),
        (r#"{"exp":10}"#, 15_000, 5, Err(TokenError::Expired)),
        (r#"{"nbf":10}"#, 9_999, 0, Err(TokenError::NotYetValid)),
        (r#"{"nbf":10}"#, 10_000, 0, Ok(())),
        (r#"{"nbf":10}"#, 5_000, 5, Ok(())),
        (r#"{"nbf":10}"#, 4_999, 5, Err(TokenError::NotYetValid)),
        (r#"{"exp":1e308,"nbf":-1e308}"#, u64::MAX, u64::MAX, Ok(())),
        (r#"{"exp":-1}"#, 0, 0, Err(TokenError::Expired)),
        (r#"{"exp":18446744073709551615}"#, 1 << 50, 0, Ok(())),
        (r#"{"exp":"10"}"#, 0, 0, Err(TokenError::Time("exp"))),
        (r#"{"nbf":null}"#, 0, 0, Err(TokenError::Time("nbf"))),
        (r#"{"exp":true}"#, 0, 0, Err(TokenError::Time("exp"))),
        (r#"{"exp":[99]}"#, 0, 0, Err(TokenError::Time("exp"))),
    ] {
        assert_eq!(check(claims, now_millis, leeway), expected, "{claims} {now_millis} {leeway}");
    }
}

proptest! {
    #[test]
    fn a_longer_leeway_refuses_no_more(exp: i64, nbf: f64, now: u64, leeway in 0_u64..1 << 40, more in 0_u64..1 << 40) {
        prop_assume!(nbf.is_finite());
        let claims = format!(r#"{{"exp":{exp},"nbf":{nbf:e}}}"#);
        if check(&claims, now, leeway).is_ok() {
            prop_assert!(check(&claims, now, leeway + more).is_ok());
        }
    }
}
